"""Histories of a group whose members speak both protocols, and which changes its own again and again.

Members of either kind join, sync, heartbeat, leave and fall silent, at any time and with any epoch; the
coordinator restarts. Nothing of that may end in anything but an answer; the live state stays what the log
replays to (I4), and a consumer group keeps its promises (I6).
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from coterie.coordinator import GroupConfig
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from coterie.protocol.messages.membership import (
    HeartbeatRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from coterie.protocol.versioned import encode_versioned
from tests.kit.campaign import EXAMPLES
from tests.kit.invariants import (
    check_consumer_group,
    check_lists_agree,
    check_live_equals_replay,
)
from tests.unit.coordinator.consumer.members import ConsumerDriver

new_ids = st.sampled_from(("new-1", "new-2", "new-3"))
old_ids = st.sampled_from(("old-1", "old-2", "old-3"))
seats = st.sampled_from((None, None, "x", "y"))
owned = st.lists(st.integers(0, 3), unique=True, max_size=4).map(tuple)


def subscription(partitions: tuple[int, ...]) -> tuple[JoinGroupRequestProtocol, ...]:
    owned_partitions = (TopicPartition("orders", partitions),) if partitions else ()
    blob = ConsumerProtocolSubscription(topics=("orders",), owned_partitions=owned_partitions)
    return (JoinGroupRequestProtocol(name="range", metadata=encode_versioned(blob, 1)),)


ASSIGNMENT = encode_versioned(
    ConsumerProtocolAssignment(assigned_partitions=(TopicPartition("orders", (0, 1)),)), 1
)


class GroupMigration(RuleBasedStateMachine):
    """One group, and requests of all kinds to it."""

    def __init__(self) -> None:
        super().__init__()
        config = GroupConfig(consumer_assignment_interval_ms=0, initial_rebalance_delay_ms=0)
        self.driver = ConsumerDriver(config)

    def _epoch(self, member_id: str) -> int:
        group = self.driver.shard._state.groups.get("group")
        if isinstance(group, ConsumerGroup) and member_id in group.members:
            return group.members[member_id].epoch
        return 1

    def _ask(self, request: Any, version: int) -> None:
        self.driver.request(request, version)

    # Of the consumer protocol

    @rule(member_id=new_ids, seat=seats)
    def join_new(self, member_id: str, seat: str | None) -> None:
        self.driver.beat(member_id, 0, instance_id=seat)

    @rule(member_id=new_ids, says_nothing=st.booleans())
    def beat_new(self, member_id: str, *, says_nothing: bool) -> None:
        epoch = self._epoch(member_id)
        if epoch > 0:
            fields: dict[str, Any] = {"topic_partitions": ()} if says_nothing else {}
            self.driver.beat(member_id, epoch, **fields)

    @rule(member_id=new_ids, seat=seats)
    def leave_new(self, member_id: str, seat: str | None) -> None:
        self.driver.beat(member_id, -1 if seat is None else -2, instance_id=seat)

    # Of the classic one

    @rule(member_id=old_ids, partitions=owned)
    def join_old(self, member_id: str, partitions: tuple[int, ...]) -> None:
        request = self.driver.join_request(member_id, protocols=subscription(partitions))
        self._ask(request, 5)

    @rule(seat=seats, partitions=owned)
    def join_old_anew(self, seat: str | None, partitions: tuple[int, ...]) -> None:
        """Without a member id; static ones take their seat, dynamic ones come back with what they get."""
        request = self.driver.join_request(
            protocols=subscription(partitions), group_instance_id=seat
        )
        _, outcome = self.driver.request(request, 5)
        answer = outcome.response
        if isinstance(answer, JoinGroupResponse) and answer.member_id and seat is None:
            again = self.driver.join_request(answer.member_id, protocols=subscription(partitions))
            self._ask(again, 5)

    @rule(data=st.data())
    def sync_or_beat_old(self, data: st.DataObject) -> None:
        group = self.driver.shard._state.groups.get("group")
        if isinstance(group, ConsumerGroup):
            members = {each: member.epoch for each, member in group.members.items()}
        elif group is not None and (rebalance := getattr(group, "rebalance", None)) is not None:
            members = dict.fromkeys(rebalance.members, rebalance.generation)
        else:
            members = {}
        member_id = data.draw(st.sampled_from([*members, "nobody"]))
        generation = members.get(member_id, 1)
        if data.draw(st.booleans()):
            self._ask(HeartbeatRequest("group", generation, member_id), 4)
            return
        everybody = tuple(SyncGroupRequestAssignment(each, ASSIGNMENT) for each in members)
        self._ask(
            SyncGroupRequest(
                "group",
                generation,
                member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=everybody,
            ),
            5,
        )

    @rule(member_id=st.one_of(old_ids, new_ids), seat=seats)
    def leave_old(self, member_id: str, seat: str | None) -> None:
        gone = MemberIdentity(member_id="" if seat else member_id, group_instance_id=seat)
        self._ask(LeaveGroupRequest(group_id="group", members=(gone,)), 5)

    # Time

    @rule(seconds=st.sampled_from((0.0, 1.0, 5.0, 11.0, 46.0)))
    def time_passes(self, seconds: float) -> None:
        self.driver.advance(seconds)

    @rule()
    def restart(self) -> None:
        self.driver.shard.unload()
        self.driver.restart()

    # Promises

    @invariant()
    def live_is_what_the_log_says(self) -> None:
        check_live_equals_replay(self.driver.shard, self.driver.log, self.driver.config)

    @invariant()
    def a_consumer_group_keeps_its_promises(self) -> None:
        group = self.driver.shard._state.groups.get("group")
        if isinstance(group, ConsumerGroup):
            check_consumer_group(group)
        elif group is not None:
            check_lists_agree(self.driver.shard, ("group",))


TestGroupMigration = GroupMigration.TestCase
TestGroupMigration.settings = settings(
    max_examples=60 * EXAMPLES, stateful_step_count=40, deadline=None
)
