"""A group's life, played: the planned events, member by member, in front of the coordinator."""

from __future__ import annotations

import random

from coterie.simulation.chronicle import Cause, Chronicle
from coterie.simulation.consumer import Consumer
from coterie.simulation.fleet import Fleet, GroupPlan
from coterie.simulation.lives import Action
from coterie.simulation.modern import ModernConsumer
from coterie.simulation.reading import Reading
from coterie.simulation.stage import Actor, Stage, Written
from coterie.simulation.traffic import TopicPlan

__all__ = ["Story"]

_MINUTE = 60_000
_METADATA_MAX_AGE_MS = 5 * _MINUTE
_SLOW, _STALLED = 0.6, 0.0
_QUICK_LEADER = (1, 40)
#: Slow enough that a generation may be overtaken by the next before it is written down.
_SLOW_LEADER = (1_000, 6_000)


class _Outsider(Actor):
    """An administrator, or a consumer that assigns partitions by hand: commits, and is no member."""

    client_id = "coterie"
    host = "/10.0.0.1"


class Story:
    """Plays one group from its first event to the end of the simulation."""

    def __init__(self, number: int, plan: GroupPlan, fleet: Fleet, moves: list[int]) -> None:
        self._plan = plan
        self._fleet = fleet
        dice = random.Random(f"{fleet.seed}/run/{number}")
        self.chronicle = Chronicle(plan.group_id, plan.life.modern)
        self._stage = Stage(number, self.chronicle, fleet.topics, dice)
        self._dice = dice
        self._reading = Reading(
            self._stage,
            plan.group_id,
            commit_every_ms=plan.commit_every_ms,
            producer_id=(number + 1) * 1_000 if plan.life.transactional else None,
        )
        self._topics = plan.topics
        self._outsider = _Outsider()
        self._hired = 0
        self._moves = moves
        self._network = f"/10.{dice.randint(1, 250)}.{dice.randint(0, 250)}"

    @property
    def batches(self) -> list[Written]:
        return self._stage.batches

    @property
    def kind(self) -> str:
        return self._plan.kind

    @property
    def has_members(self) -> bool:
        return bool(self._members)

    def play(self) -> None:
        """All of it."""
        stage, plan = self._stage, self._plan
        if plan.members == 0:
            stage.at(plan.events[0].at_ms, self._commit_by_hand)
        else:
            for event in plan.events:
                stage.at(event.at_ms, self._act, event.action, event.topics)
            for topic in self._fleet.topics.values():
                self._expect_growth(topic)
            # Members of the new protocol only look for their coordinator, and go on.
            for at_ms in () if plan.life.modern else self._moves:
                stage.at(at_ms, self._move)
        stage.run(self._fleet.end_ms)

    def _act(self, action: Action, topics: tuple[str, ...]) -> None:
        {
            Action.START: self._start,
            Action.STOP: self._stop,
            Action.DEPLOY: self._deploy,
            Action.CRASH: self._crash,
            Action.SCALE_OUT: self._scale_out,
            Action.SCALE_IN: self._scale_in,
            Action.RESUBSCRIBE: lambda: self._resubscribe(topics),
            Action.RESET: self._reset,
            Action.REWIND: self._rewind,
            Action.FLAP: self._flap,
            Action.SLOW: lambda: self._set_pace(_SLOW),
            Action.STALL: lambda: self._set_pace(_STALLED),
            Action.SILENCE: self._fall_silent,
        }[action]()

    # Members come and go

    @property
    def _members(self) -> list[Consumer | ModernConsumer]:
        return [each for each in self._stage.actors if isinstance(each, (Consumer, ModernConsumer))]

    def _because(self, cause: str, event: str) -> None:
        self.chronicle.because(cause, event, self._stage.now_ms)

    def _hire(self, event: str, instance_id: str | None = None, cause: str = Cause.CHURN) -> None:
        """A process starts and joins."""
        self._hired += 1
        if self._plan.life.static and instance_id is None:
            instance_id = f"{self._plan.kind}-{self._hired}"
        consumer = self._process(instance_id)
        self._stage.actors.append(consumer)
        self._because(cause, event)
        consumer.join()

    def _process(self, instance_id: str | None) -> Consumer | ModernConsumer:
        client_id = f"{self._plan.kind}-{self._hired}"
        host = f"{self._network}.{self._hired % 250 + 1}"
        if self._plan.life.modern:
            return ModernConsumer(
                self._stage, self._reading, client_id=client_id, host=host, topics=self._topics
            )
        return Consumer(
            self._stage,
            self._reading,
            client_id=client_id,
            host=host,
            instance_id=instance_id,
            topics=self._topics,
            assignor=self._plan.assignor,
            assign_ms=_SLOW_LEADER if self._plan.kind == "flapping" else _QUICK_LEADER,
        )

    def _dismiss(self, consumer: Consumer | ModernConsumer, event: str) -> None:
        if consumer.alive:
            self._because(Cause.CHURN, event)
            consumer.leave(event)

    def _start(self) -> None:
        self._reading.forget_counts()
        for _ in range(self._plan.members):
            self._stage.soon(0, 2_500, self._hire, "start")

    def _stop(self) -> None:
        for consumer in self._members:
            self._stage.soon(0, 1_500, self._dismiss, consumer, "stop")
        # Offsets live for offsets.retention.minutes from then on; the coordinator looks every ten minutes.
        wait = self._stage.config.offsets_retention_ms + 10 * _MINUTE
        self._stage.at(self._stage.now_ms + wait, self._expire)

    def _expire(self) -> None:
        if not self._stage.actors:
            self._stage.tick()

    def _deploy(self) -> None:
        """A rolling restart: one after the other is replaced."""
        for index, consumer in enumerate(self._members):
            at_ms = self._stage.now_ms + index * 45_000
            if self._plan.life.static:
                self._stage.at(at_ms, self._restart_static, consumer)
            else:
                self._stage.at(at_ms, self._replace, consumer, "deploy")

    def _replace(
        self,
        consumer: Consumer | ModernConsumer,
        event: str,
        back_ms: tuple[int, int] = (8_000, 25_000),
    ) -> None:
        if consumer.alive:
            self._dismiss(consumer, event)
            self._stage.soon(*back_ms, self._hire, event)

    def _restart_static(self, consumer: Consumer) -> None:
        """Static members go without a word and are back before their session ends (KIP-345)."""
        if consumer.alive:
            consumer.crash()
            self._stage.soon(
                3_000, 20_000, self._hire, "restart", consumer.instance_id, Cause.STATIC
            )

    def _crash(self) -> None:
        """A process dies; its place is filled when the session is over or long after."""
        if len(self._members) > 1:
            consumer = self._dice.choice(self._members)
            self._because(Cause.CHURN, "crash")
            consumer.crash()
            self._stage.soon(70_000, 180_000, self._hire, "crash")

    def _scale_out(self) -> None:
        for _ in range(self._dice.randint(1, 2)):
            self._stage.soon(0, 10_000, self._hire, "scale out")

    def _scale_in(self) -> None:
        if len(self._members) > 1:
            self._dismiss(self._members[-1], "scale in")

    def _flap(self) -> None:
        """A member that is too slow to poll: thrown out and back in, again and again."""
        at_ms = self._stage.now_ms
        for _ in range(self._dice.randint(12, 20)):
            self._stage.at(at_ms, self._throw_out)
            at_ms += self._dice.randint(20_000, 40_000)

    def _throw_out(self) -> None:
        if len(self._members) > 1:
            self._replace(self._members[-1], "poll timeout", back_ms=(1_500, 15_000))

    # Other upheavals

    def _resubscribe(self, more: tuple[str, ...]) -> None:
        """All members read one more topic from now on, as after a change of a pattern's matches."""
        self._topics = tuple(sorted({*self._topics, *more}))
        if not self._plan.life.modern:
            self._because(Cause.SUBSCRIPTION, "resubscribe")
        for consumer in self._members:
            if self._plan.life.modern:  # each of them makes an epoch of its own
                self._because(Cause.SUBSCRIPTION, "resubscribe")
            consumer.resubscribe(self._topics)

    def _expect_growth(self, topic: TopicPlan) -> None:
        if topic.grows_at_ms is not None:
            at_ms = topic.grows_at_ms + self._dice.randint(1_000, _METADATA_MAX_AGE_MS)
            self._stage.at(at_ms, self._look_at_topics)

    def _look_at_topics(self) -> None:
        """The leader looks at its topics now and then; more partitions make it rejoin."""
        if self._plan.life.modern and self._members:
            self._members[0].heartbeat()
            return
        leader = next((each for each in self._members if each.leads), None)
        if leader is not None and not leader.waits and self._reading.counts_changed():
            leader.join()

    def _move(self) -> None:
        self._stage.move()
        if self._plan.rejoins_on_move and self._members:
            self._because(Cause.MOVE, "coordinator move")
            for consumer in self._members:
                if isinstance(consumer, Consumer):
                    self._stage.soon(100, 2_000, consumer.rejoin, consumer.generation)

    # Offsets

    def _set_pace(self, pace: float) -> None:
        self._reading.pace = pace

    def _fall_silent(self) -> None:
        self._reading.silent = True

    def _reset(self) -> None:
        """An administrator moves a group's offsets back; it has no members then."""
        if self._members:
            return
        share = self._dice.uniform(0.2, 1.0)
        reading = self._reading
        reading.store(
            self._outsider, {place: reading.earlier(place, share) for place in reading.committed}
        )

    def _rewind(self) -> None:
        if self._members:
            self._reading.rewind(self._dice.choice(self._members), self._dice.uniform(0.05, 0.5))

    def _commit_by_hand(self) -> None:
        """A simple group: no members, offsets only."""
        reading, now = self._reading, self._stage.now_ms
        offsets: dict[tuple[str, int], int] = {}
        for topic in self._topics:
            for index in range(self._fleet.topics[topic].count(now)):
                if (topic, index) not in reading.committed:
                    reading.begin(topic, index, now)
                offsets[topic, index] = reading.read(topic, index)
        reading.store(self._outsider, offsets)
        every = self._plan.commit_every_ms
        self._stage.soon(every, every + every // 10, self._commit_by_hand)

    # The end

    def summary(self) -> dict[str, object]:
        """Where the group stands at the end."""
        chronicle, end_ms = self.chronicle, self._fleet.end_ms
        committed = {} if chronicle.deleted_ms is not None else self._reading.committed
        lag = sum(
            max(self._fleet.topics[topic].end(index, end_ms) - offset, 0)
            for (topic, index), offset in committed.items()
        )
        return {
            "group": self._plan.group_id,
            "kind": self._plan.kind,
            "members": len(self._members),
            "generation": chronicle.generation,
            "topics": list(self._topics),
            "partitions": len(committed),
            "total_lag": lag,
        }
