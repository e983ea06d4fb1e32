"""Writes the parts of the documentation that are tables of the code: `make docs`. A test compares them."""

from __future__ import annotations

import ast
import dataclasses
import json
import re
import sys
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path

from coterie.cli import schemas
from coterie.coordinator.config import GroupConfig
from coterie.coordinator.states import ACTIONS, GROUP_STATES, MEMBER_STATES, diagram
from coterie.security.secrets import Secret
from coterie.server.dispatch import served_apis
from coterie.server.security.guard import Access
from coterie.server.settings import groups as group_settings
from coterie.server.settings import topics as topic_configs
from coterie.server.settings.catalog import Setting, catalog
from coterie.server.settings.config import ServerConfig
from coterie.server.settings.listeners import ListenerConfig
from coterie.server.settings.security import SecurityConfig
from coterie.server.settings.topics import acting_settings
from coterie.testing.request_counts import requests
from coterie.vocabulary.columns import Table
from coterie.vocabulary.datasets import DATASETS
from coterie.vocabulary.marts import MARTS

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "coterie"


def apis() -> str:
    rows = [
        f"| {api.value} | {api.api_name} | {row.lowest}-{row.highest} | "
        f"{_needs(row.access)} | "
        f"`{row.handler.__module__.removeprefix('coterie.server.')}.{row.handler.__name__}` |"
        for api, row in served_apis({}).items()
    ]
    return "\n".join(
        [
            "# APIs that the embedded cluster serves",
            "",
            "Generated from the dispatch table (`coterie.server.dispatch`). An API that is not here is",
            "not advertised; a request for it closes the connection, as with Kafka. What an API needs is",
            "asked for only where an authorizer is on ([security.md](security.md)).",
            "",
            "| key | API | versions | needs | handler |",
            "|---|---|---|---|---|",
            *rows,
            "",
            "## APIs of Apache Kafka 4.3 that are not served",
            "",
            "Kafka's broker advertises these, too. A test compares this list with a running Kafka.",
            "",
            "| key | API | what for |",
            "|---|---|---|",
            *_not_served(),
            "",
        ]
    )


#: What a part of an API's name says about its purpose.
_PURPOSES = {
    "Share": "share groups (KIP-932)",
    "Streams": "streams groups (KIP-1071)",
    "RaftVoter": "changes of the Raft quorum (KIP-853)",
}
#: Kafka advertises these only where a plugin receives what clients push (KIP-714).
_ONLY_WITH_A_PLUGIN = {"GetTelemetrySubscriptions", "PushTelemetry"}


def _not_served() -> list[str]:
    served = set(served_apis({}))
    kafka = json.loads((ROOT / "tests/data/vectors/apis.json").read_text(encoding="utf-8"))
    return [
        f"| {row['key']} | {row['name']} | "
        f"{next(text for part, text in _PURPOSES.items() if part in row['name'])} |"
        for row in kafka
        if "broker" in row["listeners"]
        and row["key"] not in served
        and row["name"] not in _ONLY_WITH_A_PLUGIN
    ]


def _needs(access: Access) -> str:
    return "<br>".join(map(str, access.needs)) or "nothing"


def settings() -> str:
    lines = [
        "# Settings of the embedded cluster",
        "",
        "Generated from the code. Give settings of brokers to `coterie server` by `--set NAME=VALUE` or",
        "`--config FILE`, and to `EmbeddedCluster` by `config={...}`. Names are Kafka's; those that begin",
        "with `coterie.` are limits that Kafka does not have.",
        "",
        "## Settings of brokers that take effect",
        "",
        "| setting | default | what it does |",
        "|---|---|---|",
    ]
    acting = set()
    for cls in (ServerConfig, GroupConfig, SecurityConfig, ListenerConfig):
        for spec in dataclasses.fields(cls):
            if name := spec.metadata.get("kafka"):
                acting.add(name)
                default = getattr(spec.default, "value", spec.default)
                text = str(default).lower() if isinstance(default, bool) else str(default)
                text = "" if isinstance(default, Secret) else text
                lines.append(f"| `{name}` | {text} | {spec.metadata['doc']} |")
    known = catalog()
    for name in sorted(acting_settings() - acting):
        topic = next(
            each for each in topic_configs.ACTING if name in dict(known.topic[each].synonyms)
        )
        default = known.broker[name].default or ""
        lines.append(
            f"| `{name}` | {default} | Default of `{topic}` for topics that do not set it. |"
        )
    lines += [
        "",
        "`listener.name.<name>.` before an `ssl.` setting, `sasl.enabled.mechanisms`,",
        "`sasl.server.max.receive.size` or `connections.max.reauth.ms` sets it for one listener;",
        "`coterie.broker.<id>.advertised.listeners` is for one broker ([listeners.md](listeners.md)).",
    ]
    others = sorted(set(known.broker) - acting - acting_settings())
    lines += [
        "",
        "## Topics",
        "",
        "Settings that are not marked are checked, stored and shown as Kafka does it, and have no effect.",
        "",
        *_table(known.topic, topic_configs.ACTING),
        "",
        "## Groups",
        "",
        *_table(known.group, group_settings.ACTING),
        "",
        "## Settings of brokers without effect",
        "",
        "Kafka knows them, so they are accepted, checked and shown by DescribeConfigs. A start that sets",
        "some of them logs one line with their names.",
        "",
        ", ".join(f"`{name}`" for name in others),
    ]
    return "\n".join([*lines, ""])


