"""Groups that change their protocol: empty ones, and ones with members, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.coordinator import GroupConfig
from coterie.coordinator.config import MigrationPolicy
from coterie.error_codes import ErrorCode
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from coterie.protocol.messages.membership import (
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupResponse,
)
from coterie.protocol.versioned import Undecoded, decode_assignment, encode_versioned
from tests.kit.invariants import check_live_equals_replay
from tests.unit.coordinator.consumer.members import AT_ONCE, ConsumerDriver, Person

E = ErrorCode


def blob(*owned: int, topics: tuple[str, ...] = ("orders",)) -> bytes:
    partitions = (TopicPartition("orders", owned),) if owned else ()
    subscription = ConsumerProtocolSubscription(topics=topics, owned_partitions=partitions)
    return encode_versioned(subscription, 1)


def protocols(*owned: int) -> tuple[JoinGroupRequestProtocol, ...]:
    return (JoinGroupRequestProtocol(name="range", metadata=blob(*owned)),)


def assigned(*partitions: int) -> bytes:
    return encode_versioned(
        ConsumerProtocolAssignment(assigned_partitions=(TopicPartition("orders", partitions),)), 1
    )


class Migrating(ConsumerDriver):
    """Members of both protocols."""

    def classic(self, size: int = 1, **fields: Any) -> list[JoinGroupResponse]:
        """A classic group whose leader has all the partitions."""
        members: list[JoinGroupResponse] = self.form(size, sync=False, **fields)
        leader = members[0].leader
        self.sync_all(members, lambda each: assigned(0, 1, 2, 3) if each == leader else assigned())
        return members

    def rejoin(self, member_id: str, *owned: int, **fields: Any) -> JoinGroupResponse:
        request = self.join_request(member_id, protocols=protocols(*owned), **fields)
        answer: JoinGroupResponse = self.send(request, 5)
        return answer

    def sync(self, joined: JoinGroupResponse, **fields: Any) -> SyncGroupResponse:
        told: dict[str, Any] = {
            "group_id": "group",
            "generation_id": joined.generation_id,
            "member_id": joined.member_id,
            "protocol_type": "consumer",
            "protocol_name": "range",
        }
        request = SyncGroupRequest(**told | fields)
        answer: SyncGroupResponse = self.send(request, 5)
        return answer

    def got(self, joined: JoinGroupResponse) -> list[int]:
        answer = self.sync(joined)
        assert answer.error_code == 0
        assignment = decode_assignment(answer.assignment)
        assert not isinstance(assignment, Undecoded)
        return sorted(
            partition for each in assignment.assigned_partitions for partition in each.partitions
        )


@pytest.fixture
def driver() -> Migrating:
    return Migrating()


# Empty groups


def test_an_empty_classic_group_becomes_a_consumer_group(driver: Migrating) -> None:
    (member,) = driver.classic()
    driver.commit_as(member, 7)
    driver.leave(MemberIdentity(member_id=member.member_id))
    before = len(driver.log)
    driver.beat("one", 0)
    assert driver.record_types(before) == [-2, 5, 3, 7, 6, 8]
    assert driver.seen().group_state == "Stable"
    assert driver.fetched() == {("orders", 0): 7}
    check_live_equals_replay(driver.shard, driver.log, driver.config)


def test_a_simple_group_becomes_a_consumer_group(driver: Migrating) -> None:
    driver.commit(7)
    driver.beat("one", 0)
    assert driver.fetched() == {("orders", 0): 7}
    assert driver.seen().group_state == "Stable"


def test_an_empty_consumer_group_becomes_a_classic_group(driver: Migrating) -> None:
    driver.beat("one", 0)
    driver.commit(7, member_id="one", generation_id_or_member_epoch=2)
    driver.beat("one", -1)
    before = len(driver.log)
    driver.classic()
    assert driver.record_types(before) == [-6, -4, -3, 2, 2]
    assert driver.state() == "Stable"
    assert driver.fetched() == {("orders", 0): 7}
    assert driver.refused("one", 2) == E.GROUP_ID_NOT_FOUND
    check_live_equals_replay(driver.shard, driver.log, driver.config)


# To the consumer protocol


def test_live_members_go_over(driver: Migrating) -> None:
    """One classic member and one new one: the classic one is asked to rejoin, and shares."""
    (old,) = driver.classic()
    before = len(driver.log)
    new = Person(driver, "new")
    new.beat()
    assert driver.record_types(before) == [-2, 5, 3, 7, 6, 8, 5, 3, 7, 7, 6, 8]
    assert (new.epoch, new.partitions) == (2, [])
    assert driver.heartbeat(old) == E.REBALANCE_IN_PROGRESS
    joined = driver.rejoin(old.member_id, 0, 1, 2, 3)
    assert (joined.error_code, joined.generation_id) == (0, 1)  # it has partitions to give up
    assert driver.got(joined) == [0, 1]
    assert driver.heartbeat(joined) == E.REBALANCE_IN_PROGRESS
    joined = driver.rejoin(old.member_id, 0, 1)
    assert joined.generation_id == 2
    assert driver.got(joined) == [0, 1]
    assert driver.heartbeat(joined) == E.NONE
    new.beat()
    assert new.partitions == [2, 3]
    members = {each.member_id: each.member_type for each in driver.seen().members}
    assert members == {old.member_id: 0, "new": 1}
    assert driver.commit_as(joined) == E.NONE
    check_live_equals_replay(driver.shard, driver.log, driver.config)


def test_who_waits_for_a_rebalance_is_asked_to_join_again(driver: Migrating) -> None:
    driver.classic(2)
    joining = driver.park(driver.join_request(), 3)
    driver.beat("new", 0)
    assert driver.take(joining, JoinGroupResponse).error_code == E.REBALANCE_IN_PROGRESS


def test_a_classic_member_joins_a_consumer_group(driver: Migrating) -> None:
    new = Person(driver, "new")
    new.beat()
    request = driver.join_request(protocols=protocols())
    required = driver.send(request, 5)
    assert required.error_code == E.MEMBER_ID_REQUIRED
    joined = driver.rejoin(required.member_id)
    assert (joined.error_code, joined.protocol_type, joined.protocol_name) == (
        0,
        "consumer",
        "range",
    )
    assert (joined.generation_id, joined.leader, joined.members) == (3, "", ())
    assert driver.got(joined) == []
    new.beat()
    new.beat()
    assert driver.heartbeat(joined) == E.REBALANCE_IN_PROGRESS
    joined = driver.rejoin(joined.member_id)
    assert driver.got(joined) == [2, 3]


def test_classic_members_are_checked(driver: Migrating) -> None:
    driver.beat("new", 0)
    joined = driver.rejoin("old")
    assert driver.heartbeat(joined, generation_id=9) == E.ILLEGAL_GENERATION
    assert driver.heartbeat(joined, member_id="else") == E.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(joined, member_id="new") == E.UNKNOWN_MEMBER_ID
    assert driver.sync(joined, protocol_name="else").error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert driver.sync(joined, protocol_type="else").error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert driver.sync(joined, generation_id=9).error_code == E.ILLEGAL_GENERATION
    wrong = driver.join_request("x", protocol_type="connect")
    assert driver.send(wrong, 5).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    unreadable = driver.join_request(
        "x", protocols=(JoinGroupRequestProtocol(name="range", metadata=b"?"),)
    )
    assert driver.send(unreadable, 5).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert driver.leave(MemberIdentity(member_id="else")) == [E.UNKNOWN_MEMBER_ID]


def test_a_rebalance_must_be_joined_before_it_can_be_synced(driver: Migrating) -> None:
    driver.beat("new", 0)
    joined = driver.rejoin("old")
    driver.beat("newer", 0)
    assert driver.sync(joined).error_code == E.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("step", ["join", "sync", "session"])
def test_classic_members_have_deadlines(driver: Migrating, step: str) -> None:
    """The rebalance timeout to join and to sync, their own session timeout to live."""
    new = Person(driver, "new")
    new.beat()
    joined = driver.rejoin("old", session_timeout_ms=20_000, rebalance_timeout_ms=30_000)
    if step != "sync":
        driver.got(joined)
    if step == "join":
        driver.beat("newer", 0)
        driver.heartbeat(joined)
    for _ in range(4):
        driver.advance(8)
        new.beat()
        if step != "session":
            driver.heartbeat(joined)
    assert "old" not in driver.consumer_group().members


@pytest.mark.parametrize(
    ("fields", "config", "text"),
    [
        (
            {},
            GroupConfig(consumer_migration_policy=MigrationPolicy.DOWNGRADE),
            "online upgrade is disabled",
        ),
        ({"protocol_type": "connect"}, AT_ONCE, "the group does not use the consumer embedded"),
        ({}, GroupConfig(consumer_max_size=0), "the group size exceeds"),
    ],
)
def test_groups_that_cannot_go_over(fields: dict[str, Any], config: GroupConfig, text: str) -> None:
    driver = Migrating(config)
    driver.classic(**fields)
    before = len(driver.log)
    answer = driver.beat("new", 0)
    assert answer.error_code == E.GROUP_ID_NOT_FOUND
    assert text in str(answer.error_message)
    assert len(driver.log) == before
    assert driver.state() == "Stable"


def test_what_an_assignor_of_its_own_wrote_cannot_go_over(driver: Migrating) -> None:
    members = driver.form(sync=False)
    custom = encode_versioned(ConsumerProtocolAssignment(user_data=b"mine"), 1)
    driver.sync_all(members, lambda _: custom)
    assert "custom assignor" in str(driver.beat("new", 0).error_message)
    driver.sync_all(driver.form(group_id="other", sync=False), lambda _: b"?", group_id="other")
    answer = driver.beat("new", 0, group_id="other")
    assert "malformed" in str(answer.error_message)


# And back


def test_the_last_of_the_new_members_leaves(driver: Migrating) -> None:
    """The group is classic again, and rebalances as such."""
    driver.beat("new", 0)
    joined = driver.rejoin("old")
    before = len(driver.log)
    driver.beat("new", -1)
    assert driver.record_types(before) == [-8, -8, -7, -7, -6, -5, -5, -4, -3, 2]
    assert driver.state() == "PreparingRebalance"
    assert driver.heartbeat(joined) == E.REBALANCE_IN_PROGRESS
    check_live_equals_replay(driver.shard, driver.log, driver.config)
    again = driver.rejoin("old")
    assert (again.leader, again.generation_id) == ("old", 4)
    assert driver.refused("new", 0, subscribed_topic_names=None) == E.INVALID_REQUEST


def test_it_can_stay_a_consumer_group() -> None:
    driver = Migrating(
        GroupConfig(
            consumer_assignment_interval_ms=0, consumer_migration_policy=MigrationPolicy.UPGRADE
        )
    )
    driver.beat("new", 0)
    driver.rejoin("old")
    driver.beat("new", -1)
    assert driver.seen().group_state == "Assigning"


def test_a_session_that_ends_may_bring_it_back(driver: Migrating) -> None:
    driver.beat("new", 0)
    joined = driver.rejoin("old", session_timeout_ms=60_000, rebalance_timeout_ms=600_000)
    driver.advance(46)
    assert driver.state() == "PreparingRebalance"
    assert driver.heartbeat(joined) == E.REBALANCE_IN_PROGRESS


def test_a_static_member_goes_back_to_the_classic_protocol(driver: Migrating) -> None:
    """Its seat and its partitions stay; nobody has to rebalance."""
    Person(driver, "new", instance_id="seat").beat()
    driver.beat("new", -2, instance_id="seat")
    before = len(driver.log)
    joined = driver.rejoin("", group_instance_id="seat")
    assert joined.error_code == 0
    assert driver.record_types(before)[:7] == [-8, -7, -5, 5, 7, 8, 5]
    assert driver.state() == "Stable"
    (member,) = driver.described().members
    assert (member.group_instance_id, member.member_id) == ("seat", joined.member_id)
    assert driver.got(joined) == [0, 1, 2, 3]
    check_live_equals_replay(driver.shard, driver.log, driver.config)


def test_a_static_member_goes_over_to_the_consumer_protocol(driver: Migrating) -> None:
    (old,) = driver.form(instance_ids=("seat",), sync=False)
    driver.sync_all([old], lambda _: assigned(0, 1, 2, 3))
    new = Person(driver, "new", instance_id="seat")
    new.beat()
    assert new.partitions == [0, 1, 2, 3]
    assert list(driver.consumer_group().members) == ["new"]
    check_live_equals_replay(driver.shard, driver.log, driver.config)


def test_an_administrator_removes_members_of_both_protocols(driver: Migrating) -> None:
    Person(driver, "one", instance_id="seat").beat()
    driver.rejoin("old")
    Person(driver, "two").beat()
    removed = driver.leave(
        MemberIdentity(group_instance_id="seat"),
        MemberIdentity(member_id="old"),
        MemberIdentity(group_instance_id="else"),
    )
    assert removed == [E.NONE, E.NONE, E.UNKNOWN_MEMBER_ID]
    assert list(driver.consumer_group().members) == ["two"]
