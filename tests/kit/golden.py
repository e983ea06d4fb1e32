"""Where the golden data from Apache Kafka is, and how to read it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coterie.cli.wire import read_vectors

__all__ = ["DATA", "VECTORS", "load_json", "vectors"]

DATA = Path(__file__).parent.parent / "data"
VECTORS = sorted((DATA / "vectors").glob("*.jsonl.gz"))


def load_json(name: str) -> Any:
    return json.loads((DATA / name).read_text(encoding="utf-8"))


def vectors(message: str) -> Iterator[dict[str, Any]]:
    """The vectors of one file, by its name without ending: `ListGroups`, `record-GroupMetadata`."""
    return read_vectors(DATA / "vectors" / f"{message}.jsonl.gz")
