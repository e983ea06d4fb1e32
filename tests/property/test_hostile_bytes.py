"""Bytes that no honest peer sends: every decoder gives a message or a ProtocolError, and nothing else.

The names of tests begin with the number of the case in the project's campaign of bad input.
"""

from __future__ import annotations

import tracemalloc
from typing import Any, Final

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coterie.errors import ProtocolError
from coterie.protocol.codec import (
    MAX_REQUEST_ELEMENTS,
    decode,
    decode_in_python,
    decode_prefix,
    encode,
    encode_in_python,
)
from coterie.protocol.messages.groups import DescribeGroupsResponse, ListGroupsRequest
from coterie.protocol.messages.membership import HeartbeatRequest
from coterie.protocol.messages.offsets import OffsetFetchRequest
from coterie.protocol.schema import ArrayOf, Blob, Request, StructOf, Text, fields_of
from coterie.protocol.types import Number
from coterie.protocol.wire import MAX_STRING, MAX_TAGS, Malformed, uvarint, write_uvarint
from tests.property.strategies import (
    PAIRS,
    Pair,
    Piece,
    Spoil,
    damaged,
    examples,
    messages,
    pair_id,
    smallest_bytes,
    spoiled,
)

FLEXIBLE: Final = [pair for pair in PAIRS if pair.flexible]
every_pair = pytest.mark.parametrize("pair", PAIRS, ids=pair_id)
every_flexible_pair = pytest.mark.parametrize("pair", FLEXIBLE, ids=pair_id)

INT_MAX: Final = 0x7FFFFFFF
#: What a refusal may cost: the error, its texts and a few frames, but nothing of what a length claims.
MAX_COST: Final = 64 * 1024

BAD_VARINTS: Final = {
    "fifth-byte-over-0x0f": b"\xff\xff\xff\xff\x10",
    "six-bytes": b"\x81\x80\x80\x80\x80\x01",
    "never-ends": b"\xff" * 40,
    "overlong-zero": b"\x80\x00",
    "overlong-one": b"\x81\x00",
    "overlong-in-five-bytes": b"\x81\x80\x80\x80\x00",
}
BAD_TEXTS: Final = {
    "stray-byte": b"a\xffb",
    "lone-continuation": b"\x80",
    "cut-short": b"ab\xe2\x82",
    "overlong-nul": b"\xc0\x80",
    "overlong-slash": b"\xe0\x80\xaf",
    "surrogate": b"\xed\xa0\x80",
    "surrogate-pair": b"\xed\xa0\xbd\xed\xb8\x80",
    "beyond-unicode": b"\xf4\x90\x80\x80",
}


def refusal(pair: Pair, data: bytes, **options: int) -> ProtocolError:
    """The error that the bytes must cause; it has to name its message, version, field and offset."""
    with pytest.raises(ProtocolError) as caught:
        decode(pair.cls, data, pair.version, **options)
    check_names(caught.value, pair, data)
    return caught.value


def check_names(error: ProtocolError, pair: Pair, data: bytes) -> None:
    assert error.message == pair.cls.__name__
    assert error.version == pair.version
    assert error.offset is not None
    assert 0 <= error.offset <= len(data)
    assert error.reason
    assert f"{pair.cls.__name__} v{pair.version}" in str(error)
    if not error.field:  # only the tag section of the whole message belongs to no field
        assert pair.flexible
        return
    fields = fields_of(pair.cls)
    for name in error.field.split("."):
        kind = next(field.type for field in fields if field.name == name)
        inner = kind.element if isinstance(kind, ArrayOf) else kind
        fields = fields_of(inner.cls) if isinstance(inner, StructOf) else ()


def accept_or_refuse(pair: Pair, data: bytes) -> None:
    """What can be decoded can be encoded again and means the same, by compiled code and in Python."""
    try:
        message, end = decode_prefix(pair.cls, data, pair.version)
    except ProtocolError as error:
        check_names(error, pair, data)
        return
    assert end <= len(data)
    assert same(decode_in_python(pair.cls, data, pair.version), (message, end))
    encoded = encode(message, pair.version)
    assert encode_in_python(message, pair.version) == encoded
    assert same(decode_prefix(pair.cls, encoded, pair.version), (message, len(encoded)))


