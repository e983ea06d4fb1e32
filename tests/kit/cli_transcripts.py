"""Transcripts of Kafka's tool: reading them, the order to replay them in, and what of their text may differ.

What varies from run to run is masked: member ids, ports, times. What the tool prints in the order of a hash
is sorted. What differs between Kafka's tool and ours on purpose is left out, and only that:
docs/kafka-consumer-groups.md has the list.
"""

from __future__ import annotations

import functools
import gzip
import json
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tests.kit.golden import DATA

__all__ = ["Said", "Transcript", "in_order", "secured_in_order", "transcripts"]

#: Scenarios that change something, in the order in which they were run; all others go before them.
_CHANGES: Final = (
    "reset-to-offset-execute", "describe-after-reset-execute", "reset-from-file-execute",
    "reset-to-earliest-execute", "reset-new-group-execute", "describe-made-by-reset-state",
    "reset-active-consumer-group", "reset-rebalancing-group",
    "delete-offsets-partition", "delete-offsets-topic", "delete-offsets-two-topics",
    "delete-offsets-unknown-topic", "delete-offsets-unknown-partition",
    "delete-offsets-mixed-topics", "delete-offsets-missing-group",
    "delete-empty", "delete-again", "delete-mixed", "delete-non-empty", "delete-non-empty-consumer",
    "delete-share", "delete-consumer-empty", "delete-two-ok", "delete-all-groups",
    "usage-positional",
)  # fmt: skip
#: The same for those with users.
_SECURED_CHANGES: Final = (
    "acl-dora-delete", "acl-dora-delete-all", "acl-one-delete-two", "acl-alice-delete",
    "acl-alice-delete-offsets", "acl-dorat-delete-offsets", "acl-dorat-reset-execute",
    "acl-reset-reset-execute", "acl-del-delete-offsets", "acl-delt-delete-offsets",
    "acl-del-delete-mixed", "acl-admin-delete",
)  # fmt: skip
_LAST_OF_CLICKS: Final = "reset-to-datetime-execute"
#: Scenarios that ran while nobody listened, and how long they wait here: not thirty seconds.
_PATIENCE: Final = {
    "usage-execute-without-reset": ("--timeout", "300"),
    **dict.fromkeys(("unreachable-delete", "unreachable-describe", "unreachable-reset"), ()),
}


class Said(NamedTuple):
    """What a tool wrote, and how it ended."""

    exit: int
    stdout: str
    stderr: str


class Transcript(NamedTuple):
    """One run of Kafka's tool."""

    name: str
    argv: tuple[str, ...]
    files: dict[str, str]
    said: Said

    @property
    def secured(self) -> bool:
        """Whether it belongs to the world with users and ACLs."""
        return self.name.startswith("acl-")

    def arguments(self, bootstrap: str, nobody: str) -> list[str]:
        """The command line for a cluster of ours; `nobody` is an address where nobody listens."""
        alone = self.name in _PATIENCE
        places = {
            "127.0.0.1:18091": nobody if alone else bootstrap,
            "127.0.0.1:18092": bootstrap,
            "127.0.0.1:18099": nobody,
        }
        waits = {"3000": "300"} if alone else {}
        words = [places.get(each, waits.get(each, each)) for each in self.argv]
        return words + list(_PATIENCE.get(self.name, ()))

    def mentions(self, names: set[str]) -> set[str]:
        """Which of these names it has anywhere."""
        text = "\n".join([*self.argv, self.said.stdout, self.said.stderr])
        return {name for name in names if re.search(rf"(?<![\w-]){name}(?![\w-])", text)}

    def canonical(self, said: Said) -> Said:
        """What is to be equal, of what was said here or anywhere else."""
        if "--all-groups" in self.argv:
            # Of several groups that may not be looked up, any can be the first.
            said = Said(said.exit, *(_DENIED.sub("one", each) for each in said[1:]))
        if self.argv[-2:] in {("--timeout", "1"), ("--timeout", "-1")}:
            said = Said(said.exit, *(_HOW_FAR.sub("", each) for each in said[1:]))
        return Said(said.exit, self._stdout(said.stdout), self._stderr(said.stderr))

    def _stdout(self, text: str) -> str:
        lines = _masked(text).split("\n")
        if "--describe" in self.argv:
            return "\n".join(_by_member(lines))
        if "--delete-offsets" in self.argv:
            return "\n".join(lines)
        return "\n".join(_sorted_runs([_sorted_names(line) for line in lines]))

    def _stderr(self, text: str) -> str:
        lines = [line for line in _masked(text).split("\n") if not _JAVA_ONLY.match(line)]
        seen: list[str] = []
        for line in lines:
            # How often somebody knocks in vain is a matter of time.
            if not (line.startswith("[time] WARN [AdminClient") and line in seen):
                seen.append(_sorted_names(line))
        return "\n".join(seen)


