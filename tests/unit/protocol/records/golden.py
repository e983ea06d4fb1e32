"""What Apache Kafka 4.3.0 wrote: record batches with Kafka's own reading of them, and log segments."""

from __future__ import annotations

import gzip
import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["CODECS", "cases", "matches", "segment"]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_DATA = Path(__file__).parents[3] / "data"


@cache
def cases(name: str) -> dict[str, dict[str, Any]]:
    """The cases of one file, by name; `buffer` holds the bytes."""
    found = {}
    with gzip.open(_DATA / "record-batches" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            found[case["case"]] = case | {"buffer": bytes.fromhex(case["hex"])}
    return found


def matches(content: bytes | None, expected: Any) -> bool:
    """Whether a key, value or header value is the one that the file gives as hex or as a digest."""
    if content is None or expected is None:
        return content is expected
    if isinstance(expected, str):
        return content == bytes.fromhex(expected)
    digest = hashlib.sha256(content).hexdigest()
    return bool(len(content) == expected["len"] and digest == expected["sha256"])


def segment(partition: int) -> tuple[bytes, list[str]]:
    """A segment of __consumer_offsets, and the lines of Kafka's dump of it."""
    log = _DATA / "offsets-log" / f"partition-{partition}.log"
    return log.read_bytes(), log.with_suffix(".txt").read_text(encoding="utf-8").splitlines()
