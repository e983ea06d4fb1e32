"""One group's coordinator on a clock that jumps: requests in, batches out, deadlines when they come.

Groups do not touch each other, so each is simulated alone, with a shard of its own, and the batches of a
partition's groups are merged by time afterwards. Heartbeats write nothing; so they are sent only when
they matter: before a deadline is looked at, and when there is a rebalance to learn of. The clock is the
only thing that is not as in a broker.
"""

from __future__ import annotations

import math
import random
import uuid
from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from typing import Any, NamedTuple

from coterie.coordinator import CoordinatorShard, GroupConfig, Outcome, RequestContext
from coterie.protocol.group_records import encode_key, encode_value
from coterie.protocol.group_records.classic import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
)
from coterie.protocol.group_records.consumer import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from coterie.protocol.messages.consumer_groups import ConsumerGroupHeartbeatResponse
from coterie.protocol.messages.membership import JoinGroupResponse
from coterie.protocol.records import RecordBatch, encode_plain_batch
from coterie.protocol.records.batch import TRANSACTIONAL_FLAG_MASK
from coterie.protocol.records.control import ControlRecordType, control_batch
from coterie.protocol.schema import RecordValue, Request, Response
from coterie.simulation.chronicle import Chronicle
from coterie.simulation.traffic import TopicPlan, TopicsAt

__all__ = ["Actor", "Stage", "Written"]

_LOAD_MS = (1_500, 6_000)


class Written(NamedTuple):
    """A batch on its way into the log of a partition."""

    at_ms: int
    #: Places of batches of the same moment: the group's number, then the order within the group.
    group: int
    order: int
    records: int
    data: bytes


class Actor:
    """Whoever sends requests; what it does with the answers is its own."""

    client_id = ""
    host = ""
    #: The generation that the coordinator last answered with, and under which member id.
    told_generation = -1
    told_member_id = ""

    def answered(self, _response: Response, /) -> None:
        """Take an answer that came later; who never waits for one has nothing to do."""

    def heartbeat(self) -> None:
        """Show that it is alive, if it is."""

    @property
    def waits(self) -> bool:
        """Whether a request of it is parked."""
        return False


