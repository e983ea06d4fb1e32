"""Members of groups in exactly the state that a test wants: joined and silent, waiting, half assigned.

They speak over plain blocking sockets and send nothing on their own. Sessions last so long that nobody has
to beat, so that a group stays as it was left; a broker must allow that, see SETTINGS.
"""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Callable
from typing import Final

from coterie.error_codes import ErrorCode
from coterie.protocol.messages import share_groups, streams_groups
from coterie.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from coterie.protocol.messages.membership import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from coterie.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from coterie.protocol.versioned import encode_versioned
from tests.kit.wire_client import WireClient

__all__ = [
    "OUR_SETTINGS",
    "SETTINGS",
    "ClassicMember",
    "Connect",
    "ConsumerMember",
    "Given",
    "join_share_group",
    "join_streams_group",
    "settle",
]

_SESSION_MS: Final = 1_800_000
#: From OffsetCommit v10 on topics go by id.
_NAMES_UP_TO: Final = 9

#: Settings of a broker that does not miss members who are silent.
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    # KIP-1263: assignments are made as soon as a member has joined, not a second later.
    **{f"group.{kind}.assignment.interval.ms": "0" for kind in ("consumer", "share", "streams")},
    **{
        f"group.{kind}.{which}session.timeout.ms": str(_SESSION_MS)
        for kind in ("consumer", "share", "streams")
        for which in ("", "max.")
    },
}

#: Those of them that our cluster has.
OUR_SETTINGS: Final = {
    name: SETTINGS[name]
    for name in ("group.consumer.assignment.interval.ms", "group.consumer.session.timeout.ms")
}

#: Opens a connection for a client id.
Connect = Callable[[str], WireClient]
#: Partitions by topic.
Given = dict[str, tuple[int, ...]]


