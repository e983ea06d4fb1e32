"""The history of one shard: what it was asked, answered and wrote, held against the promises I1-I7 and I9.

What this is: the judge. tests.kit.coordinator_watch tells it of every step of a CoordinatorShard; it keeps
what the answers promised, in the ledgers of tests.kit.invariants. An AssertionError names what was broken.
What this is not: a second coordinator. It never decides what an answer should have been; it only remembers.

The contract of a shard is that the records of an outcome are replayed before anything else is asked. One that
is treated otherwise, because its log could not be written, is thrown away by the server; nothing more is said
about it here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any, Final, cast

from coterie.coordinator import CoordinatorShard, Outcome, Record, RequestContext
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.group import ClassicGroup
from coterie.protocol.group_records.classic import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
)
from coterie.protocol.group_records.consumer import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from coterie.protocol.group_state import GroupState
from coterie.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from coterie.protocol.messages.groups import DeleteGroupsResponse, ListGroupsRequest
from coterie.protocol.messages.membership import (
    HeartbeatRequest,
    JoinGroupRequest,
    SyncGroupRequest,
)
from coterie.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequestGroup,
)
from coterie.protocol.messages.transactions import TxnOffsetCommitRequest
from coterie.protocol.schema import Request, Response
from tests.kit.expected_errors import check_errors
from tests.kit.invariants import (
    CommitLedger,
    Fencing,
    Log,
    Marker,
    Parking,
    Written,
    check_consumer_group,
    load,
)

__all__ = ["Place", "ShardHistory", "offsets_of"]

#: Group, topic and partition.
Place = tuple[str, str, int]

#: Requests that change nothing if they are refused.
_ALL_OR_NOTHING: Final = frozenset(
    {HeartbeatRequest, SyncGroupRequest, OffsetDeleteRequest, ConsumerGroupHeartbeatRequest}
)
#: I7's slack, in milliseconds.
_SLACK_MS: Final = 1_000


def offsets_of(shard: CoordinatorShard) -> dict[Place, int]:
    """All offsets that a shard has, as OffsetFetch tells them."""
    found: dict[Place, int] = {}
    for group in shard.list_groups(ListGroupsRequest()):
        asked = OffsetFetchRequestGroup(group_id=group.group_id, topics=None)
        # Topics matter to version 10 alone.
        answer = shard.fetch_offsets(asked, 9, require_stable=False, topics=cast("Any", None))
        for topic in answer.topics:
            for each in topic.partitions:
                found[group.group_id, topic.name, each.partition_index] = each.committed_offset
    return found


class ShardHistory:
    """What is known of one shard from the outside."""

    def __init__(self, shard: CoordinatorShard, log: Log | None) -> None:
        self.shard = shard
        #: Everything that was replayed; None where that is not known, or kept by a partition.
        self.log = log
        self.ledger = CommitLedger()
        #: Whether anybody was served. Before that a shard is only loaded.
        self.served = False
        #: Whether something was written since this was last set to False.
        self.changed = False
        #: Whether an outcome was not written: the shard is of no use any more.
        self.abandoned = False
        self._fencing = Fencing()
        #: Of what was written only: a restart forgets a generation that nobody was assigned in.
        self._written = Fencing()
        self._parking = Parking()
        #: The assignments of the newest generation of each classic group, as they were written.
        self._assignments: dict[str, tuple[int, dict[str, bytes]]] = {}
        self._requests: dict[Hashable, tuple[Request, float]] = {}
        #: How long members of a group let each other wait, in milliseconds.
        self._patience: dict[str, int] = {}
        self._owed: deque[Record] = deque()
        self._promised: list[Callable[[], None]] = []
        #: Whether records came from elsewhere, so that the state has to be looked at.
        self._news = True

    # The log

    def wrote(self, entry: Written | Marker) -> None:
        """A record was replayed, or the end of a transaction."""
        self.changed = True
        if self.log is not None:
            self.log.append(entry)
        if isinstance(entry, Marker):
            self.ledger.ended(entry.producer_id, commit=entry.commit)
            return
        if not self._owed:
            self._news = True
            return
        if self._owed.popleft().key != entry.key:
            self.abandoned = True
        elif not self._owed:
            self._keep_promises()

    def _keep_promises(self) -> None:
        promised, self._promised = self._promised, []
        for each in promised:
            each()

    def look(self, before: ShardHistory | None = None) -> None:
        """Learn what the log says, where it says something that no answer has told.

        The promises of the shard that has had the same log before are held against it, and kept.
        """
        if not self._news:
            return
        self._news = False
        if before is not None:
            before.ledger.check(offsets_of(self.shard))
            self.ledger, self._written = before.ledger, before._written
        else:
            self._learn_offsets()
        for group in self.shard._state.groups.values():
            if isinstance(group, ConsumerGroup):
                self._learn_generation(group.group_id, group.epoch, before)
            elif isinstance(group, ClassicGroup):
                self._learn_generation(group.group_id, group.membership().generation, before)
                if group.value is not None:
                    self._learn_assignments(group.group_id, group.value)
                    for member in group.value.members:
                        self._learn_patience(
                            group.group_id, member.session_timeout, member.rebalance_timeout
                        )

    def _learn_generation(
        self, group_id: str, generation: int, before: ShardHistory | None
    ) -> None:
        self._fencing.restarted(group_id, generation)
        if before is not None:
            self._written.seen(group_id, generation)
        self._written.restarted(group_id, generation)

    def _learn_offsets(self) -> None:
        self.ledger = ledger = CommitLedger()
        for place, offset in offsets_of(self.shard).items():
            ledger.committed(place, offset)
        by_producer = self.shard._state.transactions._by_producer
        pending = [
            (number, producer_id, key, value)
            for producer_id, keys in by_producer.items()
            for key, (number, value) in keys.items()
        ]
        for _, producer_id, key, value in sorted(pending, key=lambda each: each[0]):
            if value is not None:
                ledger.pending(producer_id, _place(key), value.offset)

    def _learn_assignments(self, group_id: str, value: GroupMetadataValue) -> None:
        assigned = {member.member_id: member.assignment for member in value.members}
        self._assignments[group_id] = (value.generation, assigned)

    def _learn_patience(self, group_id: str, session_ms: int, rebalance_ms: int) -> None:
        most = self.shard.config.new_member_join_timeout_ms + _SLACK_MS
        most += session_ms + max(session_ms, rebalance_ms)
        if most <= self._patience.get(group_id, 0):
            return
        self._patience[group_id] = most
        for token, (request, since) in self._requests.items():
            if cast("Any", request).group_id == group_id:
                self._parking.parked(token, since + most / 1000)

    # Steps

    def begin(self) -> None:
        """A step is about to be made."""
        if self._owed:
            self.abandoned = True
        if not self.abandoned:
            self.look()
            self.served = True

    def asked(self, request: Request, context: RequestContext, outcome: Outcome) -> None:
        """A request, and what came of it."""
        if self.abandoned:
            return
        if isinstance(request, JoinGroupRequest):
            timeouts = request.session_timeout_ms, request.rebalance_timeout_ms
            self._learn_patience(request.group_id, *timeouts)
        response = outcome.response
        if response is None:
            until = context.monotonic + self._patience.get(_group(request), 0) / 1000
            self._requests[context.token] = (request, context.monotonic)
            self._parking.parked(context.token, until)
        if isinstance(request, SyncGroupRequest):
            _check_decision(request, outcome.records)
        self._stepped(outcome)
        if response is not None:
            self._heard(request, response, outcome.records)
            self._promise(request, response, context)
        self._end()

    def deleted(self, outcome: Outcome) -> None:
        """DeleteGroups: each group has its own answer."""
        if self.abandoned:
            return
        self._stepped(outcome)
        response = cast("DeleteGroupsResponse", outcome.response)
        check_errors(response)
        gone = {each.group_id for each in response.results if not each.error_code}
        if gone:
            self._promised.append(lambda: self._forget_groups(gone))
        self._end()

    def _forget_groups(self, group_ids: set[str]) -> None:
        for place in self.ledger.all_places():
            if cast("Place", place)[0] in group_ids:
                self.ledger.deleted(place)

    def expired(self, outcome: Outcome) -> None:
        """A step that nobody asked for: time has passed, or a topic was deleted. It may delete offsets."""
        if self.abandoned:
            return
        self._stepped(outcome)
        for each in outcome.records:
            if each.value is None and isinstance(each.key, OffsetCommitKey):
                self._promised.append(partial(self.ledger.deleted, _place(each.key)))
        self._end()

    def passed(self, monotonic: float) -> None:
        """Everything that was due has happened."""
        if not self.abandoned:
            self._parking.check(monotonic)

    def unloaded(self, released: Iterable[tuple[Hashable, Response]]) -> None:
        """The shard is given up, and whoever waits is told."""
        if self.abandoned:
            return
        for token, _ in released:
            self._parking.answered(token)
        self.abandoned = True
        assert not len(self._parking), (
            f"I7: {len(self._parking)} requests wait in a shard that is gone"
        )

    def _end(self) -> None:
        if not self._owed:
            self._keep_promises()

    def _stepped(self, outcome: Outcome) -> None:
        """What every outcome has: records, and answers to those who waited."""
        if outcome.records:
            self._owed = deque(outcome.records)
            self._check_generations(outcome.records)
        for token, response in outcome.released:
            self._parking.answered(token)
            request, _ = self._requests.pop(token)
            self._heard(request, response)

    def _check_generations(self, records: Iterable[Record]) -> None:
        """I5, of what is written. A group that changes its type with members in it goes on counting; one
        that is empty is deleted for the new one, as in Kafka."""
        gone: set[str] = set()
        for record in records:
            key, value = record.key, record.value
            if isinstance(key, GroupMetadataKey):
                group_id = key.group
            elif isinstance(key, ConsumerGroupMetadataKey):
                group_id = key.group_id
            else:
                continue
            if isinstance(value, GroupMetadataValue):
                self._check_written(group_id, value.generation)
                self._learn_assignments(group_id, value)
            elif isinstance(value, ConsumerGroupMetadataValue):
                self._check_written(group_id, value.epoch)
            elif self._is_empty(group_id):
                self._forget_generations(group_id)
            (gone.add if value is None else gone.discard)(group_id)
        for group_id in gone:
            self._forget_generations(group_id)

    def _check_written(self, group_id: str, generation: int) -> None:
        self._fencing.seen(group_id, generation)
        self._written.seen(group_id, generation)

    def _is_empty(self, group_id: str) -> bool:
        group = self.shard._state.groups.get(group_id)
        return group is None or group.state is GroupState.EMPTY

    def _forget_generations(self, group_id: str) -> None:
        self._fencing.forget(group_id)
        self._written.forget(group_id)
        self._assignments.pop(group_id, None)

    # Answers

    def _heard(self, request: Any, response: Any, records: tuple[Record, ...] = ()) -> None:
        check_errors(response)
        kind = type(request)
        error = getattr(response, "error_code", 0)
        if error:
            assert not (records and kind in _ALL_OR_NOTHING), (
                f"I5: {kind.__name__} was refused and wrote"
            )
            return
        if kind not in (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest):
            return
        group_id = request.group_id
        if isinstance(self.shard._state.groups.get(group_id), ConsumerGroup):
            return  # there members have epochs, each its own
        if kind is JoinGroupRequest:
            self._fencing.seen(group_id, response.generation_id)
            return
        self._fencing.acted(group_id, request.generation_id)
        if kind is SyncGroupRequest:
            generation, assigned = self._assignments.get(group_id, (-1, {}))
            assert generation == request.generation_id, (
                f"I6: nobody assigned in {group_id} {generation}"
            )
            expected = assigned.get(request.member_id, b"")
            got = response.assignment
            assert got == expected, f"I6: {request.member_id} got {got!r}, not {expected!r}"

    def _promise(self, request: Any, response: Any, context: RequestContext) -> None:
        """What an answer says about offsets is true once its records are written."""
        if isinstance(request, OffsetDeleteRequest):
            for topic in response.topics:
                for each in topic.partitions:
                    if not each.error_code:
                        place = (request.group_id, topic.name, each.partition_index)
                        self._promised.append(partial(self.ledger.deleted, place))
        elif isinstance(request, (OffsetCommitRequest, TxnOffsetCommitRequest)):
            granted = _granted(request, response, context)
            if granted:
                self._check_committer(request)
            note: Callable[..., None] = self.ledger.committed
            if isinstance(request, TxnOffsetCommitRequest):
                note = partial(self.ledger.pending, request.producer_id)
            self._promised += [partial(note, *each) for each in granted]

    def _check_committer(self, request: OffsetCommitRequest | TxnOffsetCommitRequest) -> None:
        """I5: whose commit is taken is a member of the newest generation, or comes from outside."""
        if isinstance(request, OffsetCommitRequest):
            generation = request.generation_id_or_member_epoch
        else:
            generation = request.generation_id
        if generation < 0:
            return
        group_id, member_id = request.group_id, request.member_id
        group = self.shard._state.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            member = group.members.get(member_id)
            assert member is not None, f"I5: {member_id!r} committed to {group_id} and is no member"
            assert generation <= member.epoch, f"I5: {member_id!r} is ahead and committed"
        elif isinstance(group, ClassicGroup):
            self._fencing.acted(group_id, generation)
            rebalance = group.membership()
            assert member_id in rebalance.members, (
                f"I5: {member_id!r} committed to {group_id} and is no member"
            )
            instance = request.group_instance_id
            assert instance is None or rebalance.static_members.get(instance) == member_id, (
                f"I5: {member_id!r} committed as {instance!r}, which another is"
            )

    # The end

    def check(self) -> None:
        """Hold the shard against its history, and what a restart would make of its log."""
        if self.abandoned or self._owed:
            return
        self.look()
        self.ledger.check(offsets_of(self.shard))
        for group in self.shard._state.groups.values():
            if isinstance(group, ConsumerGroup):
                check_consumer_group(group)
        if self.log is not None:
            self.check_reloaded(load(self.log, self.shard.config))

    def check_reloaded(self, reloaded: CoordinatorShard) -> None:
        """I4, and I1 to I3 after a restart."""
        same = self.shard.durable_state() == reloaded.durable_state()
        assert same, "I4: the live state is not what the log replays to"
        self.ledger.check(offsets_of(reloaded))


def _place(key: OffsetCommitKey) -> Place:
    return key.group, key.topic, key.partition


def _group(request: Any) -> str:
    return cast("str", request.group_id)


def _check_decision(request: SyncGroupRequest, records: Iterable[Record]) -> None:
    """I6: what is written is what the leader has said."""
    wanted = {each.member_id: each.assignment for each in request.assignments}
    for record in records:
        if isinstance(record.value, GroupMetadataValue):
            for member in record.value.members:
                expected = wanted.get(member.member_id, b"")
                assert member.assignment == expected, (
                    f"I6: the leader decided {expected!r} for {member.member_id}, "
                    f"and {member.assignment!r} was written"
                )


def _granted(request: Any, response: Any, context: RequestContext) -> list[tuple[Place, int]]:
    """The places and offsets of a commit that were taken."""
    granted: list[tuple[Place, int]] = []
    for asked, answered in zip(request.topics, response.topics, strict=True):
        name = asked.name
        if not name and (topic := context.topics.by_id(asked.topic_id)) is not None:
            name = topic.name
        for each, result in zip(asked.partitions, answered.partitions, strict=True):
            if not result.error_code:
                granted.append(
                    ((request.group_id, name, each.partition_index), each.committed_offset)
                )
    return granted
