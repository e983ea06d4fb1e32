"""Burrow's rules for a partition in plain Python, commit by commit: the model for the marts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from coterie.spark.marts.burrow import Burrow

__all__ = ["Seen", "judged", "ring"]

#: How long ago, in seconds, and an offset; in the order of arrival.
Seen = tuple[float, int]


class Slot(NamedTuple):
    """A place in the ring: the time of its first commit, the offset and the time of its last."""

    ago: float
    offset: int
    last_ago: float


def ring(commits: Sequence[Seen], settings: Burrow) -> list[Slot]:
    """Burrow's ring: commits that come too soon, or with an earlier time, replace the newest."""
    slots: list[Slot] = []
    for ago, offset in commits:
        if slots and slots[-1].ago - ago < settings.min_distance.total_seconds():
            slots[-1] = Slot(slots[-1].ago, offset, ago)
        else:
            slots.append(Slot(ago, offset, ago))
    return slots[-settings.intervals :]


def judged(all_commits: Sequence[Seen], all_ends: Sequence[Seen], settings: Burrow) -> str:
    """Burrow's calculatePartitionStatus, step by step; NOTFOUND if it takes what nobody knows."""
    slots = ring(all_commits, settings)
    ends = all_ends[-settings.intervals :]
    if not ends:
        return "NOTFOUND"
    if len(slots) / settings.intervals < settings.minimum_complete:
        return "OK"
    last = slots[-1]
    if ends[-1][1] - last.offset <= settings.allowed_lag:
        return "OK"
    if last.ago > slots[0].ago - last.ago and all(end > last.offset for _, end in ends):
        return "STOP"
    offsets = [slot.offset for slot in slots]
    if _rewound(offsets):
        return "REWIND"
    # Of the ends that were sampled by the time of the commit, the newest.
    known = [([end for at, end in all_ends if at >= slot.last_ago], slot.offset) for slot in slots]
    return _by_lags(
        offsets, [max(seen[-1] - offset, 0) for seen, offset in known if seen], settings
    )


def _rewound(offsets: Sequence[int]) -> bool:
    """checkIfOffsetsRewind and checkIfRewindRecovered: the first step back counts, until caught up with."""
    for i in range(1, len(offsets)):
        if offsets[i] < offsets[i - 1]:
            return all(later < offsets[i - 1] for later in offsets[i:])
    return False


def _by_lags(offsets: Sequence[int], lags: Sequence[int], settings: Burrow) -> str:
    """The rules that look at lag: it is known of the last commits, or of none."""
    if any(lag <= settings.allowed_lag for lag in lags):
        return "OK"
    if lags and len(set(offsets)) == 1:
        return "STALL"
    pairs = list(itertools.pairwise(lags))
    if not pairs:
        return "NOTFOUND"
    return "OK" if any(later < earlier for earlier, later in pairs) else "WARN"