def same(one: object, other: object) -> bool:
    """Whether two values are equal; NaN equals NaN."""
    return one == other or repr(one) == repr(other)


def refused_cheaply(pair: Pair, data: bytes) -> ProtocolError:
    """The same, without taking memory on the word of a length."""
    refusal(pair, data)  # compiles the codecs, so that the second time has only its own cost
    tracemalloc.start()
    try:
        error = refusal(pair, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Two codecs look at the bytes, each of them as text, which takes as much again.
    assert peak < 2 * len(data) + MAX_COST
    return error


def tag(number: int, data: bytes = b"") -> bytes:
    return write_uvarint(number) + write_uvarint(len(data)) + data


# -- any bytes -------------------------------------------------------------------------------------


@every_pair
def test_the_smallest_bytes_are_a_message(pair: Pair) -> None:
    data = smallest_bytes(pair) + bytes(pair.flexible)
    message, end = decode_prefix(pair.cls, data, pair.version)
    assert end == len(data)
    assert encode(message, pair.version) == data


@every_pair
@examples(15)
@given(data=st.binary(max_size=80))
@example(data=b"")
@example(data=bytes(200))
@example(data=b"\x01" * 200)
@example(data=b"\x7f" * 200)
@example(data=b"\xff" * 200)
def test_arbitrary_bytes(pair: Pair, data: bytes) -> None:
    accept_or_refuse(pair, data)


@every_pair
@examples(12)
@given(data=st.data())
def test_f19_mutated_messages(pair: Pair, data: st.DataObject) -> None:
    encoded = encode(data.draw(messages(*pair)), pair.version)
    accept_or_refuse(pair, data.draw(damaged(encoded)))


@every_pair
@examples(3)
@given(data=st.data())
def test_f04_a_message_cut_anywhere_is_refused(pair: Pair, data: st.DataObject) -> None:
    encoded = encode(data.draw(messages(*pair)), pair.version)
    step = 1 + len(encoded) // 200  # every offset, unless the message is long
    for length in {*range(0, len(encoded), step), *range(max(len(encoded) - 50, 0), len(encoded))}:
        refusal(pair, encoded[:length])


# -- counts ----------------------------------------------------------------------------------------


@every_pair
def test_f08_array_counts_beyond_the_bytes(pair: Pair) -> None:
    for count in (INT_MAX, INT_MAX - 1, 1 << 24, 61):
        for name, data in spoiled(pair, length_of((ArrayOf,), count)):
            assert refused_cheaply(pair, data.ljust(60, b"\0")).field == name


@every_pair
def test_f08_negative_array_counts(pair: Pair) -> None:
    nullable = {field.name for field in fields_of(pair.cls) if pair.version in field.nullable}
    # A compact count has no sign: its null is the only negative one.
    for count in (-1,) if pair.flexible else (-1, -2, -(1 << 31)):
        for name, data in spoiled(pair, length_of((ArrayOf,), count)):
            if name in nullable:  # Kafka takes any negative count for null
                assert getattr(decode(pair.cls, data, pair.version), name) is None
            else:
                assert refusal(pair, data).field == name


def length_of(kinds: tuple[type, ...], number: int, then: bytes = b"") -> Spoil:
    """Fields of these types are written with a length, and perhaps some bytes."""

    def spoil(piece: Piece) -> bytes | None:
        return piece.length(number) + then if isinstance(piece.field.type, kinds) else None

    return spoil


@pytest.mark.parametrize(
    "pair", [pair for pair in PAIRS if issubclass(pair.cls, Request)], ids=pair_id
)
def test_f09_elements_have_a_budget(pair: Pair) -> None:
    for field in fields_of(pair.cls):
        if not isinstance(field.type, ArrayOf) or pair.version not in field.versions:
            continue
        element: Any = {Number: 0, Text: ""}.get(type(field.type.element), b"")
        if isinstance(field.type.element, StructOf):
            element = field.type.element.cls()
        message = pair.cls(**{field.name: (element,) * 20})
        data = encode(message, pair.version)
        # Other arrays are empty, so that this one has the budget for itself.
        assert decode(pair.cls, data, pair.version, max_elements=20) == message
        error = refusal(pair, data, max_elements=19)
        assert field.name in error.field


def test_f09_a_mebibyte_of_the_smallest_elements() -> None:
    pair = Pair(ListGroupsRequest, 4)
    count = (1 << 20) - 5
    data = write_uvarint(count + 1) + b"\x01" * count + b"\0"
    assert refused_cheaply(pair, data).field == "states_filter"
    message = ListGroupsRequest(states_filter=("",) * MAX_REQUEST_ELEMENTS)
    assert decode(ListGroupsRequest, encode(message, 4), 4) == message
    refusal(pair, encode(ListGroupsRequest(states_filter=("",) * (MAX_REQUEST_ELEMENTS + 1)), 4))


def test_f09_the_budget_is_for_all_arrays_together() -> None:
    pair = Pair(OffsetFetchRequest, 7)
    data = bytearray(b"\x02g" + write_uvarint(600 + 1))
    for _ in range(600):
        data += b"\x02t" + write_uvarint(200 + 1) + bytes(4 * 200) + b"\0"
    data += b"\0\0"
    assert refusal(pair, bytes(data)).field == "topics.partition_indexes"
    enough = decode(OffsetFetchRequest, bytes(data), 7, max_elements=600 + 600 * 200)
    assert len(enough.topics or ()) == 600


# -- varints ---------------------------------------------------------------------------------------


@every_flexible_pair
def test_f10_varints(pair: Pair) -> None:
    for varint in BAD_VARINTS.values():
        written = varint + bytes(8)
        for name, data in spoiled(pair, instead_of_length(written)):
            assert refusal(pair, data).field == name
        for before in (b"", b"\x01", b"\x01\x7d"):  # a count of tags, a tag, its size
            refusal(pair, smallest_bytes(pair) + before + written)


def instead_of_length(written: bytes) -> Spoil:
    """All that begins with a compact length is written as these bytes."""

    def spoil(piece: Piece) -> bytes | None:
        counted = isinstance(piece.field.type, Text | Blob | ArrayOf)
        return written if counted and piece.compact else None

    return spoil


@pytest.mark.parametrize("varint", BAD_VARINTS.values(), ids=BAD_VARINTS)
def test_f10_varint_by_itself(varint: bytes) -> None:
    with pytest.raises(Malformed):
        uvarint(varint, 0)


@given(value=st.integers(0, 0xFFFFFFFF))
def test_f10_every_number_has_one_spelling(value: int) -> None:
    data = write_uvarint(value)
    assert uvarint(data, 0) == (value, len(data))
    if len(data) < 5:
        longer = data[:-1] + bytes((data[-1] | 0x80, 0))
        with pytest.raises(Malformed):
            uvarint(longer, 0)


# -- tags ------------------------------------------------------------------------------------------


@every_flexible_pair
def test_f11_tags_that_are_refused(pair: Pair) -> None:
    sections = {
        "millions": write_uvarint(20_000_000),
        "millions-with-some": write_uvarint(20_000_000) + b"".join(map(tag, range(20_000, 20_040))),
        "over-the-limit": write_uvarint(MAX_TAGS + 1)
        + b"".join(map(tag, range(20_000, 20_001 + MAX_TAGS))),
        "twice": b"\x02" + tag(20_000) + tag(20_000),
        "out-of-order": b"\x02" + tag(20_001) + tag(20_000),
        "beyond-the-end": b"\x01" + write_uvarint(20_000) + write_uvarint(INT_MAX) + b"abc",
        "one-byte-beyond": b"\x01" + write_uvarint(20_000) + b"\x04abc",
        "missing": b"\x02" + tag(20_000, b"abc"),
    }
    for section in sections.values():
        data = smallest_bytes(pair) + section
        assert refused_cheaply(pair, data).field == ""


@every_flexible_pair
def test_f11_unknown_tags_are_stepped_over(pair: Pair) -> None:
    plain = decode(pair.cls, smallest_bytes(pair) + b"\0", pair.version)
    numbers = range(20_000, 20_000 + MAX_TAGS)
    section = write_uvarint(MAX_TAGS) + b"".join(tag(number, b"xyz") for number in numbers)
    data = smallest_bytes(pair) + section
    assert decode_prefix(pair.cls, data, pair.version) == (plain, len(data))


TAGGED: Final = [
    pair
    for pair in FLEXIBLE
    if any(
        field.tag is not None and pair.version in field.versions for field in fields_of(pair.cls)
    )
]


@pytest.mark.parametrize("pair", TAGGED, ids=pair_id)
@examples(10)
@given(data=st.data())
def test_f11_known_tags(pair: Pair, data: st.DataObject) -> None:
    drawn = data.draw(messages(*pair))
    head = smallest_bytes(pair)
    plain = decode(pair.cls, head + b"\0", pair.version)
    for field in fields_of(pair.cls):
        value = getattr(drawn, field.name)
        if field.tag is None or pair.version not in field.versions or value == field.default:
            continue
        message = msgspec.structs.replace(plain, **{field.name: value})
        encoded = encode(message, pair.version)
        assert encoded.startswith(head + b"\x01")
        known = encoded[len(head) + 1 :]
        number, at = uvarint(known, 0)
        _, at = uvarint(known, at)
        refusal(pair, head + b"\x02" + known + known)
        refusal(pair, head + b"\x01" + tag(number, known[at:] + b"\0"))
        refusal(pair, head + b"\x01" + tag(number, known[at:-1]))
        beside = head + b"\x02" + known + tag(20_000, b"xyz")
        assert decode_prefix(pair.cls, beside, pair.version) == (message, len(beside))


def test_f11_known_tag_twice_and_of_another_size() -> None:
    pair = Pair(DescribeGroupsResponse, 5)
    # One group: no error, four empty strings, no members, no operations; then its tags.
    group = b"\0\0\0\0\x02" + b"\0\0" + b"\x01" * 5 + bytes(4)
    generation = tag(18100, b"\0\0\0\x07")
    good = group + b"\x01" + generation + b"\0"
    assert decode(DescribeGroupsResponse, good, 5).groups[0].generation_id == 7
    for section in (
        b"\x02" + generation + generation,
        b"\x01" + tag(18100, b"\0\0\0"),
        b"\x01" + tag(18100, b"\0\0\0\x07\0"),
        b"\x02" + tag(18101, b"\x02x") + generation,
    ):
        assert refusal(pair, group + section + b"\0").field.startswith("groups")


# -- null, and text --------------------------------------------------------------------------------


@every_pair
def test_f12_null_where_it_may_not_be(pair: Pair) -> None:
    nullable = {field.name for field in fields_of(pair.cls) if pair.version in field.nullable}
    for name, data in spoiled(pair, length_of((Text, Blob, ArrayOf), -1)):
        if name in nullable:
            assert getattr(decode(pair.cls, data, pair.version), name) is None
        else:
            error = refusal(pair, data)
            assert error.field == name
            assert "null" in error.reason


@every_flexible_pair
def test_f13_strings_over_the_limit(pair: Pair) -> None:
    longest = b"x" * MAX_STRING
    for name, data in spoiled(pair, length_of((Text,), MAX_STRING, longest)):
        assert getattr(decode(pair.cls, data, pair.version), name) == longest.decode()
    for size in (MAX_STRING + 1, MAX_STRING + 100, 0xFFFFFFFE):
        text = b"x" * min(size, MAX_STRING + 100)
        for name, data in spoiled(pair, instead_of_text(write_uvarint(size + 1) + text)):
            assert refusal(pair, data).field == name


def instead_of_text(written: bytes) -> Spoil:
    """Compact strings are written as these bytes."""

    def spoil(piece: Piece) -> bytes | None:
        return written if isinstance(piece.field.type, Text) and piece.compact else None

    return spoil


def test_f13_negative_lengths_of_plain_strings() -> None:
    pair = Pair(HeartbeatRequest, 0)
    for length in (-1, -2, -32768):
        assert refusal(pair, length.to_bytes(2, "big", signed=True) + bytes(50)).field == "group_id"
    refusal(pair, b"\x7f\xff" + bytes(100))


@every_pair
def test_f14_text_that_is_not_utf8(pair: Pair) -> None:
    for bad in BAD_TEXTS.values():
        for name, data in spoiled(pair, length_of((Text,), len(bad), bad)):
            error = refusal(pair, data)
            assert error.field == name
            assert "UTF-8" in error.reason
