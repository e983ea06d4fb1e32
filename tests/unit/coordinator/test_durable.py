"""Replay: total, and the same as live."""

from __future__ import annotations

import pytest

from coterie.coordinator import GroupConfig
from coterie.protocol.group_records import record_types
from coterie.protocol.group_records.classic import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.protocol.versioned import Undecoded
from tests.kit.invariants import Written, check_live_equals_replay, load
from tests.unit.coordinator.driver import Driver

KEY = OffsetCommitKey(group="group", topic="orders", partition=0)
JUNK = Undecoded(b"junk", "why not")


@pytest.mark.parametrize("number", sorted(record_types()))
def test_tombstones_for_what_is_not_there(number: int) -> None:
    driver = Driver()
    driver.replay(record_types()[number].key())
    assert driver.shard.skipped_records == 1
    assert driver.shard.durable_state() == {"groups": {}, "offsets": {}, "transactions": {}}


@pytest.mark.parametrize("number", sorted(record_types()))
def test_any_record_may_come_first_and_twice(number: int) -> None:
    kind = record_types()[number]
    driver = Driver()
    for _ in range(2):
        driver.replay(kind.key(), kind.value())
    assert list(driver.shard.durable_state()["groups"]) == [""]
    driver.replay(kind.key())
    driver.restart()


def test_what_cannot_be_read_is_skipped_and_counted() -> None:
    driver = Driver()
    driver.replay(JUNK, None)
    driver.replay(JUNK, JUNK)
    driver.replay(KEY, JUNK)
    driver.shard.replay_transactional(7, JUNK, JUNK)
    assert driver.shard.skipped_records == 4
    assert driver.shard.durable_state()["groups"] == {}


def test_offsets_before_their_group() -> None:
    driver = Driver()
    driver.replay(KEY, OffsetCommitValue(offset=5))
    driver.replay(GroupMetadataKey(group="group"), GroupMetadataValue(generation=3))
    assert driver.fetched() == {("orders", 0): 5}
    assert driver.described().generation_id == 3


def test_the_oldest_records_are_understood() -> None:
    driver = Driver()
    key = LegacyOffsetCommitKey(group="group", topic="orders", partition=0)
    driver.replay(key, LegacyOffsetCommitValue(offset=5, metadata="m", commit_timestamp=9))
    assert driver.shard.durable_state()["offsets"] == {
        "group": {"orders": {0: OffsetCommitValue(offset=5, metadata="m", commit_timestamp=9)}}
    }
    driver.replay(key)
    assert driver.shard.durable_state()["offsets"] == {}


def test_a_tombstone_in_a_transaction_counts_at_once() -> None:
    driver = Driver()
    driver.commit(5)
    driver.shard.replay_transactional(7, KEY, None)
    assert driver.fetched() == {}


def test_a_group_tombstone_leaves_offsets_behind_that_nobody_sees() -> None:
    """Kafka never writes this; a reader of the log must get over it."""
    driver = Driver()
    driver.commit(5)
    driver.replay(GroupMetadataKey(group="group"))
    assert (driver.state(), driver.fetched()) == ("Dead", {})
    check_live_equals_replay(driver.shard, driver.log, driver.config)


def test_a_compacted_log_gives_the_same_groups() -> None:
    driver = Driver()
    members = driver.form(2)
    for offset in range(5):
        driver.commit_as(members[0], offset)
        driver.commit_as(members[1], offset, partition=1)
    last: dict[object, Written] = {}
    for entry in driver.log:
        assert isinstance(entry, Written)
        last.pop(entry.key, None)
        last[entry.key] = entry
    compacted = load(last.values(), GroupConfig())
    assert compacted.durable_state() == driver.shard.durable_state()
    assert len(last) < len(driver.log)
