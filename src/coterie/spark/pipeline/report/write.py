"""Writes the report: report.html for people, report.json with the same figures for programs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from pyspark.sql import SparkSession

from coterie.console.rendering import plain
from coterie.errors import CoterieError
from coterie.files import replace_file
from coterie.spark.pipeline.origin import known_source
from coterie.spark.pipeline.report.figures import FIGURES, Answer, answers
from coterie.spark.pipeline.report.page import make_page
from coterie.spark.pipeline.report.parts import Page
from coterie.spark.pipeline.store import TableStore

__all__ = ["render", "write_report"]


def write_report(spark: SparkSession, store: TableStore, directory: Path) -> Path:
    """Ask, draw and write; the path of the page."""
    found = answers(spark, store)
    now = datetime.now(UTC)
    source = known_source(store) or "no source"
    page = make_page(found, source=source, generated_at=now)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        html = directory / "report.html"
        document = json.dumps(_document(found, source, now), ensure_ascii=False, indent=1)
        replace_file(directory / "report.json", f"{document}\n".encode())
        replace_file(html, f"{render(page)}\n".encode())
    except OSError as error:
        raise CoterieError(
            f"the report cannot be written to {directory}: {error.strerror}"
        ) from None
    return html


def _document(found: dict[str, Answer], source: str, now: datetime) -> dict[str, Any]:
    return {
        "format": "coterie-report",
        "version": 1,
        "generated_at": now.isoformat(timespec="seconds"),
        "source": source,
        "figures": {
            figure.name: {
                "sql": figure.sql,
                "columns": list(found[figure.name].columns),
                "rows": [plain(row) for row in found[figure.name].rows],
            }
            for figure in FIGURES
        },
    }


def render(page: Page) -> str:
    """The page as one HTML file: its style is inside, and it asks nobody for anything."""
    here = files("coterie.spark.pipeline.report")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=False, lstrip_blocks=True
    )
    template = environment.from_string(here.joinpath("report.html.j2").read_text(encoding="utf-8"))
    style = Markup(here.joinpath("report.css").read_text(encoding="utf-8"))  # noqa: S704  (our own file)
    return template.render(page=page, style=style)
