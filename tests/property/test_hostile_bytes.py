"""Bytes that no honest peer sends: every decoder gives a message or a ProtocolError, and nothing else.

The names of tests begin with the number of the case in the project's campaign of bad input.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coterie.errors import ProtocolError
from coterie.protocol.codec import MAX_REQUEST_ELEMENTS, decode, decode_prefix, encode
from coterie.protocol.messages.groups import DescribeGroupsResponse, ListGroupsRequest
from coterie.protocol.messages.headers import RequestHeader
from coterie.protocol.messages.offsets import OffsetFetchRequest
from coterie.protocol.schema import ArrayOf, Blob, Field, Request, StructOf, Text, fields_of
from coterie.protocol.types import Number
from coterie.protocol.wire import MAX_STRING, MAX_TAGS, Malformed, uvarint, write_uvarint
from tests.property.strategies import PAIRS, Pair, examples, messages, pair_id, smallest_pieces

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
    assert 0 <= error.offset
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
    """Whatever was understood can be said again, and means the same."""
    try:
        message, end = decode_prefix(pair.cls, data, pair.version)
    except ProtocolError as error:
        check_names(error, pair, data)
        return
    assert end <= len(data)
    encoded = encode(message, pair.version)
    assert decode_prefix(pair.cls, encoded, pair.version) == (message, len(encoded))


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MAX_COST


def replaced(
    pair: Pair, wanted: Callable[[Field], bool], data: bytes
) -> Iterator[tuple[str, bytes]]:
    """The smallest message with one of its fields written as `data`, for each field that is wanted."""
    pieces = smallest_pieces(pair)
    behind = bytes(pair.flexible)
    for index, (field, _) in enumerate(pieces):
        if wanted(field):
            before = b"".join(piece.data for piece in pieces[:index])
            after = b"".join(piece.data for piece in pieces[index + 1 :])
            yield field.name, before + data + after + behind


def with_tags(pair: Pair, section: bytes) -> bytes:
    """The smallest message of a flexible version, with a tag section of the test's own."""
    return b"".join(piece.data for piece in smallest_pieces(pair)) + section


def tag(number: int, data: bytes = b"") -> bytes:
    return write_uvarint(number) + write_uvarint(len(data)) + data


# -- any bytes -------------------------------------------------------------------------------------------


@every_pair
def test_the_smallest_bytes_are_a_message(pair: Pair):
    data = with_tags(pair, bytes(pair.flexible))
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
def test_arbitrary_bytes(pair: Pair, data: bytes):
    accept_or_refuse(pair, data)


_LENGTHS: Final = (
    b"\xff\xff",
    b"\x7f\xff",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xfe",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x1f",
    b"\x80\x80\x80\x80\x08",
)


def flip(data: bytearray, at: int, choice: int) -> None:
    if at < len(data):
        data[at] ^= 1 << choice % 8


def cut(data: bytearray, at: int, _choice: int) -> None:
    del data[at:]


def remove(data: bytearray, at: int, choice: int) -> None:
    del data[at : at + choice % 8]


def insert(data: bytearray, at: int, choice: int) -> None:
    data[at:at] = bytes((choice % 256,)) * (1 + choice % 3)


def raise_length(data: bytearray, at: int, choice: int) -> None:
    length = _LENGTHS[choice % len(_LENGTHS)]
    data[at : at + len(length)] = length


def nudge(data: bytearray, at: int, choice: int) -> None:
    if at < len(data):
        data[at] = (data[at] + 1 + choice % 3) % 256


@every_pair
@examples(12)
@given(data=st.data())
def test_f19_mutated_messages(pair: Pair, data: st.DataObject):
    encoded = bytearray(encode(data.draw(messages(*pair)), pair.version))
    damages = st.tuples(
        st.sampled_from((flip, cut, remove, insert, raise_length, nudge)),
        st.integers(0, max(len(encoded), 1)) | st.integers(0, 40),
        st.integers(0, 255),
    )
    for damage, at, choice in data.draw(st.lists(damages, min_size=1, max_size=3)):
        damage(encoded, at, choice)
    accept_or_refuse(pair, bytes(encoded))


@every_pair
@examples(3)
@given(data=st.data())
def test_f04_a_message_cut_anywhere_is_refused(pair: Pair, data: st.DataObject):
    encoded = encode(data.draw(messages(*pair)), pair.version)
    step = 1 + len(encoded) // 200  # every offset, unless the message is long
    for length in {*range(0, len(encoded), step), *range(max(len(encoded) - 50, 0), len(encoded))}:
        refusal(pair, encoded[:length])


