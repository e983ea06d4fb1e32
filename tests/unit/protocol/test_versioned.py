"""Blobs and group records: what cannot be read is a value with a reason."""

from __future__ import annotations

import pytest

from coterie.protocol.group_records import (
    decode_key,
    decode_record,
    decode_value,
    encode_key,
    encode_value,
)
from coterie.protocol.group_records.classic import (
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from coterie.protocol.versioned import (
    Undecoded,
    decode_assignment,
    decode_subscription,
    encode_versioned,
)

SUBSCRIPTION = ConsumerProtocolSubscription(topics=("orders",), generation_id=3)


def test_a_subscription_from_the_future_is_read_as_the_newest_we_know() -> None:
    data = encode_versioned(SUBSCRIPTION, 3)
    future = b"\0\x63" + data[2:] + b"more fields"
    assert decode_subscription(future) == SUBSCRIPTION


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "0 bytes are too few"),
        (b"\0", "1 bytes are too few"),
        (b"\xff\xff", "version -1 is not known"),
        (b"\0\1\x7f\xff\xff\xff", "elements do not fit"),
        (b"connect", "ConsumerProtocolSubscription v3"),
    ],
)
def test_broken_subscriptions_stay_bytes_with_a_reason(data: bytes, reason: str) -> None:
    found = decode_subscription(data)
    assert isinstance(found, Undecoded)
    assert found.raw == data
    assert reason in found.reason


def test_no_assignment_is_an_empty_one() -> None:
    assert decode_assignment(b"") == ConsumerProtocolAssignment()
    assert isinstance(decode_assignment(b"\0\1\0"), Undecoded)


def test_a_record_travels_with_its_type_and_version() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=1)
    value = OffsetCommitValue(offset=42, commit_timestamp=7)
    record = decode_record(encode_key(key), encode_value(value, 3))
    assert record == (key, value)
    assert decode_record(encode_key(key), None) == (key, None)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (None, "the record has no key"),
        (b"\0", "the record has no key"),
        (b"\x03\xe7????", "record type 999 is not known"),
        (b"\0\2\0\x05ab", "GroupMetadataKey v0.group"),
    ],
)
def test_a_record_that_cannot_be_read_stops_nobody(key: bytes | None, reason: str) -> None:
    record = decode_record(key, b"\0\0value")
    assert isinstance(record.key, Undecoded)
    assert reason in record.key.reason
    assert record.value == Undecoded(b"\0\0value", "the key could not be read")
    assert decode_record(key, None).value is None


def test_a_value_of_an_unknown_version_is_kept() -> None:
    found = decode_value(GroupMetadataKey(group="g"), b"\0\x09new")
    assert found == Undecoded(b"\0\x09new", "GroupMetadataValue version 9 is not known")
    assert decode_key(encode_key(GroupMetadataKey(group="g"))) == GroupMetadataKey(group="g")