def _table(settings: Mapping[str, Setting], acting: Collection[str]) -> list[str]:
    return [
        "| setting | default | takes effect |",
        "|---|---|---|",
        *[
            f"| `{name}` | {each.default or ''} | {'yes' if name in acting else ''} |"
            for name, each in sorted(settings.items())
            if not each.internal
        ],
    ]


def states() -> str:
    lines = [
        "# States of a classic group",
        "",
        "Generated from the table that the coordinator runs on (`coterie.coordinator.states`).",
        "",
        "```mermaid",
        diagram().strip(),
        "```",
        "",
        "| state | what the coordinator does in it |",
        "|---|---|",
        *[f"| {state} | {'; '.join(actions)} |" for state, actions in ACTIONS.items()],
        "",
        "# States of a consumer group (KIP-848)",
        "",
        "They follow from epochs and assignments (`coterie.coordinator.states`).",
        "",
        "| state of the group | when, and what it means |",
        "|---|---|",
        *[f"| {state} | {'; '.join(words)} |" for state, words in GROUP_STATES.items()],
        "",
        "| state of a member | when, and what it means |",
        "|---|---|",
        *[
            f"| {state.name.title().replace('_', '')} | {'; '.join(words)} |"
            for state, words in MEMBER_STATES.items()
        ],
        "",
    ]
    return "\n".join(lines)


def columns(document: str, tables: Mapping[str, Table], *, optional: bool = False) -> str:
    """A document with the table of columns after the heading of each dataset or mart."""
    text = (ROOT / document).read_text(encoding="utf-8")
    more = ("| may be null ", "|---", " yes |", "  |") if optional else ("", "", "", "")
    for table in tables.values():
        rows = [
            f"| `{each.name}` | `{each.type}` |{more[2] if each.optional else more[3]} {each.meaning} |"
            for each in table.columns
        ]
        head = [f"| column | type {more[0]}| meaning |", f"|---|---{more[1]}|---|"]
        start = text.index("| column | type ", text.index(f"# `{table.name}`\n"))
        end = text.index("\n\n", start) if "\n\n" in text[start:] else len(text) - 1
        text = text[:start] + "\n".join([*head, *rows]) + text[end:]
    return text


def design() -> str:
    """DESIGN.md with its file map anew: each module, and the first line of what it says of itself."""
    rows = [
        f"| `{path.relative_to(SOURCE)}` | {_first_line(path)} |"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.name != "__init__.py"
    ]
    table = "\n".join(["| file in `src/coterie` | what it is |", "|---|---|", *rows])
    text = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
    return re.sub(
        r"(?<=## File map\n\n).*?(?=\n\n## )", lambda _: table, text, count=1, flags=re.DOTALL
    )


def _first_line(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].replace("|", "\\|")


GENERATED: dict[str, Callable[[], str]] = {
    "docs/apis.md": apis,
    "docs/settings.md": settings,
    "docs/states.md": states,
    "docs/requests.md": requests,
    "docs/datasets.md": lambda: columns("docs/datasets.md", DATASETS, optional=True),
    "docs/marts.md": lambda: columns("docs/marts.md", MARTS),
    "DESIGN.md": design,
    **{f"docs/schemas/{name}.json": partial(str, text) for name, text in schemas.texts().items()},
}


def main() -> int:
    for name, make in GENERATED.items():
        (ROOT / name).write_text(make(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