# -- counts and lengths ----------------------------------------------------------------------------------


def is_array(field: Field) -> bool:
    return isinstance(field.type, ArrayOf)


@every_pair
def test_f08_array_counts_beyond_the_bytes(pair: Pair):
    for count in (INT_MAX, INT_MAX - 1, 1 << 24, 61):
        written = write_uvarint(count + 1) if pair.flexible else count.to_bytes(4, "big")
        for name, data in replaced(pair, is_array, written):
            short = data.ljust(60, b"\0")[: max(60, len(data))]
            with pytest.raises(ProtocolError):
                decode(
                    pair.cls, short, pair.version
                )  # compiles, so that the next has only its own cost
            with little_memory():
                error = refusal(pair, short)
            assert error.field == name


@every_pair
def test_f08_negative_array_counts(pair: Pair):
    if pair.flexible:
        return  # a compact count has no sign
    for count in (-2, -1, -(1 << 31)):
        written = count.to_bytes(4, "big", signed=True)
        for name, data in replaced(pair, is_array, written):
            field = next(each for each in fields_of(pair.cls) if each.name == name)
            if pair.version in field.nullable:  # Kafka takes any negative count for null
                assert getattr(decode(pair.cls, data, pair.version), name) is None
            else:
                assert refusal(pair, data).field == name


@pytest.mark.parametrize(
    "pair", [pair for pair in PAIRS if issubclass(pair.cls, Request)], ids=pair_id
)
def test_f09_elements_have_a_budget(pair: Pair):
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


def test_f09_a_mebibyte_of_the_smallest_elements():
    pair = Pair(ListGroupsRequest, 4)
    count = (1 << 20) - 5
    data = write_uvarint(count + 1) + b"\x01" * count + b"\0"
    refusal(pair, data[: 1 << 20])
    with little_memory_for(2 * len(data)):
        assert refusal(pair, data).field == "states_filter"
    message = ListGroupsRequest(states_filter=("",) * MAX_REQUEST_ELEMENTS)
    assert decode(ListGroupsRequest, encode(message, 4), 4) == message
    refusal(pair, encode(ListGroupsRequest(states_filter=("",) * (MAX_REQUEST_ELEMENTS + 1)), 4))


