"""Groups of other protocols that a log may hold."""

from __future__ import annotations

import pytest

from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.foreign import FOREIGN_TYPES, ForeignGroup
from coterie.error_codes import ErrorCode
from coterie.protocol.group_records import record_types
from coterie.protocol.group_records.classic import GroupMetadataKey, GroupMetadataValue
from coterie.protocol.group_records.share import (
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
)
from coterie.protocol.group_records.streams import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
)
from coterie.protocol.messages.groups import ListGroupsRequest
from coterie.protocol.messages.membership import MemberIdentity
from tests.kit.invariants import check_live_equals_replay
from tests.unit.coordinator.driver import Driver, commit_in_transaction, delete

E = ErrorCode
GROUP = StreamsGroupMetadataKey(group_id="group")
MEMBER = StreamsGroupMemberMetadataKey(group_id="group", member_id="m")
TARGET = StreamsGroupTargetAssignmentMetadataKey(group_id="group")
CURRENT = StreamsGroupCurrentMemberAssignmentKey(group_id="group", member_id="m")


@pytest.fixture
def driver() -> Driver:
    """An empty streams group with an offset."""
    driver = Driver()
    driver.replay(GROUP, StreamsGroupMetadataValue(epoch=1))
    driver.commit(5)
    return driver


def add_member(driver: Driver) -> None:
    driver.replay(MEMBER, StreamsGroupMemberMetadataValue(client_id="c"))


def listed(driver: Driver) -> tuple[str, str, str]:
    (group,) = driver.shard.list_groups(ListGroupsRequest())
    return group.protocol_type, group.group_state, group.group_type


def test_every_known_type_of_record_belongs_to_a_group() -> None:
    ours = {each.__key__ for each in ConsumerGroup.appliers}
    assert FOREIGN_TYPES.keys() | ours | {0, 1, 2} == record_types().keys()


def test_states_of_a_streams_group(driver: Driver) -> None:
    assert listed(driver) == ("streams", "Empty", "streams")
    add_member(driver)
    assert listed(driver) == ("streams", "Assigning", "streams")
    driver.replay(TARGET, StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=1))
    driver.replay(CURRENT, StreamsGroupCurrentMemberAssignmentValue(member_epoch=0))
    assert listed(driver) == ("streams", "Reconciling", "streams")
    driver.replay(CURRENT, StreamsGroupCurrentMemberAssignmentValue(member_epoch=1, state=2))
    assert listed(driver) == ("streams", "Reconciling", "streams")
    driver.replay(CURRENT, StreamsGroupCurrentMemberAssignmentValue(member_epoch=1, state=1))
    assert listed(driver) == ("streams", "Stable", "streams")
    driver.replay(CURRENT)
    driver.replay(MEMBER)
    assert listed(driver) == ("streams", "Empty", "streams")


def test_a_share_group() -> None:
    driver = Driver()
    driver.replay(ShareGroupMetadataKey(group_id="group"), ShareGroupMetadataValue(epoch=1))
    assert listed(driver) == ("share", "Empty", "share")
    member = ShareGroupMemberMetadataKey(group_id="group", member_id="m")
    driver.replay(member, ShareGroupMemberMetadataValue())
    assert listed(driver) == ("share", "Stable", "share")
    assert driver.send(driver.join_request(), 4).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    driver.replay(member)
    assert driver.send(driver.join_request(), 4).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    driver.advance(86_400)
    assert listed(driver) == ("share", "Empty", "share")  # Kafka does not expire share groups


def test_it_is_deleted_when_it_is_empty(driver: Driver) -> None:
    driver.replay(TARGET, StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=1))
    add_member(driver)
    outcome = driver.shard.delete_groups(["group"])
    assert outcome.response.results[0].error_code == E.NON_EMPTY_GROUP  # type: ignore[union-attr]
    driver.replay(MEMBER)
    outcome = driver.shard.delete_groups(["group"])
    # As Kafka: offsets, then the target (20), then what the group lives by (17).
    assert [type(record.key).__key__ for record in outcome.records] == [1, 20, 17]
    driver.apply(outcome)
    assert driver.shard.durable_state()["groups"] == {}
    assert driver.shard.durable_state()["offsets"] == {}


def test_it_expires_when_it_is_empty(driver: Driver) -> None:
    driver.advance(8 * 86_400)
    assert driver.shard.durable_state()["groups"] == {}


def test_with_members_nothing_expires(driver: Driver) -> None:
    add_member(driver)
    driver.advance(8 * 86_400)
    assert driver.fetched() == {("orders", 0): 5}


def test_offsets_of_an_empty_one_can_be_changed(driver: Driver) -> None:
    assert driver.commit(6) == E.NONE
    assert delete(driver, ("orders", (0,))) == [E.NONE]
    add_member(driver)
    assert driver.commit(6) == E.UNKNOWN_MEMBER_ID
    assert driver.commit(6, member_id="m", generation_id_or_member_epoch=1) == E.UNKNOWN_MEMBER_ID
    assert delete(driver, ("orders", (0,))) == E.NON_EMPTY_GROUP


def test_transactions_reach_it_too(driver: Driver) -> None:
    assert commit_in_transaction(driver, 7) == E.NONE
    driver.end_transaction(7, commit=True)
    assert driver.fetched() == {("orders", 0): 7}


def test_classic_requests_do_not_reach_it(driver: Driver) -> None:
    add_member(driver)
    assert driver.send(driver.join_request(), 4).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert driver.leave(MemberIdentity(member_id="m")) == [E.UNKNOWN_MEMBER_ID]
    assert driver.described().error_message == "Group group is not a classic group."


def test_an_empty_one_makes_way_for_a_classic_group(driver: Driver) -> None:
    answer = driver.send(driver.join_request(member_id="m"), 4)
    assert answer.error_code == E.UNKNOWN_MEMBER_ID
    before = len(driver.log)
    driver.form()
    keys = [type(key).__key__ for key, _ in driver.written()[before:]]  # type: ignore[union-attr]
    assert keys == [17, 2, 2]
    assert listed(driver) == ("consumer", "Stable", "classic")
    assert driver.fetched() == {("orders", 0): 5}  # offsets stay
    check_live_equals_replay(driver.shard, driver.log, driver.config)


def test_a_later_record_decides_the_type(driver: Driver) -> None:
    driver.replay(GroupMetadataKey(group="group"), GroupMetadataValue(generation=4))
    assert listed(driver)[2] == "classic"
    driver.replay(GROUP, StreamsGroupMetadataValue(epoch=5))
    assert listed(driver)[2] == "streams"
    driver.replay(GroupMetadataKey(group="group"))  # about the classic group that is not there
    assert isinstance(driver.shard._state.groups["group"], ForeignGroup)
