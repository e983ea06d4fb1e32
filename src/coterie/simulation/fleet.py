"""The plan of a fleet: its topics, its groups, and what will happen to each of them.

All dice are thrown here and in the group's own run, from generators that are seeded by name: a fleet is
the same for the same seed, whatever runs in parallel. What a kind of group lives through is in
coterie.simulation.lives.
"""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass

from coterie.protocol.group_state import partition_for
from coterie.protocol.types import Uuid
from coterie.simulation.lives import KINDS, Event, Life, live
from coterie.simulation.traffic import DAY_MS, TopicPlan

__all__ = ["Fleet", "GroupPlan", "Move", "plan_fleet"]

_MINUTE_MS = 60_000
#: How long before the first hour the oldest groups began; offsets live for seven days by default.
LEAD_IN_MS = 9 * DAY_MS
_AREAS = ("billing", "cart", "fraud", "mail", "orders", "search", "shipping", "users", "web")
_WORDS = ("audit", "enricher", "export", "indexer", "loader", "mirror", "relay", "scorer", "worker")
_TOPIC_WORDS = ("changes", "clicks", "commands", "dead-letters", "events", "metrics", "payments")
#: How many console consumers have a number of five digits, as Kafka's own tool throws them.
_CONSOLES = 90_000
#: Names that break careless tools: formulas, quotes, markup, separators, other scripts.
_HOSTILE = (
    '=HYPERLINK("http://x.invalid","pay")',
    "<script>alert('group')</script>",
    "o'brien\"s;group,with,commas",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "+групп\u0430-消费者-\U0001f600",
    "-- drop table groups",
    "tab\tand\nnewline",
    "a/../b%2e%2e",
)


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A group: who it is, how its members work, and what will happen to it."""

    group_id: str
    kind: str
    topics: tuple[str, ...]
    members: int
    life: Life
    assignor: str
    #: Whether members rejoin when their coordinator moves, as Sarama's do; Java's only look for the new one.
    rejoins_on_move: bool
    commit_every_ms: int

    @property
    def events(self) -> tuple[Event, ...]:
        return self.life.events


@dataclass(frozen=True, slots=True)
class Move:
    """A partition of the offsets topic gets another leader, which is another coordinator."""

    partition: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class Fleet:
    """All that will happen."""

    seed: int
    start_ms: int
    end_ms: int
    partitions: int
    topics: dict[str, TopicPlan]
    groups: tuple[GroupPlan, ...]
    moves: tuple[Move, ...]


def plan_fleet(
    *, groups: int, hours: float, seed: int, start_ms: int, partitions: int, commit_every_ms: int
) -> Fleet:
    """The fleet of a seed."""
    end_ms = start_ms + int(hours * 3_600_000)
    topics = _topics(random.Random(f"{seed}/topics"), groups, start_ms, end_ms)
    dice = random.Random(f"{seed}/kinds")
    kinds = _kinds(groups, dice)
    names = _Names(random.Random(f"{seed}/names"))
    plans = tuple(
        _group(
            random.Random(f"{seed}/group/{index}"),
            names.name(kind, index),
            kind,
            topics,
            (start_ms, end_ms, commit_every_ms),
        )
        for index, kind in enumerate(kinds)
    )
    moves = _moves(random.Random(f"{seed}/moves"), plans, partitions, start_ms, end_ms)
    return Fleet(seed, start_ms, end_ms, partitions, topics, plans, moves)


def _topics(dice: random.Random, groups: int, start_ms: int, end_ms: int) -> dict[str, TopicPlan]:
    found: dict[str, TopicPlan] = {}
    for index in range(max(4, min(groups // 8, 400))):
        name = f"{dice.choice(_AREAS)}.{dice.choice(_TOPIC_WORDS)}.v{index + 1}"
        partitions = dice.choice((1, 3, 4, 6, 6, 12))
        grows = index % 6 == 1
        found[name] = TopicPlan(
            name=name,
            topic_id=Uuid(dice.randbytes(16)),
            partitions=partitions,
            since_ms=start_ms - LEAD_IN_MS - DAY_MS,
            rate=round(10 ** dice.uniform(-1.0, 1.5), 3),
            phase=dice.uniform(0, 6.28),
            retention_ms=dice.choice((6, 24, 72, 168, 168)) * 3_600_000,
            grows_at_ms=dice.randint(start_ms, end_ms) if grows else None,
            grows_to=partitions + dice.choice((1, 2, 6)) if grows else 0,
            hot_partition=0 if index % 9 == 4 and partitions > 3 else -1,
        )
    return found


def _kinds(groups: int, dice: random.Random) -> list[str]:
    """So many of each kind as its weight says; in a fleet that has room, one of each at least."""
    weights = {kind: spec.weight for kind, spec in KINDS.items()}
    kinds = list(weights) if groups >= len(weights) else []
    kinds += dice.choices(list(weights), list(weights.values()), k=groups - len(kinds))
    dice.shuffle(kinds)
    return kinds


class _Names:
    """Group ids as people choose them."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._services = 0
        self._consoles: set[int] = set()

    def name(self, kind: str, index: int) -> str:
        dice = self._dice
        if kind == "console":
            number = (index * 7919 + dice.randint(0, 6)) % _CONSOLES
            if len(self._consoles) >= _CONSOLES:  # all numbers of five digits are taken
                number = len(self._consoles)
            while number in self._consoles:  # two groups of one name would be one group
                number = (number + 1) % _CONSOLES
            self._consoles.add(number)
            return f"console-consumer-{10_000 + number}"
        if kind == "ephemeral":
            return f"{dice.choice(_AREAS)}-preview-{uuid.UUID(bytes=dice.randbytes(16), version=4)}"
        if kind == "service":
            self._services += 1
            if self._services % 8 == 2:
                return f"{_HOSTILE[self._services // 8 % len(_HOSTILE)]} {index}"
        return f"{dice.choice(_AREAS)}-{dice.choice(_WORDS)}-{index}"