@contextmanager
def little_memory_for(size: int) -> Iterator[None]:
    """The bytes may be looked at as text once, which takes as much again."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size + MAX_COST


def test_f09_the_budget_is_for_all_arrays_together():
    pair = Pair(OffsetFetchRequest, 7)
    data = bytearray(b"\x02g" + write_uvarint(600 + 1))
    for _ in range(600):
        data += b"\x02t" + write_uvarint(200 + 1) + bytes(4 * 200) + b"\0"
    data += b"\0\0"
    assert refusal(pair, bytes(data)).field == "topics.partition_indexes"
    assert len(decode(pair.cls, bytes(data), 7, max_elements=600 + 600 * 200).topics or ()) == 600


# -- varints ---------------------------------------------------------------------------------------------


def is_compact(field: Field) -> bool:
    return field.compact and isinstance(field.type, Text | Blob | ArrayOf)


@pytest.mark.parametrize("varint", BAD_VARINTS.values(), ids=BAD_VARINTS)
@every_flexible_pair
def test_f10_varints(pair: Pair, varint: bytes):
    for name, data in replaced(pair, is_compact, varint + bytes(8)):
        assert refusal(pair, data).field == name
    refusal(pair, with_tags(pair, varint + bytes(8)))
    refusal(pair, with_tags(pair, b"\x01" + varint + bytes(8)))
    refusal(pair, with_tags(pair, b"\x01\x7d" + varint + bytes(8)))


@pytest.mark.parametrize("varint", BAD_VARINTS.values(), ids=BAD_VARINTS)
def test_f10_varint_by_itself(varint: bytes):
    with pytest.raises(Malformed):
        uvarint(varint, 0)


@given(value=st.integers(0, 0xFFFFFFFF))
def test_f10_every_number_has_one_spelling(value: int):
    data = write_uvarint(value)
    assert uvarint(data, 0) == (value, len(data))
    if len(data) < 5:
        longer = data[:-1] + bytes((data[-1] | 0x80, 0))
        with pytest.raises(Malformed):
            uvarint(longer, 0)


# -- tags ------------------------------------------------------------------------------------------------


@every_flexible_pair
def test_f11_tags_that_are_refused(pair: Pair):
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
        data = with_tags(pair, section)
        with pytest.raises(ProtocolError):
            decode(pair.cls, data, pair.version)
        with little_memory():
            assert refusal(pair, data).field == ""


@every_flexible_pair
def test_f11_unknown_tags_are_stepped_over(pair: Pair):
    plain = decode(pair.cls, with_tags(pair, b"\0"), pair.version)
    numbers = range(20_000, 20_000 + MAX_TAGS)
    section = write_uvarint(MAX_TAGS) + b"".join(tag(number, b"xyz") for number in numbers)
    data = with_tags(pair, section)
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
def test_f11_known_tags(pair: Pair, data: st.DataObject):
    message = data.draw(messages(*pair))
    for field in fields_of(pair.cls):
        value = getattr(message, field.name)
        if field.tag is None or pair.version not in field.versions or value == field.default:
            continue
        alone = encode(decode(pair.cls, with_tags(pair, b"\0"), pair.version), pair.version)[:-1]
        whole = encode(pair.cls(**{field.name: value}), pair.version)
        assert len(whole) > len(alone)


def test_f11_known_tag_twice_and_of_another_size():
    pair = Pair(DescribeGroupsResponse, 5)
    # One group: no error, four empty strings, no members, no operations; then its tags.
    group = b"\0\0\0\0\x02" + b"\0\0" + b"\x01" * 5 + bytes(4)
    generation = tag(18100, b"\0\0\0\x07")
    good = group + b"\x01" + generation + b"\0"
    assert decode(pair.cls, good, 5).groups[0].generation_id == 7
    for section in (
        b"\x02" + generation + generation,
        b"\x01" + tag(18100, b"\0\0\0"),
        b"\x01" + tag(18100, b"\0\0\0\x07\0"),
        b"\x02" + tag(18101, b"\x02x") + generation,
    ):
        assert refusal(pair, group + section + b"\0").field.startswith("groups")


# -- null, and text --------------------------------------------------------------------------------------


@every_pair
def test_f12_null_where_it_may_not_be(pair: Pair):
    def wanted(field: Field, kinds: tuple[type, ...]) -> bool:
        return isinstance(field.type, kinds) and pair.version not in field.nullable

    if pair.flexible:
        nulls = [((Text, Blob, ArrayOf), b"\0", True)]
    else:
        nulls = [((Text,), b"\xff\xff", False), ((Blob, ArrayOf), b"\xff\xff\xff\xff", False)]
    for kinds, null, compact in nulls:
        for name, data in replaced(
            pair, lambda each: wanted(each, kinds) and each.compact >= compact, null
        ):
            assert refusal(pair, data).field == name


@every_flexible_pair
def test_f13_strings_over_the_limit(pair: Pair):
    def wanted(field: Field) -> bool:
        return isinstance(field.type, Text) and field.compact

    longest = "x" * MAX_STRING
    for name, data in replaced(pair, wanted, write_uvarint(MAX_STRING + 1) + longest.encode()):
        assert getattr(decode(pair.cls, data, pair.version), name) == longest
    for size in (MAX_STRING + 1, MAX_STRING + 100, 0xFFFFFFFE):
        text = b"x" * min(size, MAX_STRING + 100)
        for name, data in replaced(pair, wanted, write_uvarint(size + 1) + text):
            assert refusal(pair, data).field == name


def test_f13_negative_lengths_of_plain_strings():
    pair = Pair(RequestHeader, 1)
    for length in (-1, -2, -32768):
        data = bytes(8) + length.to_bytes(2, "big", signed=True)
        assert decode(pair.cls, data, 1).client_id is None
    refusal(pair, bytes(8) + b"\x7f\xff" + bytes(100))


@pytest.mark.parametrize("bad", BAD_TEXTS.values(), ids=BAD_TEXTS)
@every_pair
def test_f14_text_that_is_not_utf8(pair: Pair, bad: bytes):
    def wanted(field: Field) -> bool:
        return isinstance(field.type, Text)

    for compact in (True, False):
        length = write_uvarint(len(bad) + 1) if compact else len(bad).to_bytes(2, "big")
        for name, data in replaced(
            pair,
            lambda each: wanted(each) and (pair.flexible and each.compact) == compact,
            length + bad,
        ):
            error = refusal(pair, data)
            assert error.field == name
            assert "UTF-8" in error.reason
