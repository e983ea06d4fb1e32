"""UUIDs as Kafka prints them, and declarations that make no sense."""

from __future__ import annotations

import pytest

from coterie.errors import InvalidMessage
from coterie.protocol.codec import encode
from coterie.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from coterie.protocol.schema import Struct, Versions, field, fields_of
from coterie.protocol.types import Uuid


def test_a_uuid_prints_as_kafka_prints_it_and_is_read_back() -> None:
    uuid = Uuid(bytes(range(16)))
    assert str(uuid) == "AAECAwQFBgcICQoLDA0ODw"
    assert Uuid.parse(str(uuid)) == uuid
    assert repr(Uuid.ZERO) == "Uuid.parse('AAAAAAAAAAAAAAAAAAAAAA')"


@pytest.mark.parametrize("text", ["", "AAECAw", "AAECAwQFBgcICQoLDA0OD!", "x" * 23])
def test_what_is_no_uuid_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a Kafka UUID"):
        Uuid.parse(text)


@pytest.mark.parametrize("raw", [b"short", bytes(20)])
def test_a_uuid_of_another_length_is_not_sent(raw: bytes) -> None:
    with pytest.raises(InvalidMessage, match="16 bytes"):
        encode(DeleteTopicsRequest(topics=(DeleteTopicState(None, Uuid(raw)),)), 6)


def test_versions_are_read_and_said_as_kafka_writes_them() -> None:
    assert [str(Versions.parse(text)) for text in ("2+", "0-3")] == ["2+", "0-3"]
    assert list(Versions.parse("4").each()) == [4]
    assert 0 not in Versions.parse("none")
    with pytest.raises(ValueError, match="is not a range"):
        Versions.parse("4-")


def test_a_type_without_a_place_on_the_wire_is_refused() -> None:
    class Odd(Struct):
        ratio: complex = field("0+", "No such thing.", default=0j)

    Odd.__annotations__["ratio"] = complex
    with pytest.raises(TypeError, match="has no place on the wire"):
        fields_of(Odd)
