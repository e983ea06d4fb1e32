"""The first inputs: what Apache Kafka itself wrote, from the files that the tests compare with.

Called by fuzz.run before the engine starts.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

from coterie.protocol.api import ApiKey
from coterie.protocol.catalog import all_messages
from coterie.protocol.codec import encode
from coterie.protocol.frames import frame
from coterie.protocol.messages.headers import RequestHeader, ResponseHeader
from coterie.protocol.metadata_records import MetadataRecord, encode_metadata_record
from coterie.protocol.schema import Message
from fuzz.targets import message_target, seed

__all__ = ["MAX_SEED", "message_vectors", "write_seeds"]

DATA: Final = Path(__file__).parent.parent / "tests" / "data"
#: Longer ones only slow the search down.
MAX_SEED: Final = 4096

#: The class of a vector: the suffix of its name.
_SUFFIXES: Final = {"request": "Request", "response": "Response"}
#: Kinds whose bytes begin with a number that is not part of the message.
_NUMBERED: Final = ("data", "record-key", "record-value")


def write_seeds(folder: Path) -> int:
    """One file per seed, named by number; the number of them is returned."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    found = dict.fromkeys(each for each in _seeds() if len(each) <= MAX_SEED)
    for number, each in enumerate(found):
        (folder / f"{number:05}").write_bytes(each)
    return len(found)


def _seeds() -> Iterator[bytes]:
    keys: dict[str, bytes] = {}
    for vector in _lines("vectors"):
        data = bytes.fromhex(vector["hex"])
        yield from _of_message(vector, data)
        if vector["kind"] == "record-key":
            keys[vector["api"].removesuffix("Key")] = data
        elif vector["kind"] == "record-value":
            key = keys[vector["api"].removesuffix("Value")]
            yield seed("group record", bytes((len(key),)) + key + data)
        for batch in vector.get("records") or ():
            yield from _of_batches(bytes.fromhex(batch or ""))
    for cls in get_args(MetadataRecord):
        yield seed("metadata record", encode_metadata_record(cls()))
    for line in _lines("record-batches"):
        yield from _of_batches(bytes.fromhex(line["hex"]))
    for log in sorted((DATA / "offsets-log").glob("*.log")):
        yield from _of_batches(log.read_bytes()[: MAX_SEED - 2])


def message_vectors() -> Iterator[tuple[type[Message], int, bytes]]:
    """Every message that Apache Kafka wrote: its class, its version and its bytes."""
    for vector in _lines("vectors"):
        yield _class_of(vector), vector["version"], _body(vector)


def _class_of(vector: dict[str, Any]) -> type[Message]:
    return all_messages()[vector["api"] + _SUFFIXES.get(vector["kind"], "")]


def _body(vector: dict[str, Any]) -> bytes:
    data = bytes.fromhex(vector["hex"])
    return data[2:] if vector["kind"] in _NUMBERED else data


def _lines(folder: str) -> Iterator[dict[str, Any]]:
    for path in sorted((DATA / folder).glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def _of_message(vector: dict[str, Any], data: bytes) -> Iterator[bytes]:
    kind, version = vector["kind"], vector["version"]
    cls, body = _class_of(vector), _body(vector)
    yield seed(message_target(cls, version), body)
    if kind == "data":
        yield seed("assignment" if "Assignment" in vector["api"] else "subscription", data)
    if vector["case"] != "full":
        return
    if kind == "request":
        api = ApiKey(cls.__key__)
        header = RequestHeader(api, version, 7, "seed")
        whole = encode(header, api.request_header_version(version)) + body
        yield seed("request", whole)
        yield seed("stream", b"\x07" + frame(whole) * 2)
    elif kind == "response":
        api = ApiKey(cls.__key__)
        choice = bytes((list(ApiKey).index(api), version - api.versions.lowest))
        header_bytes = encode(ResponseHeader(7), api.response_header_version(version))
        yield seed("response", choice + header_bytes + body)


def _of_batches(data: bytes) -> Iterator[bytes]:
    yield seed("batches", data)
    yield seed("columns", data)
