"""Protocol vectors: files of messages as bytes and as JSON, checked in both directions.

A vector is one line of JSON: bytes that Apache Kafka wrote, and Kafka's own JSON for them. It passes
when our decoding gives that JSON and our encoding gives those bytes. Called by `coterie wire check`.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from coterie.errors import CoterieError
from coterie.protocol.catalog import find_message
from coterie.protocol.codec import decode_prefix, encode
from coterie.protocol.kafka_json import from_json, to_json
from coterie.protocol.schema import Message, fields_of
from coterie.protocol.wire import write_uvarint

__all__ = ["Verdict", "check_files", "check_vector", "read_vectors"]


class Verdict(NamedTuple):
    """The result of one vector; an empty failure is a pass."""

    title: str
    failure: str


def check_files(paths: Iterable[Path]) -> Iterator[Verdict]:
    """Every vector of the files, in order."""
    for path in paths:
        for vector in read_vectors(path):
            yield check_vector(vector)


def read_vectors(path: Path) -> Iterator[dict[str, Any]]:
    """The vectors of a file, which may be compressed with gzip."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _parse(line, f"{path}:{number}")
    except (OSError, UnicodeDecodeError) as error:
        raise CoterieError(f"{path} cannot be read: {error}") from None


def _parse(line: str, place: str) -> dict[str, Any]:
    try:
        vector = json.loads(line)
        missing = {"api", "kind", "version", "hex", "json"} - set(vector)
    except (ValueError, TypeError):
        raise CoterieError(f"{place} is not a line of JSON; is this a file of vectors?") from None
    if missing:
        raise CoterieError(
            f"{place} has no {', '.join(sorted(missing))}; is this a file of vectors?"
        )
    return dict(vector)


def check_vector(vector: dict[str, Any]) -> Verdict:
    """Both directions of one vector."""
    title = " ".join(str(vector.get(key, "")) for key in ("api", "kind", "version", "case")).strip()
    try:
        return Verdict(title, _compare(vector))
    except (CoterieError, ValueError, KeyError, TypeError, StopIteration) as error:
        return Verdict(title, f"{type(error).__name__}: {error}")


def _compare(vector: dict[str, Any]) -> str:
    cls = _message_of(vector["api"], vector["kind"])
    version = int(vector["version"])
    data = bytes.fromhex(vector["hex"])
    prefix = _prefix(cls, version)
    message, end = decode_prefix(cls, data, version, offset=len(prefix))
    if end != len(data):
        return f"{len(data) - end} bytes are left over"
    if to_json(message, version) != vector["json"]:
        return f"decoded to {json.dumps(to_json(message, version), ensure_ascii=False)}"
    records = iter([raw and bytes.fromhex(raw) for raw in vector.get("records", [])])
    described = from_json(cls, vector["json"], version, records)
    unknown = {int(tag): bytes.fromhex(raw) for tag, raw in vector.get("unknownTags", {}).items()}
    encoded = prefix + _with_tags(described, version, unknown)
    return "" if encoded == data else f"encoded to {encoded.hex()}"


def _message_of(api: str, kind: str) -> type[Message]:
    suffix = {
        "request": "Request",
        "response": "Response",
        "record-key": "Key",
        "record-value": "Value",
    }.get(kind, "")
    return find_message(api if api.endswith(suffix) else api + suffix)


def _prefix(cls: type[Message], version: int) -> bytes:
    """The number that precedes blobs and records: the type of the record, or the version."""
    if cls.__kind__ == "record-key":
        return cls.__key__.to_bytes(2, "big")
    return version.to_bytes(2, "big") if cls.__kind__ in ("data", "record-value") else b""


def _with_tags(message: Message, version: int, unknown: dict[int, bytes]) -> bytes:
    """The message's bytes with tagged fields that we do not know, as a newer Kafka would add them.

    The outermost tag section is at the very end, and empty (one zero byte) when all tagged fields are
    at their defaults: the section begins one byte before the end of such a twin.
    """
    encoded = encode(message, version)
    if not unknown:
        return encoded
    known = [f for f in fields_of(type(message)) if f.tag is not None and version in f.versions]
    twin = {f.name: getattr(message, f.name) for f in fields_of(type(message)) if f not in known}
    start = len(encode(type(message)(**twin), version)) - 1
    section = encoded[start:]
    count = section[0] + len(unknown)
    extra = b"".join(
        write_uvarint(tag) + write_uvarint(len(raw)) + raw for tag, raw in sorted(unknown.items())
    )
    return encoded[:start] + write_uvarint(count) + section[1:] + extra