_DENIED: Final = re.compile(r"(?<=CoordinatorKey\(idValue=')[^']*")
#: How far Kafka's client comes before such a short timeout depends on how warm its JVM is.
_HOW_FAR: Final = re.compile(r"(?<=TimeoutException: ).*|^Caused by: .*\n", re.MULTILINE)
_JAVA_ONLY: Final = re.compile(
    r"\t|com\.fasterxml\.| at \[Source"  # stack traces, and those of the CSV reader
    # What the client library logs about an unknown topic, and about a wrong password.
    r"|\[time\] ERROR \[AdminClient|\[time\] WARN \[AdminClient .*Fatal error"
    r"|org\.apache\.kafka\.common\.errors\.UnknownTopicOrPartitionException: "
    r"This server does not host this topic-partition\.$"
    r"|org\.apache\.kafka\.common\.errors\.SaslAuthenticationException: "
)
_MASKS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "x" * 36),
    (re.compile(r"(?<=\s)[\w+/-]{22}(?=\s.*/127\.0\.0\.1\s)"), "x" * 22),
    (re.compile(r"127\.0\.0\.1:\d{4,5}( +)\(\d+\)"), r"127.0.0.1:00000\1(0)"),
    (re.compile(r"127\.0\.0\.1:\d{4,5}"), "127.0.0.1:00000"),
    (re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\]"), "[time]"),
    (re.compile(r"adminclient-\d+"), "adminclient-1"),
)


def _masked(text: str) -> str:
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return text


def _runs(lines: list[str], arrange: Callable[[list[str]], list[str]]) -> list[str]:
    """Lines with every run of lines between empty ones rearranged."""
    found: list[str] = []
    run: list[str] = []
    for line in [*lines, ""]:
        if line:
            run.append(line)
        else:
            found += [*arrange(run), line]
            run = []
    return found[:-1]


def _by_member(lines: list[str]) -> list[str]:
    """Members of equally many partitions come in any order; the rows of one keep theirs."""

    def arrange(run: list[str]) -> list[str]:
        if not run or not run[0].startswith("GROUP"):
            return run
        if "#" in run[0]:
            return [run[0], *sorted(run[1:])]
        start = run[0].find("CONSUMER-ID")

        def member(row: str) -> tuple[bool, str]:
            return row[start:].startswith("- "), row[start:]

        return [run[0], *sorted(run[1:], key=member)]

    return _runs(lines, arrange)


def _sorted_runs(lines: list[str]) -> list[str]:
    """Rows, and sentences that each stand alone, in the order of the alphabet."""

    def arrange(run: list[str]) -> list[str]:
        head = 1 if run and (run[0].startswith("GROUP") or run[0].startswith("Error: Del")) else 0
        return run[:head] + sorted(run[head:])

    found = _runs(lines, arrange)
    alone = [index for index, line in enumerate(found) if _ALONE.match(line)]
    for index, line in zip(alone, sorted(found[index] for index in alone), strict=True):
        found[index] = line
    return found


_ALONE: Final = re.compile(r"Error: (Assignments|No reset plan)|Warn: Partition")
_LISTS: Final = re.compile(
    r"(?<=Valid states are: ).*|(?<=Valid types are: ).*|(?<=options: ).*|(?<=scenarios: \[).*(?=\])"
    r"|(?<=consumer groups \().*(?=\) was)|(?<=deleted successfully: ).*"
)


def _sorted_names(line: str) -> str:
    return _LISTS.sub(lambda found: ", ".join(sorted(found[0].split(", "))), line)


@functools.cache
def transcripts() -> dict[str, Transcript]:
    """All of them, by name."""
    text = gzip.decompress((DATA / "cli" / "transcripts.jsonl.gz").read_bytes()).decode()
    rows: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    return {
        row["name"]: Transcript(
            row["name"],
            tuple(row["argv"]),
            row["files"],
            Said(row["exit"], row["stdout"], row["stderr"]),
        )
        for row in rows
    }


def in_order() -> tuple[list[Transcript], list[Transcript], list[Transcript]]:
    """Those that only look, those of the topic `clicks`, and those that change things, each in order."""
    known = transcripts()
    open_ones = [each for each in known.values() if not each.secured]
    clicks = [each for each in open_ones if "g-clicks" in each.argv]
    clicks.sort(key=lambda each: each.name == _LAST_OF_CLICKS)
    others = {each.name for each in clicks} | set(_CHANGES)
    looks = [each for each in open_ones if each.name not in others]
    return looks, clicks, [known[name] for name in _CHANGES]


def secured_in_order() -> list[Transcript]:
    """Those of the world with users: those that only look first."""
    secured = {each.name: each for each in transcripts().values() if each.secured}
    looks = [each for name, each in secured.items() if name not in _SECURED_CHANGES]
    return looks + [secured[name] for name in _SECURED_CHANGES]
