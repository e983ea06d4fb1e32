"""What Apache Kafka wrote, replayed here, gives the groups that Apache Kafka described."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from coterie.coordinator import CoordinatorShard, GroupConfig, partition_for
from coterie.error_codes import ErrorCode
from coterie.protocol.group_records import decode_record
from coterie.protocol.group_records.classic import GroupMetadataKey, OffsetCommitKey
from coterie.protocol.messages.groups import ListGroupsRequest
from coterie.protocol.messages.offsets import OffsetFetchRequestGroup
from coterie.protocol.records import ControlRecordType, decode_batches, decode_control_record
from tests.kit.golden import DATA, load_json
from tests.kit.invariants import Log, Marker, Written, load
from tests.unit.coordinator.driver import Driver, Topics

PARTITIONS = 4
FINAL = load_json("offsets-log/final-state.json")


def read_log(partition: int) -> Log:
    log: Log = []
    batches = decode_batches((DATA / "offsets-log" / f"partition-{partition}.log").read_bytes())
    for batch in batches.batches:
        for record in batch.records():
            if batch.is_control:
                kind = decode_control_record(record).type
                log.append(Marker(batch.producer_id, kind is ControlRecordType.COMMIT))
            else:
                key, value = decode_record(record.key, record.value)
                log.append(Written(key, value, batch.producer_id))
    return log


@pytest.fixture(scope="module")
def shards() -> list[CoordinatorShard]:
    loaded = [load(read_log(partition), GroupConfig()) for partition in range(PARTITIONS)]
    for shard in loaded:
        shard.load_finished(0.0, 1_794_775_200_000)
    return loaded


def shard_of(shards: list[CoordinatorShard], group_id: str) -> CoordinatorShard:
    return shards[partition_for(group_id, PARTITIONS)]


def test_all_groups_are_listed_with_their_types_and_states(shards: list[CoordinatorShard]) -> None:
    listed = {
        each.group_id: (each.protocol_type, each.group_state, each.group_type)
        for shard in shards
        for each in shard.list_groups(ListGroupsRequest())
    }
    expected = {
        each["groupId"]: (each["protocolType"], each["groupState"], each["groupType"])
        for each in FINAL["listGroups"]["groups"]
    }
    # Of a group whose first rebalance was under way, the log knows only that it exists.
    assert expected.pop("life-joined-only") == ("consumer", "CompletingRebalance", "classic")
    assert listed.pop("life-joined-only") == ("", "Empty", "classic")
    assert listed == expected


@pytest.mark.parametrize(
    "expected", FINAL["describeGroups_v6"]["groups"], ids=lambda each: str(each["groupId"])
)
def test_classic_groups_are_described(
    shards: list[CoordinatorShard], expected: dict[str, Any]
) -> None:
    if expected["groupId"] == "life-joined-only":
        expected = {**expected, "groupState": "Empty", "protocolType": "", "members": []}
    group = shard_of(shards, expected["groupId"]).describe_group(expected["groupId"], 6, 3400)
    assert group.error_code == expected["errorCode"]
    assert group.error_message == expected["errorMessage"]
    assert group.group_state == expected["groupState"]
    assert group.protocol_type == expected["protocolType"]
    assert group.protocol_data == expected["protocolData"]
    assert group.authorized_operations == expected["authorizedOperations"]
    members = [
        {
            "memberId": each.member_id,
            "groupInstanceId": each.group_instance_id,
            "clientId": each.client_id,
            "clientHost": each.client_host,
            "memberMetadata": base64.b64encode(each.member_metadata).decode(),
            "memberAssignment": base64.b64encode(each.member_assignment).decode(),
        }
        for each in group.members
    ]
    assert members == expected["members"]


@pytest.mark.parametrize(
    ("group_id", "expected"),
    [
        ("life-txn", {("orders", 0): 3, ("orders", 1): 4, ("orders", 3): 12}),
        ("life-txn-open", {}),
        ("life-offdel", {("audit-log", 0): 10}),
        ("life-doomed", {("audit-log", 0): 10}),
        ("life-deleted", {}),
        ("life-simple", {("orders", 0): 5, ("orders", 1): 7, ("orders", 2): 9, ("orders", 3): 11}),
    ],
)
def test_offsets(
    shards: list[CoordinatorShard], group_id: str, expected: dict[tuple[str, int], int]
) -> None:
    group = OffsetFetchRequestGroup(group_id=group_id, topics=None)
    answer = shard_of(shards, group_id).fetch_offsets(
        group, 9, require_stable=True, topics=Topics()
    )
    assert {
        (topic.name, each.partition_index): each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
        if each.error_code == 0
    } == expected


def test_the_open_transaction_is_pending(shards: list[CoordinatorShard]) -> None:
    (shard,) = {shard_of(shards, "life-txn-open")}
    (pending,) = shard.durable_state()["transactions"].values()
    assert list(pending) == [OffsetCommitKey(group="life-txn-open", topic="payments", partition=0)]


@pytest.mark.parametrize("partition", range(PARTITIONS))
def test_any_order_of_the_log_can_be_replayed(partition: int) -> None:
    """It need not make sense, but it must go through (KAFKA-17306)."""
    log = read_log(partition)
    for order in (log[::-1], log[1::2] + log[::2], log + log):
        load(order, GroupConfig()).load_finished(0.0, 0)


def test_replaying_a_log_twice_changes_nothing_that_has_no_members_meanwhile() -> None:
    log = read_log(0)
    config = GroupConfig()
    assert load(log + log, config).durable_state() == load(log, config).durable_state()


@pytest.mark.parametrize("group_id", ["life-classic", "life-static", "life-deleted"])
def test_members_of_any_group_are_listed_as_kafka_wrote_them(group_id: str) -> None:
    """Every GroupMetadata record that Kafka wrote is what we would write for the same group."""
    values = [
        entry.value
        for entry in read_log(partition_for(group_id, PARTITIONS))
        if isinstance(entry, Written) and entry.key == GroupMetadataKey(group=group_id)
    ]
    driver = Driver()
    seen = 0
    for value in values:
        driver.replay(GroupMetadataKey(group=group_id), value)
        group = driver.shard._state.groups.get(group_id)
        if group is not None:
            assert group.membership().value() == value  # type: ignore[union-attr]
            seen += 1
    assert seen > 2


def test_a_group_of_the_new_protocol_is_not_found_by_the_old_request(
    shards: list[CoordinatorShard],
) -> None:
    shard = shard_of(shards, "life-848")
    assert shard.describe_group("life-848", 5).error_code == 0
    assert shard.describe_group("life-848", 6).error_code == ErrorCode.GROUP_ID_NOT_FOUND
