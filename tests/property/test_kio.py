"""kio, an independent implementation of Kafka's messages, reads what we write and writes it back.

kio is generated from the message definitions of Apache Kafka, ours are declared by hand, and neither
knows of the other: bytes that both agree on for arbitrary values leave little room for a shared mistake.
What kio cannot hold in its types is kept out of the values, each exception with its reason in `_LIMITS`.
"""

from __future__ import annotations

import dataclasses
import importlib
import io
import re
import typing
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from coterie.protocol.codec import decode_prefix, encode
from coterie.protocol.schema import ArrayOf, Field, Struct, StructOf, fields_of
from tests.property.strategies import PAIRS, Pair, examples, messages, pair_id

#: Fields that Kafka does not have: ours for KIP-181, in a range of tags of their own.
OUR_TAGS: Final = 18100

_TIMES: Final = st.integers(0, 253_402_300_799_999)
#: The values that kio can hold, by the name of its type for a field, where those are not all values.
_LIMITS: Final[dict[str, st.SearchStrategy[Any]]] = {
    # An enum: kio refuses a code that it does not know.
    "error_code": st.sampled_from([int(code) for code in ErrorCode]),
    # A datetime: not before 1970, not after 9999; some fields have -1 too, which is None to kio.
    "datetime_i64": _TIMES,
    "datetime_i64 or None": st.one_of(st.just(-1), _TIMES),
    # A timedelta that goes through a float of seconds: rounds beyond a few thousand years.
    "timedelta_i64": st.integers(-(10**14), 10**14),
}


class Peer(typing.NamedTuple):
    """kio's class for a message, and its type names for the fields of our structs in it."""

    cls: Any
    types: dict[tuple[type[Struct], str], str]


@cache
def peer_of(pair: Pair) -> Peer | None:
    """What kio has for a pair. It has no records of groups."""
    words = re.sub(r"(?<!^)(?=[A-Z])", "_", pair.cls.__name__).lower()
    kind = pair.cls.__kind__
    module = (
        f"kio.schema.{words.removesuffix(f'_{kind}')}"
        if kind != "header"
        else f"kio.schema.{words}"
    )
    try:
        found = importlib.import_module(f"{module}.v{pair.version}.{kind}")
    except ModuleNotFoundError:
        return None
    theirs = getattr(found, pair.cls.__name__)
    types: dict[tuple[type[Struct], str], str] = {}
    _compare(pair.cls, theirs, pair.version, types)
    return Peer(theirs, types)


def _compare(
    ours: type[Struct], theirs: Any, version: int, types: dict[tuple[type[Struct], str], str]
) -> None:
    """Field by field: the same names in the same order, the same tags, the same null."""
    hints = typing.get_type_hints(theirs)
    for mine, its in zip(_present(ours, version), dataclasses.fields(theirs), strict=True):
        kind = its.metadata.get("kafka_type", "")
        hint = hints[its.name]
        optional = type(None) in typing.get_args(hint)
        types[ours, mine.name] = f"{kind} or None" if optional and "datetime" in kind else kind
        # Times have lost their unit in kio.
        assert its.name == (mine.name.removesuffix("_ms") if "time" in kind else mine.name)
        assert its.metadata.get("tag") == mine.tag
        # kio also says None for a zero UUID and for a time of -1.
        if kind not in ("uuid", "datetime_i64"):
            assert optional == (version in mine.nullable)
        inner = mine.type.element if isinstance(mine.type, ArrayOf) else mine.type
        if isinstance(inner, StructOf):
            _compare(inner.cls, _dataclass_in(hint), version, types)


def _present(cls: type[Struct], version: int) -> list[Field]:
    return [field for field in fields_of(cls) if version in field.versions and not _is_ours(field)]


def _is_ours(field: Field) -> bool:
    return field.tag is not None and field.tag >= OUR_TAGS


def _dataclass_in(hint: Any) -> Any:
    """The struct in `Struct | None` or `tuple[Struct, ...]`, or None if there is none."""
    if dataclasses.is_dataclass(hint):
        return hint
    return next(filter(None, map(_dataclass_in, typing.get_args(hint))), None)


def _choose(peer: Peer, cls: type[Struct], field: Field) -> st.SearchStrategy[Any] | None:
    if _is_ours(field):
        return st.just(field.default)
    return _LIMITS.get(peer.types[cls, field.name])


@cache
def shared_messages(pair: Pair) -> st.SearchStrategy[Any]:
    """Messages that kio can hold."""
    peer = peer_of(pair)
    assert peer is not None
    return messages(*pair, partial(_choose, peer))


SHARED: Final = [pair for pair in PAIRS if not pair.cls.__kind__.startswith("record")]


@pytest.mark.parametrize("pair", SHARED, ids=pair_id)
@examples(10)
@given(data=st.data())
def test_kio_reads_and_writes_the_same_bytes(pair: Pair, data: st.DataObject) -> None:
    peer = peer_of(pair)
    assert peer is not None, "kio has had every request and response since 0.6.5"
    message = data.draw(shared_messages(pair))
    encoded = encode(message, pair.version)
    theirs, end = entity_reader(peer.cls)(encoded, 0)
    assert end == len(encoded)
    written = io.BytesIO()
    entity_writer(peer.cls)(written, theirs)
    assert written.getvalue() == encoded
    assert decode_prefix(pair.cls, written.getvalue(), pair.version) == (message, end)


def test_kio_covers_what_it_did(record_property: Callable[[str, object], None]) -> None:
    covered = [pair for pair in SHARED if peer_of(pair) is not None]
    record_property("pairs_compared_with_kio", len(covered))
    assert len(covered) >= 474
