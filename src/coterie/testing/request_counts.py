"""Requests per command: the table of docs/requests.md, which a test compares with what brokers count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["ROWS", "RequestRow", "count", "requests"]


class RequestRow(NamedTuple):
    """What runs, its arguments, and a formula for each API."""

    #: groups, kafka-consumer-groups, dataset or pipeline.
    kind: str
    arguments: str
    formulas: Mapping[str, str]

    @property
    def command(self) -> str:
        if self.kind == "dataset":
            return f"Spark source, dataset `{self.arguments}`"
        front = {"groups": "coterie groups", "pipeline": "coterie pipeline"}
        return f"`{front.get(self.kind, self.kind)} {self.arguments}`"


def count(formula: str, values: Mapping[str, int]) -> int:
    """The value of a formula: a sum of products of numbers and letters, such as `2 + C L`."""
    total = 0
    for term in formula.split(" + "):
        product = 1
        for factor in term.split():
            product *= int(factor) if factor.isdigit() else values[factor]
        total += product
    return total


_LIST = {"Metadata": "2", "ListGroups": "B"}
_DESCRIBED = {**_LIST, "DescribeGroups": "C"}
_READ = {**_LIST, "OffsetFetch": "C"}
_BOTH = {**_DESCRIBED, "OffsetFetch": "C"}
_LAG = {**_BOTH, "Metadata": "3", "ListOffsets": "L"}
_COMMITS = {"Metadata": "4", "ListOffsets": "2 L"}
_ONE = {"FindCoordinator": "1", "DescribeGroups": "1"}
_ONE_READ = {**_ONE, "OffsetFetch": "1"}
_ONE_LAG = {**_ONE_READ, "Metadata": "1", "ListOffsets": "L"}

_GROUPS = {
    "list": _LIST,
    "list --state Empty": _LIST,
    "list --type classic": _LIST,
    "list --match idle": _LIST,
    "list --topic orders": _BOTH,
    "list --lag-over 0": _LAG,
    "list --idle-for 1h": {**_LIST, **_COMMITS},
    "list --columns group,members,lag,topics": _LAG,
    "describe": _LAG,
    "describe -o wide": {**_LAG, "ListOffsets": "2 L"},
    "describe idle-0": _ONE_LAG,
    "members": _DESCRIBED,
    "members idle-0": _ONE,
    "offsets": _READ,
    "offsets --topic orders": _BOTH,
    "offsets --columns group,committed_at": {**_READ, **_COMMITS},
    "offsets idle-0": _ONE_READ,
    "lag": _LAG,
    "lag --by group": _LAG,
    "lag --topic orders": _LAG,
    "lag -o wide": {**_LAG, "ListOffsets": "2 L"},
    "lag idle-0": _ONE_LAG,
    "watch --count 1": _LAG,
    "export": _READ,
    "export --topic orders": _BOTH,
    "delete --state Empty": _READ,
    "delete --topic orders": _BOTH,
    "delete idle-0": {**_ONE_READ, "Metadata": "1"},
    "delete-offsets --topic orders": _BOTH,
    "reset --state Empty --to latest": {**_READ, "Metadata": "3", "ListOffsets": "2 L"},
    "reset idle-0 --to earliest --topic orders": {**_ONE_LAG, "ListOffsets": "2 L"},
    "clone idle-0 idle-1": {
        "Metadata": "1",
        "FindCoordinator": "1",
        "DescribeGroups": "2",
        "OffsetFetch": "2",
    },
}
_TOOL = {
    "--list": _LIST,
    "--list --state": _LIST,
    "--describe --group idle-0": {**_ONE_LAG, "Metadata": "2"},
    "--describe --group idle-0 --state": {**_ONE, "Metadata": "1"},
    "--describe --group idle-0 --members": {**_ONE, "Metadata": "1"},
    "--describe --all-groups": _LAG,
    "--describe --all-groups --state": _DESCRIBED,
    "--describe --all-groups --members": _DESCRIBED,
    "--reset-offsets --group idle-0 --to-latest --topic orders": {
        **_ONE,
        "Metadata": "2",
        "ListOffsets": "L",
    },
    "--reset-offsets --group idle-0 --to-earliest --all-topics": {**_ONE_LAG, "Metadata": "2"},
    "--reset-offsets --all-groups --to-latest --all-topics": _LAG,
    "--delete-offsets --group spare --topic orders": {
        "Metadata": "2",
        "FindCoordinator": "1",
        "OffsetDelete": "1",
    },
    "--delete --group spare": {"Metadata": "1", "FindCoordinator": "1", "DeleteGroups": "1"},
}
_DATASETS = {
    "groups": _DESCRIBED,
    "members": _DESCRIBED,
    "assignments": _DESCRIBED,
    "offsets": {**_LAG, "ListOffsets": "2 L"},
    "end_offsets": {"Metadata": "1", "ListOffsets": "2 L"},
    "errors": {**_BOTH, "Metadata": "4", "ListOffsets": "2 L"},
}
_PIPELINE = {
    "snapshot": {**_BOTH, "ListOffsets": "2 L"},
    "ingest": {"Metadata": "1", "ListOffsets": "3 L"},
}

ROWS = tuple(
    RequestRow(kind, arguments, formulas)
    for kind, table in (
        ("groups", _GROUPS),
        ("kafka-consumer-groups", _TOOL),
        ("pipeline", _PIPELINE),
        ("dataset", _DATASETS),
    )
    for arguments, formulas in table.items()
)

_APIS = (
    "Metadata",
    "FindCoordinator",
    "ListGroups",
    "DescribeGroups",
    "OffsetFetch",
    "ListOffsets",
)


def requests() -> str:
    """The text of docs/requests.md."""
    lines = [
        "# Requests per command",
        "",
        "Generated from `coterie.testing.request_counts`; a test runs every row against three embedded",
        "brokers and counts requests where they arrive.",
        "",
        "B is the number of brokers, C the number of brokers that coordinate the groups in question, L the",
        "number of brokers that lead the partitions in question; C and L are at most B. The numbers of",
        "groups and of partitions change the size of requests, not their number. Requests for very many",
        "groups are split (`max.request.size`; 10,000 groups in a snapshot, 1,000 in a reset). The groups",
        "are classic: groups of the consumer protocol need ConsumerGroupDescribe instead of",
        "DescribeGroups. A broker before KIP-699 or KIP-709 gets a request for each group.",
        "",
        "Not counted: ApiVersions and SASL, once per connection; Fetch, which depends on how much there",
        "is to read. Commands of `coterie groups` that change something are counted as plans, without",
        "`--execute`. `pipeline ingest` is counted until reading begins; it needs three offsets of each",
        "log: the beginning, the end, and the end of committed transactions. A dataset of the Spark source",
        "has a client in the driver and one in each task; a task has up to 1,000 groups, and the table is",
        "for one task.",
        "",
        "`python -m bench requests` compares these numbers with those of Kafka's own tool, of its admin",
        "client in Java and of kadm, a client in Go. All of them send at least as many requests, with one",
        "exception: kadm lists groups with one Metadata request, in a new client. Coterie sends a second",
        "one, as Kafka's client does, to check that no coordinator has moved while it listed groups.",
        "",
        f"| command | {' | '.join(_APIS)} | others |",
        f"|---|{'---|' * len(_APIS)}---|",
    ]
    for row in ROWS:
        cells = [row.formulas.get(api, "") for api in _APIS]
        others = [f"{api} {text}" for api, text in row.formulas.items() if api not in _APIS]
        lines.append(f"| {row.command} | {' | '.join(cells)} | {', '.join(others)} |")
    return "\n".join([*lines, ""])