class Stage:
    """The coordinator of one group, the clock, and what is to happen."""

    def __init__(
        self, number: int, chronicle: Chronicle, topics: dict[str, TopicPlan], dice: random.Random
    ) -> None:
        self.now_ms = 0
        self.dice = dice
        self.topics = topics
        self.chronicle = chronicle
        self.actors: list[Actor] = []
        self.batches: list[Written] = []
        self.config = GroupConfig()
        self._number = number
        self._view = TopicsAt(topics)
        self._shard = CoordinatorShard(0, self.config)
        self._loading_until = 0
        self._watch_until = 0
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._pushed = 0
        self._tokens: dict[Hashable, Actor] = {}
        self._token = 0
        self._loaded = False

    # The clock

    def at(self, at_ms: int, act: Callable[..., None], *arguments: Any) -> None:
        """Let something happen at a time."""
        self._pushed += 1
        heappush(self._heap, (at_ms, self._pushed, act, arguments))

    def soon(self, least_ms: int, most_ms: int, act: Callable[..., None], *arguments: Any) -> None:
        """Let something happen a while from now; the dice say when."""
        self.at(self.now_ms + self.dice.randint(least_ms, most_ms), act, *arguments)

    def watch(self, for_ms: int) -> None:
        """Deadlines matter for a while: someone will be missed."""
        self._watch_until = max(self._watch_until, self.now_ms + for_ms)

    def run(self, end_ms: int) -> None:
        """Everything, until the end."""
        while True:
            coming = self._heap[0][0] if self._heap else end_ms + 1
            deadline = self._deadline()
            if deadline is not None and deadline <= min(coming, end_ms):
                self._pass_time(deadline)
                continue
            if coming > end_ms:
                return
            at_ms, _, act, arguments = heappop(self._heap)
            if at_ms < self._loading_until:
                self.at(self._loading_until + self.dice.randint(1, 500), act, *arguments)
                continue
            self._set_clock(at_ms)
            act(*arguments)

    def _set_clock(self, at_ms: int) -> None:
        self.now_ms = self._view.now_ms = at_ms
        if not self._loaded:
            self._loaded = True
            self._shard.load_finished(at_ms / 1000, at_ms)

    def _deadline(self) -> int | None:
        """The coordinator's next deadline, if anything can come of it."""
        waited_for = self.now_ms < self._watch_until or any(actor.waits for actor in self.actors)
        deadline = self._shard.next_deadline() if waited_for else None
        return None if deadline is None else max(math.ceil(deadline * 1000), self.now_ms)

    def _pass_time(self, at_ms: int) -> None:
        self._set_clock(at_ms)
        self.tick()

    def tick(self) -> None:
        """Let the coordinator look at its deadlines; whoever lives has sent heartbeats until now."""
        for actor in list(self.actors):
            actor.heartbeat()
        deadline = self._shard.next_deadline() or 0.0
        due = deadline if math.ceil(deadline * 1000) <= self.now_ms else 0.0
        monotonic = max(self.now_ms / 1000, due)
        for outcome in self._shard.tick(monotonic, self.now_ms, self._view):
            self._settle(outcome)
        self.stir()

    def stir(self) -> None:
        """Members learn of a rebalance by their next heartbeat, within three seconds."""
        for actor in self.actors:
            self.soon(50, 3_000, actor.heartbeat)

    # Requests

    def send(self, actor: Actor, request: Request, version: int) -> Response | None:
        """A request to the coordinator: its answer, or None if it is parked and will be answered later."""
        self._token += 1
        context = RequestContext(
            self.now_ms,
            self.now_ms / 1000,
            version,
            actor.client_id,
            actor.host,
            self._token,
            self._new_member_id,
            self._view,
        )
        outcome = self._shard.handle(request, context)
        if outcome.response is None:
            self._tokens[self._token] = actor
        else:
            _tell_member(actor, outcome.response)
        self._settle(outcome)
        return outcome.response

    def _new_member_id(self, prefix: str) -> str:
        return f"{prefix}-{uuid.UUID(bytes=self.dice.randbytes(16), version=4)}"

    def _settle(self, outcome: Outcome) -> None:
        released = [(self._tokens.pop(token), response) for token, response in outcome.released]
        for actor, response in released:
            _tell_member(actor, response)
            self.soon(1, 15, actor.answered, response)
        if outcome.records:
            self._append(len(outcome.records), _encode(outcome, self.now_ms))
            transactional = outcome.producer_id >= 0
            for record in outcome.records:
                if transactional:
                    self._shard.replay_transactional(outcome.producer_id, record.key, record.value)
                    continue
                self._shard.replay(record.key, record.value)
                if isinstance(record.key, (GroupMetadataKey, ConsumerGroupMetadataKey)):
                    self._note(record.value)

    def _note(self, value: RecordValue | None) -> None:
        # Who is in is what the actors were told, not what the record says: see Chronicle.
        if isinstance(value, GroupMetadataValue):
            members = frozenset(
                actor.told_member_id
                for actor in self.actors
                if actor.told_generation == value.generation
            )
            self.chronicle.written(value.generation, members, self.now_ms, leader=value.leader)
        elif isinstance(value, ConsumerGroupMetadataValue):
            members = frozenset(
                actor.told_member_id for actor in self.actors if actor.told_generation >= 0
            )
            self.chronicle.written(value.epoch, members, self.now_ms)
        else:
            self.chronicle.deleted(self.now_ms)

    def _append(self, records: int, data: bytes) -> None:
        order = len(self.batches)
        self.batches.append(Written(self.now_ms, self._number, order, records, data))

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """The transaction coordinator's marker."""
        marker = ControlRecordType.COMMIT if commit else ControlRecordType.ABORT
        batch = control_batch(
            marker,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=self.now_ms,
        )
        self._append(1, batch.encode())
        self._shard.end_transaction(producer_id, commit=commit)

    # The coordinator's own life

    def move(self) -> None:
        """Another broker becomes the coordinator: it reads the log and knows no more than that."""
        released = self._shard.unload()
        state = self._shard.durable_state()
        self._shard = CoordinatorShard(0, self.config)
        for group_id, stored in state["groups"].items():
            if stored[0] is not None:
                self._shard.replay(GroupMetadataKey(group=group_id), stored[0])
        for group_id, topics in state["offsets"].items():
            for topic, partitions in topics.items():
                for index, value in partitions.items():
                    self._shard.replay(OffsetCommitKey(group_id, topic, index), value)
        self._loading_until = self.now_ms + self.dice.randint(*_LOAD_MS)
        self._shard.load_finished(self._loading_until / 1000, self._loading_until)
        for token, response in released:
            self.soon(1, 15, self._tokens.pop(token).answered, response)


#: Kafka's coordinator writes sequence 0 without a producer.
_PLAIN = RecordBatch(base_sequence=0)


def _encode(outcome: Outcome, now_ms: int) -> bytes:
    """The batch that a broker would write for an outcome."""
    like = _PLAIN
    if outcome.producer_id >= 0:
        like = RecordBatch(
            attributes=TRANSACTIONAL_FLAG_MASK,
            producer_id=outcome.producer_id,
            producer_epoch=outcome.producer_epoch,
            base_sequence=0,
        )
    records = [
        (
            encode_key(record.key),
            None if record.value is None else encode_value(record.value, record.version),
        )
        for record in outcome.records
    ]
    return encode_plain_batch(records, now_ms, like)[1]


def _tell_member(actor: Actor, response: Response) -> None:
    if isinstance(response, JoinGroupResponse) and not response.error_code:
        actor.told_generation, actor.told_member_id = response.generation_id, response.member_id
    elif isinstance(response, ConsumerGroupHeartbeatResponse) and not response.error_code:
        actor.told_generation = response.member_epoch
        actor.told_member_id = response.member_id or actor.told_member_id
