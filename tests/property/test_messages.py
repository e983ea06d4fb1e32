"""Every message in every version: what is written is read back, whole and the same.

Also the blobs that carry their own version, of which what cannot be read is a value too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.protocol.codec import decode, decode_in_python, decode_prefix, encode, encode_in_python
from coterie.protocol.group_records import (
    GroupRecord,
    RecordType,
    decode_record,
    decode_value,
    encode_key,
    encode_value,
    record_types,
)
from coterie.protocol.kafka_json import from_json, to_json
from coterie.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from coterie.protocol.messages.groups import ListedGroup, ListGroupsResponse
from coterie.protocol.schema import (
    ArrayOf,
    Blob,
    Data,
    RecordKey,
    RecordValue,
    Struct,
    StructOf,
    fields_of,
)
from coterie.protocol.versioned import (
    Undecoded,
    decode_assignment,
    decode_subscription,
    encode_versioned,
)
from tests.property.strategies import PAIRS, Pair, examples, messages, pair_id

every_pair = pytest.mark.parametrize("pair", PAIRS, ids=pair_id)


def test_every_kind_of_message_is_among_the_pairs() -> None:
    assert len(PAIRS) > 500
    kinds = {pair.cls.__kind__ for pair in PAIRS}
    assert kinds == {"request", "response", "header", "data", "record-key", "record-value"}


@every_pair
@examples(12)
@given(data=st.data())
def test_decode_gives_back_what_encode_wrote(pair: Pair, data: st.DataObject) -> None:
    message = data.draw(messages(*pair))
    encoded = encode(message, pair.version)
    decoded, end = decode_prefix(pair.cls, encoded, pair.version)
    assert decoded == message
    assert end == len(encoded)
    assert encode(decoded, pair.version) == encoded
    assert encode_in_python(message, pair.version) == encoded
    assert decode_in_python(pair.cls, encoded, pair.version) == (decoded, end)


@every_pair
@examples(4)
@given(data=st.data())
def test_a_message_is_found_among_other_bytes(pair: Pair, data: st.DataObject) -> None:
    message = data.draw(messages(*pair))
    before, behind = data.draw(st.binary(max_size=5)), data.draw(st.binary(max_size=5))
    encoded = encode(message, pair.version)
    buffer = before + encoded + behind
    found = decode_prefix(pair.cls, buffer, pair.version, offset=len(before))
    assert found == (message, len(before) + len(encoded))


@every_pair
@examples(6)
@given(data=st.data())
def test_json_gives_the_message_back(pair: Pair, data: st.DataObject) -> None:
    message = data.draw(messages(*pair))
    text = json.dumps(to_json(message, pair.version))
    batches = _batches(message, pair.version)
    assert from_json(pair.cls, json.loads(text), pair.version, batches) == message


def _batches(value: Struct, version: int) -> Iterator[bytes | None]:
    """The record batches of a message, which its JSON leaves out, in order."""
    for field in fields_of(type(value)):
        if version not in field.versions:
            continue
        item: Any = getattr(value, field.name)
        match field.type:
            case Blob(records=True):
                yield item
            case StructOf() if item is not None:
                yield from _batches(item, version)
            case ArrayOf(StructOf()) if item is not None:
                for element in item:
                    yield from _batches(element, version)


@pytest.mark.parametrize("kind", record_types().values(), ids=lambda kind: kind.name)
@examples(10)
@given(data=st.data())
def test_a_record_of_a_group_is_read_as_it_was_written(
    kind: RecordType, data: st.DataObject
) -> None:
    version = data.draw(st.sampled_from(kind.value.__versions__.each()))
    key, value = data.draw(messages(kind.key, 0)), data.draw(messages(kind.value, version))
    written = encode_key(key), encode_value(value, version)
    assert decode_record(*written) == GroupRecord(key, value)
    assert decode_record(written[0], None) == GroupRecord(key, None)


_FEW: Final = st.sampled_from(("", "a", "b"))
_ODD: Final = st.sampled_from(("größe", "x" * 126, "x" * 127, "x" * 300))


@examples(100)
@given(
    kinds=st.lists(st.one_of(st.tuples(_FEW, _FEW, _FEW), st.tuples(_FEW, _ODD, _FEW)), min_size=1),
    order=st.lists(st.integers(0, 1 << 16), min_size=100, max_size=150),
    different=st.sampled_from((0, 10, 90)),
)
def test_strings_that_repeat_from_element_to_element(
    kinds: list[tuple[str, str, str]], order: list[int], different: int
) -> None:
    """The decoder remembers the strings of elements before, as many as are worth it."""
    groups = []
    for index, choice in enumerate(order):
        group = ListedGroup(f"group-{index}", *kinds[choice % len(kinds)])
        if different:
            group = msgspec.structs.replace(group, group_type=str(choice % different))
        groups.append(group)
    message = ListGroupsResponse(groups=tuple(groups))
    assert decode(ListGroupsResponse, encode(message, 5), 5) == message


@examples(300)
@given(data=st.binary(max_size=60), kind=st.integers(-1, 30), version=st.integers(-1, 6))
def test_f18_blobs_are_values_even_if_they_make_no_sense(
    data: bytes, kind: int, version: int
) -> None:
    blob = version.to_bytes(2, "big", signed=True) + data
    for read in (decode_subscription, decode_assignment):
        assert isinstance(read(data), Undecoded | Data)
        assert isinstance(read(blob), Undecoded | Data)
    key = kind.to_bytes(2, "big", signed=True) + data
    assert isinstance(decode_record(key, blob).key, Undecoded | RecordKey)
    assert isinstance(decode_record(data, None).key, Undecoded | RecordKey)
    for known in record_types().values():
        assert isinstance(decode_value(known.key(), blob), Undecoded | RecordValue)


@examples(60)
@given(message=messages(ConsumerProtocolSubscription, 3), data=st.data())
def test_f18_a_subscription_cut_short_or_of_a_later_version(
    message: ConsumerProtocolSubscription, data: st.DataObject
) -> None:
    blob = encode_versioned(message, 3)
    assert decode_subscription(blob) == message
    later = data.draw(st.integers(4, 32767)).to_bytes(2, "big") + blob[2:]
    assert decode_subscription(later + data.draw(st.binary(max_size=9))) == message
    short = blob[: data.draw(st.integers(0, len(blob) - 1))]
    found = decode_subscription(short)
    assert isinstance(found, Undecoded)
    assert found.raw == short
    assert found.reason
