"""Every message in every version: what is written is read back, whole and the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.protocol.codec import decode, decode_prefix, encode
from coterie.protocol.kafka_json import from_json, to_json
from coterie.protocol.messages.groups import ListedGroup, ListGroupsResponse
from coterie.protocol.schema import ArrayOf, Blob, Struct, StructOf, fields_of
from tests.property.strategies import PAIRS, Pair, examples, messages, pair_id

every_pair = pytest.mark.parametrize("pair", PAIRS, ids=pair_id)


def test_every_kind_of_message_is_among_the_pairs():
    assert len(PAIRS) > 500
    kinds = {pair.cls.__kind__ for pair in PAIRS}
    assert kinds == {"request", "response", "header", "data", "record-key", "record-value"}


@every_pair
@examples(12)
@given(data=st.data())
def test_decode_gives_back_what_encode_wrote(pair: Pair, data: st.DataObject):
    message = data.draw(messages(*pair))
    encoded = encode(message, pair.version)
    decoded, end = decode_prefix(pair.cls, encoded, pair.version)
    assert decoded == message
    assert end == len(encoded)
    assert encode(decoded, pair.version) == encoded


@every_pair
@examples(4)
@given(data=st.data())
def test_a_message_is_found_among_other_bytes(pair: Pair, data: st.DataObject):
    message = data.draw(messages(*pair))
    before, behind = data.draw(st.binary(max_size=5)), data.draw(st.binary(max_size=5))
    encoded = encode(message, pair.version)
    buffer = before + encoded + behind
    found = decode_prefix(pair.cls, buffer, pair.version, offset=len(before))
    assert found == (message, len(before) + len(encoded))


@every_pair
@examples(6)
@given(data=st.data())
def test_json_gives_the_message_back(pair: Pair, data: st.DataObject):
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


@examples(100)
@given(
    kinds=st.lists(
        st.tuples(*[st.sampled_from(("", "consumer", "Stable", "größe"))] * 3), min_size=1
    ),
    order=st.lists(st.integers(0, 1 << 16), min_size=20, max_size=200),
)
def test_strings_that_repeat_from_element_to_element(
    kinds: list[tuple[str, str, str]], order: list[int]
):
    groups = tuple(
        ListedGroup(f"group-{index}", *kinds[choice % len(kinds)])
        for index, choice in enumerate(order)
    )
    message = ListGroupsResponse(groups=groups)
    assert decode(ListGroupsResponse, encode(message, 5), 5) == message
