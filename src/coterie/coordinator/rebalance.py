"""The members of a classic group and the rebalance that they are in: Kafka's ClassicGroup, in memory.

All of this may be lost in a restart. What a completed rebalance came to is in the log, and `restored`
begins from there. This is the bookkeeping only: coterie.coordinator.phases decides what happens when, and
is, with the request handlers, the only caller.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from coterie.coordinator.states import Event, next_state
from coterie.coordinator.timers import Deadline
from coterie.error_codes import ErrorCode
from coterie.errors import ProtocolError
from coterie.protocol.codec import decode
from coterie.protocol.group_records.classic import GroupMetadataValue, MemberMetadata
from coterie.protocol.group_state import GroupState
from coterie.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from coterie.protocol.messages.membership import JoinGroupRequestProtocol, JoinGroupResponseMember
from coterie.protocol.versioned import leading_number

__all__ = ["Member", "Rebalance"]

Protocols = tuple[JoinGroupRequestProtocol, ...]


class Member:
    """One member. It has at most one request parked, a JoinGroup or a SyncGroup."""

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        *,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        #: Most preferred first. After a restart only the one that was chosen is known.
        self.protocols = protocols
        self.assignment = assignment
        #: Tokens of parked requests.
        self.awaiting_join: Hashable = None
        self.awaiting_sync: Hashable = None
        #: Not yet through its first rebalance: it cannot heartbeat, so its JoinGroup itself may expire.
        self.is_new = False
        #: The end of its session; set up by coterie.coordinator.phases.
        self.session: Deadline[Any] | None = None

    def metadata(self, protocol: str | None) -> bytes:
        """What it sent for a protocol; for one that it does not have, for the one it likes best."""
        for each in self.protocols:
            if each.name == protocol:
                return each.metadata
        return self.protocols[0].metadata if self.protocols else b""

    def metadata_size(self) -> int:
        return sum([len(each.metadata) for each in self.protocols])

    def vote(self, candidates: set[str]) -> str:
        """The candidate that it prefers; there is one, as no member joins without (`supports`)."""
        return next(each.name for each in self.protocols if each.name in candidates)


class Rebalance:
    """Members, generation, leader and protocol of a group, between its state's transitions."""

    __slots__ = (
        "awaiting_joins",
        "delay_ms",
        "generation",
        "generation_metadata",
        "join_deadline",
        "leader",
        "members",
        "metadata_bytes",
        "new_member_added",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "remaining_ms",
        "state",
        "state_timestamp",
        "static_members",
        "supported",
        "sync_deadline",
    )

    def __init__(self) -> None:
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.state_timestamp = -1
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        #: In the order of joining, which decides who leads and in which order members are listed.
        self.members: dict[str, Member] = {}
        #: Instance id to member id (KIP-345).
        self.static_members: dict[str, str] = {}
        #: Member ids that were handed out and not used yet, with their ends (KIP-394).
        self.pending_joins: dict[str, Deadline[Any]] = {}
        #: Members of this generation whose SyncGroup has not come.
        self.pending_syncs: set[str] = set()
        #: How many members have a JoinGroup parked.
        self.awaiting_joins = 0
        #: How many members support each protocol.
        self.supported: dict[str, int] = {}
        self.metadata_bytes = 0
        #: Someone joined while the first rebalance waited, so that it may wait on (KIP-134).
        self.new_member_added = False
        self.delay_ms = 0
        self.remaining_ms = 0
        #: The subscriptions that this generation began with; None before the first generation.
        self.generation_metadata: tuple[bytes, ...] | None = None
        self.join_deadline: Deadline[Any] | None = None
        self.sync_deadline: Deadline[Any] | None = None

    @classmethod
    def restored(cls, value: GroupMetadataValue | None) -> Rebalance:
        """What a record says (Kafka's GroupMetadataManager.replay): Stable with members, else Empty."""
        self = cls()
        if value is None:
            return self
        self.state_timestamp = value.current_state_timestamp
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol_name = value.protocol
        for each in value.members:
            timeout = (
                each.session_timeout if each.rebalance_timeout == -1 else each.rebalance_timeout
            )
            protocol = JoinGroupRequestProtocol(
                name=value.protocol or "", metadata=each.subscription
            )
            member = Member(
                each.member_id,
                each.group_instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                rebalance_timeout_ms=timeout,
                session_timeout_ms=each.session_timeout,
                protocols=(protocol,),
                assignment=each.assignment,
            )
            self.enter(member)
        if value.leader in self.members:
            self.leader = value.leader
        if self.members:
            self.state = GroupState.STABLE
        self.generation_metadata = tuple([each.subscription for each in value.members])
        return self

    # Members

    def add(self, member: Member, protocol_type: str) -> None:
        """Let in a member whose JoinGroup is parked; the first decides the protocol's type, and leads."""
        if not self.members:
            self.protocol_type = protocol_type
        self.enter(member)
        self.awaiting_joins += 1

    def enter(self, member: Member) -> None:
        """A member that waits for nothing: from the log, or from a group of the other protocol."""
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count(member, 1)

    def remove(self, member: Member) -> None:
        """Take a member out; if it led, the oldest one left leads."""
        del self.members[member.member_id]
        self._count(member, -1)
        if member.awaiting_join is not None:
            self.awaiting_joins -= 1
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)
        self.pending_syncs.discard(member.member_id)

    def rename(self, member: Member, instance_id: str, member_id: str) -> None:
        """A static member comes back under a new member id (Kafka's replaceStaticMember)."""
        del self.members[member.member_id]
        if self.leader == member.member_id:
            self.leader = member_id
        self.pending_syncs.discard(member.member_id)
        member.member_id = member_id
        self.members[member_id] = member
        self.static_members[instance_id] = member_id

    def update(
        self,
        member: Member,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """A member joins again, perhaps with other protocols or timeouts."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def await_join(self, member: Member, token: Hashable) -> None:
        """Note whose JoinGroup is parked."""
        if member.awaiting_join is None:
            self.awaiting_joins += 1
        member.awaiting_join = token

    def take_join(self, member: Member) -> Hashable:
        """The token of a parked JoinGroup that is about to be answered; None if there is none."""
        token = member.awaiting_join
        if token is not None:
            member.awaiting_join = None
            self.awaiting_joins -= 1
        return token

    def _count(self, member: Member, sign: int) -> None:
        for name in {each.name for each in member.protocols}:
            self.supported[name] = self.supported.get(name, 0) + sign
        self.metadata_bytes += sign * member.metadata_size()

    # Questions

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether someone is who it says it is (Kafka's ClassicGroup.validateMember)."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE

    def all_joined(self) -> bool:
        """Nobody is missing, and no member id is still unused."""
        return len(self.members) == self.awaiting_joins and not self.pending_joins

    def is_idle(self) -> bool:
        """Nothing is left here that the log does not have."""
        return self.state is GroupState.EMPTY and not self.members and not self.pending_joins

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member may join with these: one of them must be known to all members."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        size = len(self.members)
        return self.protocol_type == protocol_type and any(
            self.supported.get(each.name, 0) == size for each in protocols
        )

    def rebalance_timeout_ms(self) -> int:
        """The longest that any member asked for."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    def selected_protocol(self) -> str:
        """The protocol with most votes among those that all support; the earliest voters win a tie."""
        size = len(self.members)
        candidates = {name for name, count in self.supported.items() if count == size}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics of a generation of consumers; None if there was none, or if it cannot be read.

        As in Kafka, blobs of any version are read as version 0, with which all others begin.
        """
        if self.generation_metadata is None:
            return None
        topics: set[str] = set()
        for data in self.generation_metadata:
            version = leading_number(data)
            if version is None or version < 0:
                return None
            try:
                topics.update(decode(ConsumerProtocolSubscription, data, 0, offset=2).topics)
            except ProtocolError:
                return None
        return frozenset(topics)

    # Generations

    def transition(self, event: Event, now_ms: int) -> None:
        self.previous_state = self.state
        self.state = next_state(self.state, event)
        self.state_timestamp = now_ms

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader has joined; False if nobody has."""
        if self.leader is None:
            return False
        if self.members[self.leader].awaiting_join is not None:
            return True
        for member in self.members.values():
            if member.awaiting_join is not None:
                self.leader = member.member_id
                return True
        return False

    def next_generation(self, now_ms: int) -> None:
        """All have joined who will: the next generation begins, or the group is empty."""
        self.generation += 1
        self.pending_syncs.clear()
        self.new_member_added = False
        if self.members:
            self.protocol_name = self.selected_protocol()
            self.transition(Event.ALL_JOINED, now_ms)
        else:
            self.protocol_name = None
            self.transition(Event.ALL_LEFT, now_ms)
        self.note_subscriptions()

    def note_subscriptions(self) -> None:
        """Keep what the members subscribe to now, for `subscribed_topics`."""
        self.generation_metadata = tuple(
            [each.metadata(self.protocol_name) for each in self.members.values()]
        )

    def joined_members(self) -> tuple[JoinGroupResponseMember, ...]:
        """What the leader is told of the members."""
        return tuple(
            JoinGroupResponseMember(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                metadata=each.metadata(self.protocol_name),
            )
            for each in self.members.values()
        )

    def value(self) -> GroupMetadataValue:
        """What the log has to remember (Kafka's newGroupMetadataRecord)."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader,
            current_state_timestamp=self.state_timestamp,
            members=tuple(
                MemberMetadata(
                    member_id=each.member_id,
                    group_instance_id=each.instance_id,
                    client_id=each.client_id,
                    client_host=each.client_host,
                    rebalance_timeout=each.rebalance_timeout_ms,
                    session_timeout=each.session_timeout_ms,
                    subscription=each.metadata(self.protocol_name),
                    assignment=each.assignment,
                )
                for each in self.members.values()
            ),
        )
