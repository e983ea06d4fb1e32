"""What kinds of groups live through: deploys, crashes, storms, slow days, death.

Each kind has a function that throws the dice for one group and returns its events, in epoch ms. How an
event plays out, member by member, is for coterie.simulation.story.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

__all__ = ["KINDS", "Action", "Event", "Kind", "Life", "live"]

_SECOND = 1_000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR


class Action(Enum):
    """What can happen to a group."""

    START = "start"
    STOP = "stop"
    DEPLOY = "deploy"
    CRASH = "crash"
    SCALE_OUT = "scale out"
    SCALE_IN = "scale in"
    RESUBSCRIBE = "resubscribe"
    RESET = "reset"
    REWIND = "rewind"
    FLAP = "flap"
    SLOW = "slow"
    STALL = "stall"
    SILENCE = "silence"


class Event(NamedTuple):
    """Something that happens to a group."""

    at_ms: int
    action: Action
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Life:
    """A group's events, in order, and how its members work."""

    events: tuple[Event, ...]
    static: bool = False
    transactional: bool = False
    #: Of the consumer protocol (KIP-848).
    modern: bool = False


Dice = random.Random
#: Events from the dice, the first and the last moment, and topics that the group does not read yet.
_Plot = Callable[[Dice, int, int, Sequence[str]], list[Event]]


def _spaced(dice: Dice, start: int, end: int, count: int) -> list[int]:
    """Moments at least half an hour apart, so that one upheaval is over before the next."""
    room = max((end - start - _HOUR) // (30 * _MINUTE), 0)
    slots = sorted(dice.sample(range(room), min(count, room)))
    return [
        start + 20 * _MINUTE + slot * 30 * _MINUTE + dice.randint(0, 5 * _MINUTE) for slot in slots
    ]


def _awake(dice: Dice, start: int) -> Event:
    return Event(start - dice.randint(10, 60) * _MINUTE, Action.START)


def _service(dice: Dice, start: int, end: int, _: Sequence[str]) -> list[Event]:
    usual = (Action.DEPLOY, Action.DEPLOY, Action.CRASH, Action.SCALE_OUT, Action.SCALE_IN)
    days = max(1, round((end - start) / _DAY))
    moments = _spaced(dice, start, end, dice.randint(1, 4) * days)
    return [_awake(dice, start), *(Event(at, dice.choice(usual)) for at in moments)]


def _modern(dice: Dice, start: int, end: int, others: Sequence[str]) -> list[Event]:
    """As a service, and it may come to read one more topic."""
    events = _service(dice, start, end, others)
    if others and dice.random() < 0.5 and events[-1].at_ms < end - 2 * _HOUR:
        events.append(Event(end - _HOUR, Action.RESUBSCRIBE, (dice.choice(others),)))
    return events


def _flapping(dice: Dice, start: int, end: int, _: Sequence[str]) -> list[Event]:
    moments = _spaced(dice, start, end, dice.randint(1, 2))
    return [_awake(dice, start), *(Event(at, Action.FLAP) for at in moments)]


def _turning(action: Action) -> _Plot:
    """A group that is well until something befalls it, in the first half of the time."""

    def plot(dice: Dice, start: int, end: int, _: Sequence[str]) -> list[Event]:
        return [_awake(dice, start), Event(dice.randint(start, (start + end) // 2), action)]

    return plot


def _static(dice: Dice, start: int, end: int, _: Sequence[str]) -> list[Event]:
    moments = _spaced(dice, start, end, dice.randint(1, 3))
    return [_awake(dice, start), *(Event(at, Action.DEPLOY) for at in moments)]


def _calm(dice: Dice, start: int, end: int, _: Sequence[str]) -> list[Event]:
    moments = _spaced(dice, start, end, dice.randint(0, 1))
    return [_awake(dice, start), *(Event(at, Action.DEPLOY) for at in moments)]


def _replayed(dice: Dice, start: int, end: int, _: Sequence[str]) -> list[Event]:
    """Stopped, its offsets set back by an administrator, and started again."""
    at = dice.randint(start, max(end - 2 * _HOUR, start))
    return [
        _awake(dice, start),
        Event(at, Action.STOP),
        Event(at + 5 * _MINUTE, Action.RESET),
        Event(at + 10 * _MINUTE, Action.START),
    ]


def _rewinding(dice: Dice, start: int, end: int, _: Sequence[str]) -> list[Event]:
    moments = _spaced(dice, start, end, dice.randint(1, 3))
    return [_awake(dice, start), *(Event(at, Action.REWIND) for at in moments)]


def _resubscribing(dice: Dice, start: int, end: int, others: Sequence[str]) -> list[Event]:
    moments = _spaced(dice, start, end, 1)
    more = tuple(dice.sample(others, min(1, len(others))))
    return [_awake(dice, start), *(Event(at, Action.RESUBSCRIBE, more) for at in moments if more)]


def _brief(dice: Dice, start: int, end: int, _: Sequence[str]) -> list[Event]:
    """Someone looked at a topic for a few minutes; on most days before the first hour."""
    at = dice.randint(start - 6 * _DAY, end - 30 * _MINUTE)
    return [Event(at, Action.START), Event(at + dice.randint(2, 20) * _MINUTE, Action.STOP)]


def _dead(dice: Dice, start: int, _end: int, _: Sequence[str]) -> list[Event]:
    at = start - dice.randint(30 * _HOUR, 6 * _DAY)
    return [Event(at, Action.START), Event(at + dice.randint(1, 5) * _HOUR, Action.STOP)]


def _expired(dice: Dice, start: int, end: int, _: Sequence[str]) -> list[Event]:
    """Gone for so long that its offsets expire while we watch."""
    gone = dice.randint(start, max((start + end) // 2, start)) - 7 * _DAY
    return [Event(gone - _HOUR, Action.START), Event(gone, Action.STOP)]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of group: how many of a hundred, and what its life is like."""

    weight: int
    plot: _Plot
    #: Members at least.
    least: int = 1
    static: bool = False
    transactional: bool = False
    modern: bool = False
    #: Commits without members: partitions are assigned by hand.
    simple: bool = False
    overstaffed: bool = False
    #: Has members from before the first hour to the last.
    steady: bool = True


KINDS: dict[str, Kind] = {
    "service": Kind(34, _service, least=2),
    "modern": Kind(8, _modern, least=2, modern=True),
    "flapping": Kind(3, _flapping, least=2),
    "slow": Kind(6, _turning(Action.SLOW)),
    "stalled": Kind(3, _turning(Action.STALL)),
    "silent": Kind(3, _turning(Action.SILENCE)),
    "static": Kind(6, _static, least=2, static=True),
    "transactional": Kind(4, _calm, transactional=True),
    "simple": Kind(5, _calm, simple=True, steady=False),
    "overstaffed": Kind(3, _calm, overstaffed=True),
    "replayed": Kind(3, _replayed, steady=False),
    "rewinding": Kind(2, _rewinding),
    "resubscribing": Kind(4, _resubscribing),
    "console": Kind(5, _brief, steady=False),
    "ephemeral": Kind(5, _brief, steady=False),
    "dead": Kind(4, _dead, steady=False),
    "expired": Kind(2, _expired, steady=False),
}


def live(kind: str, dice: Dice, start_ms: int, end_ms: int, others: Sequence[str]) -> Life:
    """One group's life, from the dice."""
    spec = KINDS[kind]
    events = sorted(spec.plot(dice, start_ms, end_ms, others), key=lambda event: event.at_ms)
    return Life(
        tuple(events),
        static=spec.static,
        transactional=spec.transactional,
        modern=spec.modern,
    )