def _group(
    dice: random.Random,
    group_id: str,
    kind: str,
    topics: dict[str, TopicPlan],
    frame: tuple[int, int, int],
) -> GroupPlan:
    start_ms, end_ms, commit_every_ms = frame
    spec = KINDS[kind]
    chosen = tuple(sorted(dice.sample(sorted(topics), min(dice.choice((1, 1, 1, 2)), len(topics)))))
    widest = sum(topics[each].partitions for each in chosen)
    members = 0 if spec.simple else max(spec.least, min(dice.choice((1, 2, 3, 3, 4, 6)), widest))
    if spec.overstaffed:
        members = widest + 2
    life = live(kind, dice, start_ms, end_ms, sorted(set(topics) - set(chosen)))
    return GroupPlan(
        group_id=group_id,
        kind=kind,
        topics=chosen,
        members=members,
        life=life,
        assignor=dice.choice(("range", "sticky")),
        rejoins_on_move=dice.random() < 0.4,
        commit_every_ms=commit_every_ms,
    )


def _moves(
    dice: random.Random,
    plans: tuple[GroupPlan, ...],
    partitions: int,
    start_ms: int,
    end_ms: int,
) -> tuple[Move, ...]:
    """A rolling restart of the brokers touches some partitions of the offsets topic."""
    crowds: dict[int, int] = {}
    for plan in plans:
        spec = KINDS[plan.kind]
        if plan.rejoins_on_move and spec.steady and not spec.modern:
            partition = partition_for(plan.group_id, partitions)
            crowds[partition] = crowds.get(partition, 0) + 1
    crowded = sorted(partition for partition, crowd in crowds.items() if crowd > 1)
    chosen = sorted(dice.sample(crowded, -(-len(crowded) // 5))) if crowded else []
    return tuple(
        Move(
            partition,
            dice.randint(
                start_ms + _MINUTE_MS, max(end_ms - 10 * _MINUTE_MS, start_ms + _MINUTE_MS)
            ),
        )
        for partition in chosen
    )
