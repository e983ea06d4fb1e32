"""Writes the parts of the documentation that are tables of the code: `make docs`. A test compares them."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from coterie.coordinator.config import GroupConfig
from coterie.coordinator.states import ACTIONS, diagram
from coterie.server.config import ServerConfig
from coterie.server.dispatch import served_apis
from coterie.server.topic_configs import TOPIC_DEFAULTS

DOCS = Path(__file__).parent.parent / "docs"


def apis() -> str:
    rows = [
        f"| {api.value} | {api.api_name} | {row.lowest}-{row.highest} | "
        f"`{row.handler.__module__.removeprefix('coterie.server.')}.{row.handler.__name__}` |"
        for api, row in served_apis({}).items()
    ]
    return "\n".join(
        [
            "# APIs that the embedded cluster serves",
            "",
            "Generated from the dispatch table (`coterie.server.dispatch`). An API that is not here is",
            "not advertised; a request for it closes the connection, as with Kafka.",
            "",
            "| key | API | versions | handler |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def settings() -> str:
    lines = [
        "# Settings of the embedded cluster",
        "",
        "Generated from the code. Give them to `coterie server` by `--set NAME=VALUE` or `--config FILE`,",
        "and to `EmbeddedCluster` by `config={...}`. Names are Kafka's; those that begin with `coterie.` are",
        "limits that Kafka does not have.",
        "",
        "| setting | default | what it does |",
        "|---|---|---|",
    ]
    for cls in (ServerConfig, GroupConfig):
        for spec in dataclasses.fields(cls):
            if name := spec.metadata.get("kafka"):
                default = getattr(spec.default, "value", spec.default)
                text = str(default).lower() if isinstance(default, bool) else str(default)
                lines.append(f"| `{name}` | {text} | {spec.metadata['doc']} |")
    lines += ["", "## Topics", "", "| setting | default |", "|---|---|"]
    lines += [f"| `{name}` | {value} |" for name, value in TOPIC_DEFAULTS.items()]
    return "\n".join([*lines, ""])


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
    ]
    return "\n".join(lines)


GENERATED = {"apis.md": apis, "settings.md": settings, "states.md": states}


def main() -> int:
    for name, make in GENERATED.items():
        (DOCS / name).write_text(make(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
