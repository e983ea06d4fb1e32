"""A shard: the groups of one partition of `__consumer_offsets`, and all the ways to reach them.

`handle` answers requests, `tick` lets time pass, `replay` applies what was written. The server calls them
from one thread, and replays the records of an outcome before it calls anything else; if it cannot write
them, it throws the shard away and loads another from the log. Everything else in this package is behind
this door.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from coterie.coordinator.administration import NO_OPERATIONS, Administration
from coterie.coordinator.config import GroupConfig
from coterie.coordinator.consumer.classic import ClassicMembers
from coterie.coordinator.consumer.deadlines import Deadlines
from coterie.coordinator.consumer.fencing import Fencing
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.heartbeat import Heartbeats
from coterie.coordinator.consumer.migration import Migration
from coterie.coordinator.consumer.progress import Progress
from coterie.coordinator.durable import DurableState
from coterie.coordinator.expiration import Expiration, RetentionClock
from coterie.coordinator.group import ClassicGroup
from coterie.coordinator.joining import Joining
from coterie.coordinator.membership import Membership
from coterie.coordinator.offset_fetch import TOPIC_IDS_FROM, OffsetFetch
from coterie.coordinator.offsets import Offsets
from coterie.coordinator.outcome import Outcome, RequestContext, Step, TopicView
from coterie.coordinator.phases import Phases, Subject
from coterie.coordinator.timers import Deadline, MemberSubject, Reason
from coterie.error_codes import ErrorCode
from coterie.protocol.codec import encode_element
from coterie.protocol.messages import consumer_groups
from coterie.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
)
from coterie.protocol.messages.groups import (
    DescribedGroup,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
)
from coterie.protocol.messages.membership import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from coterie.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from coterie.protocol.messages.transactions import TxnOffsetCommitRequest
from coterie.protocol.schema import RecordKey, RecordValue, Request, Response
from coterie.protocol.types import Uuid
from coterie.protocol.versioned import Undecoded

__all__ = ["CoordinatorShard"]


#: Encoded answers about one group that a shard keeps: some hundred bytes each.
_KEPT_ANSWERS: Final = 1_000
#: Requests that change what a description shows before anything is written.
_CHANGES_MEMBERS: Final = frozenset({JoinGroupRequest, SyncGroupRequest, LeaveGroupRequest})


class CoordinatorShard:
    """The coordinator of one partition's groups."""

    __slots__ = (
        "_administration",
        "_answers",
        "_clock",
        "_expiration",
        "_expiration_deadline",
        "_fencing",
        "_fetch",
        "_handlers",
        "_offsets",
        "_phases",
        "_serving",
        "_state",
        "config",
        "fetch_offsets",
        "has_deadline_before",
        "partition",
    )

    def __init__(
        self,
        partition: int,
        config: GroupConfig,
        overrides: Mapping[str, GroupConfig] = MappingProxyType({}),
    ) -> None:
        """`overrides` has the settings of groups with settings of their own; it may change at any time."""
        self.partition = partition
        self.config = config
        self._state = DurableState()
        self._phases = Phases(self._state, config)
        self._offsets = Offsets(self._state, self._phases, config)
        self._fetch = OffsetFetch(self._state)
        #: What one group has committed; asked for a hundred groups at once, so without a step between.
        self.fetch_offsets = self._fetch.fetch
        #: Asked after every request: whether `next_deadline` may have moved to before a time.
        self.has_deadline_before = self._phases.timers.has_one_before
        self._administration = Administration(self._state, self._offsets)
        self._expiration = Expiration(self._state, config)
        self._expiration_deadline: Deadline[Subject | MemberSubject] = Deadline(
            Subject(Reason.EXPIRATION)
        )
        self._clock = RetentionClock(0.0, 0)
        self._answers: dict[tuple[type[Response], str, int, int], bytes] = {}
        self._serving = False
        deadlines = Deadlines(self._phases.timers)
        progress = Progress(config, deadlines, overrides)
        migration = Migration(self._state, config, self._phases, progress, deadlines)
        self._fencing = Fencing(self._state, progress, migration, deadlines)
        heartbeats = Heartbeats(self._state, config, progress, self._fencing, migration)
        classic_members = ClassicMembers(config, progress, self._fencing, migration, deadlines)
        joining = Joining(self._state, self._phases, config, classic_members)
        membership = Membership(self._state, self._phases, classic_members)
        self._handlers: dict[type[Request], Callable[[Any, RequestContext], Outcome]] = {
            OffsetCommitRequest: self._offsets.commit,
            HeartbeatRequest: membership.heartbeat,
            JoinGroupRequest: joining.join,
            SyncGroupRequest: membership.sync,
            LeaveGroupRequest: membership.leave,
            OffsetFetchRequest: self._fetch.handle,
            OffsetDeleteRequest: self._offsets.delete,
            TxnOffsetCommitRequest: self._offsets.commit_in_transaction,
            ConsumerGroupHeartbeatRequest: heartbeats.handle,
        }

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self._state.groups)

    # Requests

    def handle(self, request: Request, context: RequestContext) -> Outcome:
        """Answer a request about one group of this shard, or park it."""
        if self._answers and type(request) in _CHANGES_MEMBERS:
            self._answers.clear()
        return self._handlers[type(request)](request, context)

    def list_groups(self, request: ListGroupsRequest) -> list[ListedGroup]:
        """This shard's part of a list."""
        return self._administration.list(request)

    def describe_group(
        self, group_id: str, version: int, authorized_operations: int = NO_OPERATIONS
    ) -> DescribedGroup:
        """One classic group, or that there is none."""
        return self._administration.describe(group_id, version, authorized_operations)

    def describe_consumer_group(
        self, group_id: str, topics: TopicView, authorized_operations: int = NO_OPERATIONS
    ) -> consumer_groups.DescribedGroup:
        """One group of the consumer protocol (KIP-848), or that there is none."""
        return self._administration.describe_consumer(group_id, topics, authorized_operations)

    def describe_encoded(
        self, group_id: str, version: int, authorized_operations: int = NO_OPERATIONS
    ) -> bytes:
        """The same as an element of a DescribeGroupsResponse; kept until the group changes.

        Tools ask about the same groups again and again, and most of them are as they were.
        """
        key = (DescribeGroupsResponse, group_id, version, authorized_operations)
        known = self._answers.get(key)
        if known is None:
            group = self.describe_group(group_id, version, authorized_operations)
            known = encode_element(group, DescribeGroupsResponse, version)
            self._keep(key, known)
        return known

    def fetch_encoded(
        self,
        group: OffsetFetchRequestGroup,
        version: int,
        *,
        require_stable: bool,
        topics: TopicView,
    ) -> bytes:
        """What a group has committed, as an element of an OffsetFetchResponse.

        All of its offsets, as tools ask for them, are kept like a description. With topic ids they are
        not: those belong to the topics of the moment. Neither for a member, whose epoch is to be checked.
        """
        keep = group.topics is None and version < TOPIC_IDS_FROM and group.member_id is None
        key = (OffsetFetchResponse, group.group_id, version, require_stable)
        known = self._answers.get(key) if keep else None
        if known is None:
            found = self._fetch.fetch(group, version, require_stable=require_stable, topics=topics)
            known = encode_element(found, OffsetFetchResponse, version)
            if keep:
                self._keep(key, known)
        return known

    def _keep(self, key: tuple[type[Response], str, int, int], answer: bytes) -> None:
        if len(self._answers) >= _KEPT_ANSWERS:
            self._answers.clear()
        self._answers[key] = answer

    def delete_groups(self, group_ids: Iterable[str]) -> Outcome:
        """Delete groups of this shard; the response is a DeleteGroupsResponse about these alone."""
        return self._administration.delete(group_ids)

    def forget_topic(self, name: str, topic_id: Uuid) -> Outcome:
        """A topic was deleted: so are its offsets in all groups of this shard."""
        return Outcome(tuple(self._offsets.forget_topic(name, topic_id)))

    # Time

    def next_deadline(self) -> float | None:
        """When to call `tick` next, in seconds of the monotonic clock; None before the load is done."""
        return self._phases.timers.next_deadline()

    def tick(self, monotonic: float, now_ms: int, topics: TopicView) -> Iterator[Outcome]:
        """Whatever is due, one outcome after the other.

        An iterator, because each outcome is to be written and replayed before the next is asked for.
        """
        while (deadline := self._phases.timers.pop_due(monotonic)) is not None:
            self._answers.clear()
            subject = deadline.subject
            if subject.reason is Reason.EXPIRATION:
                yield from self._expire(monotonic, now_ms)
                continue
            step = Step(monotonic, now_ms)
            if isinstance(subject, MemberSubject):
                self._fencing.fire(subject, topics, step)
            else:
                self._phases.fire(subject, step)
            if step.records or step.released:
                yield step.outcome()

    def _expire(self, monotonic: float, now_ms: int) -> Iterator[Outcome]:
        now_ms = self._clock.advance(monotonic, now_ms)
        self._schedule_expiration(monotonic)
        for records in self._expiration.batches(now_ms):
            if not self._serving:
                return  # the last batch could not be written, and another shard took over
            yield Outcome(records)

    def _schedule_expiration(self, monotonic: float) -> None:
        interval = self.config.offsets_retention_check_interval_ms / 1000
        self._phases.timers.schedule(self._expiration_deadline, monotonic + interval)

    # The log

    def replay(self, key: RecordKey | Undecoded, value: RecordValue | Undecoded | None) -> None:
        """Apply a record that is in the log, at load or right after it was written."""
        if self._answers:
            self._answers.clear()
        self._state.replay(key, value)

    def replay_transactional(
        self, producer_id: int, key: RecordKey | Undecoded, value: RecordValue | Undecoded | None
    ) -> None:
        """Apply a record of a transactional batch."""
        self._answers.clear()
        self._state.replay_transactional(producer_id, key, value)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Apply a transaction's marker."""
        self._answers.clear()
        self._state.end_transaction(producer_id, commit=commit)

    @property
    def skipped_records(self) -> int:
        """Records that replay could make nothing of."""
        return self._state.skipped

    def durable_state(self) -> dict[str, Any]:
        """All that a restart keeps, as plain values to compare."""
        return self._state.snapshot()

    # Life

    def load_finished(self, monotonic: float, now_ms: int) -> None:
        """The log is read: members of groups that were stable have a session's time to report.

        A group that is larger than now allowed is rebalanced, and loses those who come last.
        """
        self._serving = True
        self._clock = RetentionClock(monotonic, now_ms)
        self._answers.clear()
        self._schedule_expiration(monotonic)
        step = Step(monotonic, now_ms)
        for group in self._state.groups.values():
            if isinstance(group, ConsumerGroup):
                self._fencing.loaded(group, monotonic)
            if (
                not isinstance(group, ClassicGroup)
                or group.value is None
                or not group.value.members
            ):
                continue
            rebalance = group.rebalance = group.membership()
            for member in rebalance.members.values():
                self._phases.extend_session(group, member, monotonic)
            if len(rebalance.members) > self.config.max_size:
                self._phases.prepare(group, rebalance, step)

    def unload(self) -> tuple[tuple[Hashable, Response], ...]:
        """The partition moves away: answers to everything that is parked. The shard is of no use then."""
        self._serving = False
        released: list[tuple[Hashable, Response]] = []
        error = ErrorCode.NOT_COORDINATOR
        for group in self._state.groups.values():
            if not isinstance(group, ClassicGroup) or group.rebalance is None:
                continue
            for member in group.rebalance.members.values():
                if member.awaiting_join is not None:
                    response = JoinGroupResponse(error_code=error, member_id=member.member_id)
                    released.append((member.awaiting_join, response))
                if member.awaiting_sync is not None:
                    released.append((member.awaiting_sync, SyncGroupResponse(error_code=error)))
            group.rebalance = None
        self._phases.timers.clear()
        return tuple(released)