def new_id() -> str:
    """A member id as consumers of KIP-848 make them: 22 characters."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


class ClassicMember:
    """A member of a classic group."""

    def __init__(
        self,
        connect: Connect,
        group: str,
        client_id: str,
        topics: tuple[str, ...],
        *,
        protocol: str = "range",
        protocol_type: str = "consumer",
        instance_id: str | None = None,
    ) -> None:
        self.group = group
        self.client = connect(client_id)
        self.member_id = ""
        self.generation = -1
        self._instance_id = instance_id
        self._protocol = protocol
        self._protocol_type = protocol_type
        self._metadata = encode_versioned(ConsumerProtocolSubscription(topics=topics), 3)

    def join(self) -> JoinGroupResponse:
        """Join, wait for the others, and remember under which id and in which generation."""
        self.ask_to_join()
        return self.joined()

    def ask_to_join(self) -> None:
        """Send the request; a first one without an id is answered at once, with the id to use."""
        if not self.member_id and self._instance_id is None:
            self.client.send(self._join_request())
            self.member_id = self.client.receive(JoinGroupResponse).member_id
        self.client.send(self._join_request())

    def joined(self) -> JoinGroupResponse:
        answer = self.client.receive(JoinGroupResponse)
        assert not answer.error_code, ErrorCode.of(answer.error_code).name
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def _join_request(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_SESSION_MS,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
            protocol_type=self._protocol_type,
            protocols=(JoinGroupRequestProtocol(self._protocol, self._metadata),),
        )

    def sync(self, given: dict[str, Given] | None = None) -> None:
        """Sync; the leader brings the partitions of everyone, by member id."""
        answer = self.client.ask(
            SyncGroupRequest(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self._instance_id,
                protocol_type=self._protocol_type,
                protocol_name=self._protocol,
                assignments=tuple(
                    SyncGroupRequestAssignment(member, _assignment(theirs))
                    for member, theirs in (given or {}).items()
                ),
            ),
            SyncGroupResponse,
        )
        assert not answer.error_code, ErrorCode.of(answer.error_code).name

    def await_rebalance(self) -> None:
        """Return when the broker has seen that somebody else wants to join."""
        request = HeartbeatRequest(self.group, self.generation, self.member_id)
        while not self.client.ask(request, HeartbeatResponse).error_code:
            time.sleep(0.005)

    def leave(self) -> None:
        members = (MemberIdentity(self.member_id, self._instance_id),)
        self.client.ask(LeaveGroupRequest(self.group, members=members), LeaveGroupResponse)


def _assignment(given: Given) -> bytes:
    partitions = tuple(TopicPartition(topic, indexes) for topic, indexes in given.items())
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=partitions), 3)


def settle(members: list[ClassicMember], given: list[Given]) -> None:
    """Bring members into one generation, each with its partitions: the group is Stable then."""
    members[0].join()
    for member in members[1:]:
        member.ask_to_join()
        # Those who are in have to join anew, or the newcomer waits.
        for earlier in members[: members.index(member)]:
            earlier.await_rebalance()
            earlier.ask_to_join()
        for each in members[: members.index(member) + 1]:
            each.joined()
    shares = {member.member_id: theirs for member, theirs in zip(members, given, strict=True)}
    # The first is the leader; the others may ask before it has answered.
    members[0].sync(shares)
    for member in members[1:]:
        member.sync()


class ConsumerMember:
    """A member of a group of KIP-848."""

    def __init__(
        self,
        connect: Connect,
        group: str,
        client_id: str,
        topics: tuple[str, ...],
        *,
        instance_id: str | None = None,
        rack: str | None = None,
    ) -> None:
        self.group = group
        self.client = connect(client_id)
        self.member_id = new_id()
        self.epoch = 0
        self.owned: tuple[TopicPartitions, ...] = ()
        self._topics = topics
        self._instance_id = instance_id
        self._rack = rack

    def beat(self) -> None:
        """One heartbeat. It joins at first; later it owns up to what the last one gave."""
        joining = self.epoch == 0
        answer = self.client.ask(
            ConsumerGroupHeartbeatRequest(
                group_id=self.group,
                member_id=self.member_id,
                member_epoch=self.epoch,
                instance_id=self._instance_id,
                rack_id=self._rack,
                rebalance_timeout_ms=_SESSION_MS if joining else -1,
                subscribed_topic_names=self._topics if joining else None,
                server_assignor="uniform" if joining else None,
                topic_partitions=self.owned,
            ),
            ConsumerGroupHeartbeatResponse,
        )
        assert not answer.error_code, (ErrorCode.of(answer.error_code).name, answer.error_message)
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = answer.assignment.topic_partitions

    def commit(self, offsets: dict[tuple[str, int], int]) -> None:
        """Commit as the member that it is; others may not while it is there."""
        topics = tuple(
            OffsetCommitRequestTopic(name=topic, partitions=(_committed(index, offset),))
            for (topic, index), offset in offsets.items()
        )
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            topics=topics,
        )
        answer = self.client.ask(request, OffsetCommitResponse, _NAMES_UP_TO)
        codes = {each.error_code for topic in answer.topics for each in topic.partitions}
        assert codes == {0}, codes

    def leave(self) -> None:
        self.client.ask(
            ConsumerGroupHeartbeatRequest(
                group_id=self.group, member_id=self.member_id, member_epoch=-1
            ),
            ConsumerGroupHeartbeatResponse,
        )


def _committed(index: int, offset: int) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(index, offset, 0, "")


def join_share_group(connect: Connect, group: str, topic: str) -> WireClient:
    """A share group with one member."""
    client = connect("sharer")
    answer = client.ask(
        share_groups.ShareGroupHeartbeatRequest(
            group_id=group, member_id=new_id(), member_epoch=0, subscribed_topic_names=(topic,)
        ),
        share_groups.ShareGroupHeartbeatResponse,
    )
    assert not answer.error_code, answer.error_message
    return client


def join_streams_group(connect: Connect, group: str, topic: str) -> WireClient:
    """A streams group with one member, whose application reads one topic."""
    client = connect("streamer")
    parts = (streams_groups.Subtopology(subtopology_id="0", source_topics=(topic,)),)
    answer = client.ask(
        streams_groups.StreamsGroupHeartbeatRequest(
            group_id=group,
            member_id=new_id(),
            member_epoch=0,
            rebalance_timeout_ms=_SESSION_MS,
            topology=streams_groups.Topology(epoch=1, subtopologies=parts),
            active_tasks=(),
            standby_tasks=(),
            warmup_tasks=(),
            process_id=new_id(),
        ),
        streams_groups.StreamsGroupHeartbeatResponse,
    )
    assert not answer.error_code, answer.error_message
    return client
