"""A simulated consumer of the new protocol (KIP-848): one request for everything, and no leader.

It joins with an id of its own, heartbeats, gives up what it is told to give up and says so, takes what it is
given, commits with its epoch, and leaves or dies. The coordinator does the rest.
"""

from __future__ import annotations

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from coterie.protocol.schema import Response
from coterie.protocol.types import Uuid
from coterie.simulation.chronicle import Cause
from coterie.simulation.reading import Reader

__all__ = ["ModernConsumer"]

_JOINING, _LEAVING = 0, -1
_REBALANCE_MS = 300_000
_HEARTBEAT_MS = 5_000  # group.consumer.heartbeat.interval.ms
_SESSION_MS = 45_000  # group.consumer.session.timeout.ms
#: Heartbeats of everyone after someone was given another assignment: enough for all to settle.
_ROUNDS = 4


class ModernConsumer(Reader):
    """One process of a consumer group."""

    _to_tell = False

    @property
    def leads(self) -> bool:
        return False

    def answered(self, response: Response) -> None:
        """Nothing is ever parked."""

    def join(self) -> None:
        """Enter the group, under a new id."""
        if not self.alive:
            return
        self.member_id = str(Uuid(self._stage.dice.randbytes(16)))
        # Whatever the topics have become meanwhile, the epoch that comes now is for who joins.
        self.reading.notices_growth(self.topics)
        self._ask(
            ConsumerGroupHeartbeatRequest(
                group_id=self.reading.group_id,
                member_id=self.member_id,
                member_epoch=_JOINING,
                rebalance_timeout_ms=_REBALANCE_MS,
                subscribed_topic_names=self.topics,
                topic_partitions=(),
            )
        )
        self._unsettle()

    def heartbeat(self) -> None:
        if not self.alive or self.generation <= 0:
            return
        grown = self.reading.notices_growth(self.topics)
        chronicle = self._stage.chronicle
        told = grown and not chronicle.has_reason
        if told:
            chronicle.because(Cause.PARTITIONS, "partitions added", self._stage.now_ms)
        owned = self._owned() if self._to_tell else None
        self._to_tell = False
        self._ask(self._request(topic_partitions=owned))
        if told and self.generation > 0:
            chronicle.nothing_more()
        if grown:
            self._unsettle()

    def resubscribe(self, topics: tuple[str, ...]) -> None:
        """Read other topics from now on."""
        self.topics = topics
        self._ask(self._request(subscribed_topic_names=topics))
        self._unsettle()

    def _request(
        self,
        *,
        topic_partitions: tuple[TopicPartitions, ...] | None = None,
        subscribed_topic_names: tuple[str, ...] | None = None,
    ) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self.reading.group_id,
            member_id=self.member_id,
            member_epoch=self.generation,
            topic_partitions=topic_partitions,
            subscribed_topic_names=subscribed_topic_names,
        )

    def _ask(self, request: ConsumerGroupHeartbeatRequest) -> None:
        response = self._stage.send(self, request, 1)
        if not isinstance(response, ConsumerGroupHeartbeatResponse):
            return
        if response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self.generation = -1
            self._stage.soon(1, 200, self.join)
        elif not response.error_code:
            self.generation = response.member_epoch
            if response.assignment is not None:
                self._take(response.assignment.topic_partitions)

    def _take(self, given: tuple[TopicPartitions, ...]) -> None:
        """Have this from now on, and say so with the next heartbeat."""
        names = {plan.topic_id: name for name, plan in self._stage.topics.items()}
        assignment = {names[each.topic_id]: each.partitions for each in given}
        if assignment != self.assignment:
            self.reading.commit(self)
            self.assignment = assignment
            self.reading.take_over(self)
            self._unsettle()
        self._to_tell = True

    def _owned(self) -> tuple[TopicPartitions, ...]:
        return tuple(
            TopicPartitions(self._stage.topics[topic].topic_id, indexes)
            for topic, indexes in self.assignment.items()
        )

    def _unsettle(self) -> None:
        """Heartbeats matter for a while: everyone learns of changes by them."""
        for actor in self._stage.actors:
            for turn in range(_ROUNDS):
                self._stage.soon(
                    turn * _HEARTBEAT_MS + 50, (turn + 1) * _HEARTBEAT_MS, actor.heartbeat
                )

    def leave(self, reason: str) -> None:
        """Go properly; the new protocol takes no reason."""
        del reason
        if not self.alive:
            return
        self.reading.commit(self)
        self.alive = False
        self._stage.actors.remove(self)
        self.generation = _LEAVING
        self._stage.send(self, self._request(), 1)
        self._unsettle()

    def crash(self) -> None:
        """Go without a word; the last heartbeat was just now."""
        self.heartbeat()
        self.alive = False
        self._stage.watch(_SESSION_MS + 5_000)
        self._stage.actors.remove(self)
