"""How far a group has read, and its commits.

Reading is a flow: between two commits a consumer gets as far as its pace and the end of the log allow.
The pace is a multiple of what is written, so 3 keeps up with any peak and 0.6 falls behind.
"""

from __future__ import annotations

from typing import Any

from coterie.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from coterie.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from coterie.simulation.assignors import Assignment
from coterie.simulation.stage import Actor, Stage

__all__ = ["Reader", "Reading"]

Place = tuple[str, int]
_ABORTS = 0.1
_WELL = 3.0


class Reader(Actor):
    """A consumer, as far as reading goes: who it is, and what it has."""

    instance_id: str | None = None
    member_id = ""
    #: Generation, or member epoch.
    generation = -1
    alive = True
    #: Whether its next commit is on its way; kept by Reading.
    commits = False

    def __init__(
        self,
        stage: Stage,
        reading: Reading,
        *,
        client_id: str,
        host: str,
        topics: tuple[str, ...],
    ) -> None:
        self._stage = stage
        self.reading = reading
        self.topics = topics
        self.client_id = client_id
        self.host = host
        self.assignment: Assignment = {}


class Reading:
    """Positions and commits of one group."""

    def __init__(
        self, stage: Stage, group_id: str, *, commit_every_ms: int, producer_id: int | None
    ) -> None:
        self._stage = stage
        self.group_id = group_id
        self._commit_every_ms = commit_every_ms
        #: Set for a group that commits inside transactions; each member adds its number.
        self._producer_id = producer_id
        self.pace = _WELL
        self.silent = False
        self.committed: dict[Place, int] = {}
        self._position: dict[Place, int] = {}
        self._read_ms: dict[Place, int] = {}
        self._counts: dict[str, int] = {}

    def knows_other_counts(self, counts: dict[str, int]) -> bool:
        """Whether a topic that was read before has another number of partitions now."""
        changed = any(self._counts.get(topic, count) != count for topic, count in counts.items())
        self._counts = dict(counts)
        return changed

    def notices_growth(self, topics: tuple[str, ...]) -> bool:
        """Look at the topics now; whether one has more partitions than at the last look."""
        now = self._stage.now_ms
        return self.knows_other_counts(
            {topic: self._stage.topics[topic].count(now) for topic in topics}
        )

    def forget_counts(self) -> None:
        """A group that starts anew has no assignment to compare with."""
        self._counts = {}

    def counts_changed(self) -> bool:
        """Whether the leader, looking at the topics now, would find more partitions than it gave out."""
        now = self._stage.now_ms
        return any(
            self._stage.topics[topic].count(now) != count for topic, count in self._counts.items()
        )

    def take_over(self, consumer: Reader) -> None:
        """A consumer begins with its partitions where the group has committed, or else at the end."""
        now = self._stage.now_ms
        for topic, indexes in consumer.assignment.items():
            for index in indexes:
                self.begin(topic, index, now)
        if consumer.assignment and not consumer.commits:
            consumer.commits = True
            self._stage.soon(1_000, self._commit_every_ms, self._commit_and_go_on, consumer)

    def begin(self, topic: str, index: int, now: int) -> None:
        place = (topic, index)
        end = self._stage.topics[topic].end(index, now)
        self._position[place] = self.committed.get(place, end)
        self._read_ms[place] = now

    def _commit_and_go_on(self, consumer: Reader) -> None:
        if not consumer.alive:
            return
        if not consumer.waits:
            self.commit(consumer)
        jitter = self._commit_every_ms // 20
        self._stage.soon(
            self._commit_every_ms - jitter,
            self._commit_every_ms + jitter,
            self._commit_and_go_on,
            consumer,
        )

    def read(self, topic: str, index: int) -> int:
        """Read on; the position then."""
        place = (topic, index)
        plan, now = self._stage.topics[topic], self._stage.now_ms
        seconds = (now - self._read_ms[place]) / 1000
        position = max(self._position[place], plan.start(index, now) if self.pace else 0)
        capacity = int(plan.rate_of(index) * self.pace * seconds)
        self._read_ms[place] = now
        self._position[place] = max(min(plan.end(index, now), position + capacity), position)
        return self._position[place]

    def commit(self, consumer: Reader) -> None:
        """Commit what a consumer has read of its partitions."""
        if self.silent or not consumer.assignment or not consumer.member_id:
            return
        places = [(t, i) for t, indexes in consumer.assignment.items() for i in indexes]
        offsets = {(topic, index): self.read(topic, index) for topic, index in places}
        if self._producer_id is not None:
            self._commit_in_transaction(consumer, offsets)
        else:
            self.store(consumer, offsets, consumer.generation, consumer.member_id)

    def rewind(self, consumer: Reader, share: float) -> None:
        """A consumer seeks backwards in all its partitions, and commits that."""
        offsets: dict[Place, int] = {}
        for topic, indexes in consumer.assignment.items():
            for index in indexes:
                place = (topic, index)
                if place in self.committed:
                    offsets[place] = self.earlier(place, share)
                    self._position[place] = offsets[place]
                    self._read_ms[place] = self._stage.now_ms
        self.store(consumer, offsets, consumer.generation, consumer.member_id)

    def earlier(self, place: Place, share: float) -> int:
        """An offset between the log's start and what is committed."""
        start = self._stage.topics[place[0]].start(place[1], self._stage.now_ms)
        committed = self.committed[place]
        return max(int(committed - (committed - start) * share), 0)

    def store(
        self,
        actor: Actor,
        offsets: dict[Place, int],
        generation: int = -1,
        member_id: str = "",
    ) -> None:
        """OffsetCommit, from a member or from outside."""
        if not offsets:
            return
        by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, index), offset in offsets.items():
            by_topic.setdefault(topic, []).append(OffsetCommitRequestPartition(index, offset))
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=getattr(actor, "instance_id", None),
            topics=tuple(
                OffsetCommitRequestTopic(name=topic, partitions=tuple(partitions))
                for topic, partitions in by_topic.items()
            ),
        )
        response = self._stage.send(actor, request, 9)
        if isinstance(response, OffsetCommitResponse) and not _refused(response):
            self._stored(offsets, member_id)

    def _stored(self, offsets: dict[Place, int], member_id: str) -> None:
        now = self._stage.now_ms
        chronicle = self._stage.chronicle
        for place, offset in offsets.items():
            before = self.committed.get(place)
            if before is not None and offset < before:
                chronicle.reset(*place, (before, offset), member_id or "administrator", now)
            self.committed[place] = offset
        chronicle.committed(now)

    def _commit_in_transaction(self, consumer: Reader, offsets: dict[Place, int]) -> None:
        producer_id = (self._producer_id or 0) + int(consumer.client_id.rpartition("-")[2])
        by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, index), offset in offsets.items():
            by_topic.setdefault(topic, []).append(TxnOffsetCommitRequestPartition(index, offset))
        request = TxnOffsetCommitRequest(
            transactional_id=f"{self.group_id}-{producer_id}",
            group_id=self.group_id,
            producer_id=producer_id,
            producer_epoch=0,
            generation_id=consumer.generation,
            member_id=consumer.member_id,
            topics=tuple(
                TxnOffsetCommitRequestTopic(topic, tuple(partitions))
                for topic, partitions in by_topic.items()
            ),
        )
        response = self._stage.send(consumer, request, 5)
        if not isinstance(response, TxnOffsetCommitResponse) or _refused(response):
            return
        self._stage.soon(5, 60, self._end_transaction, producer_id, offsets, consumer.member_id)

    def _end_transaction(self, producer_id: int, offsets: dict[Place, int], member_id: str) -> None:
        commit = self._stage.dice.random() >= _ABORTS
        self._stage.end_transaction(producer_id, commit=commit)
        if commit:
            self._stored(offsets, member_id)
        else:
            # What was read is read again.
            for place in offsets:
                self._position[place] = self.committed.get(place, self._position[place])


def _refused(response: Any) -> bool:
    return any(each.error_code for topic in response.topics for each in topic.partitions)
