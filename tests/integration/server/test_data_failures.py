"""A disk that is full for a moment: what was not stored is refused, and nobody remembers it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie.error_codes import ErrorCode
from coterie.storage.data_directory import DataDirectory, SealedRound
from coterie.storage.errors import StorageFull
from tests.integration.server.talk import (
    TRANSACTIONAL,
    add_partitions,
    batch_of,
    end,
    fetch,
    init,
    list_offset,
    new_topic,
    produce,
    values,
)
from tests.kit.wire_client import WireClient

Fail = Callable[[int], None]


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Fail:
    """Let the nth write from now on find the disk full, and only that."""
    write = DataDirectory.write
    countdown = 0

    def maybe(self: DataDirectory, sealed: SealedRound) -> None:
        nonlocal countdown
        countdown -= 1
        if countdown == 0:
            raise StorageFull("no space left")
        write(self, sealed)

    def arm(number: int) -> None:
        nonlocal countdown
        countdown = number

    monkeypatch.setattr(DataDirectory, "write", maybe)
    return arm


def test_a_batch_that_was_not_stored_can_be_sent_again(client: WireClient, fail: Fail) -> None:
    topic = new_topic(client)
    first, second = (batch_of(b"a", producer=(7, 0), sequence=each) for each in (0, 1))
    assert produce(client, topic, first).base_offset == 0
    fail(1)
    lost = produce(client, topic, second)
    assert (lost.error_code, lost.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    again = produce(client, topic, second)
    assert (again.error_code, again.base_offset) == (0, 1)
    assert list_offset(client, topic, -1).offset == 2


def test_a_producer_id_that_was_not_stored_is_not_given(client: WireClient, fail: Fail) -> None:
    assert init(client, "full").producer_epoch == 0
    fail(1)
    assert init(client, "full").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert init(client, "full").producer_epoch == 1


@pytest.mark.parametrize("write", [1, 2, 3])
def test_an_end_that_meets_a_full_disk(client: WireClient, fail: Fail, write: int) -> None:
    """At the decision (1) nothing is decided; at the markers (2) and at the completion (3) it is."""
    topic, name = new_topic(client), f"end-{write}"
    answer = init(client, name)
    producer = (answer.producer_id, answer.producer_epoch)
    add_partitions(client, name, producer, topic[0])
    batch = batch_of(b"a", producer=producer, sequence=0, attributes=TRANSACTIONAL)
    assert produce(client, topic, batch, transactional_id=name, version=11).error_code == 0
    fail(write)
    error = end(client, name, producer, commit=True)
    if write == 1:
        assert error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    while error in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.CONCURRENT_TRANSACTIONS):
        error = end(client, name, producer, commit=True)
    assert error is ErrorCode.NONE
    assert values(fetch(client, topic, committed=True)) == [b"a"]
    after = add_partitions(client, name, producer, topic[0])
    assert after in ([0], [ErrorCode.CONCURRENT_TRANSACTIONS])


def test_what_follows_a_full_disk_is_readable(client: WireClient, fail: Fail) -> None:
    topic = new_topic(client)
    fetch(client, topic)
    fail(1)
    assert produce(client, topic, batch_of(b"a")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert produce(client, topic, batch_of(b"b")).base_offset == 0
    assert values(fetch(client, topic, max_wait_ms=20_000)) == [b"b"]
