"""Burrow's rules for a partition, read once more in plain Python: what the marts are held against."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from coterie.spark.marts.burrow import Burrow

__all__ = ["Seen", "judged"]

#: How long ago, in any unit, and an offset; oldest first.
Seen = tuple[float, int]


def judged(all_commits: Sequence[Seen], all_ends: Sequence[Seen], settings: Burrow) -> str:
    """Burrow's calculatePartitionStatus, step by step; NOTFOUND if it takes what nobody knows."""
    commits = all_commits[-settings.intervals :]
    ends = all_ends[-settings.intervals :]
    if not ends:
        return "NOTFOUND"
    if ends[-1][1] - commits[-1][1] <= settings.allowed_lag:
        return "OK"
    first_ago, last_ago = commits[0][0], commits[-1][0]
    if last_ago > first_ago - last_ago and all(end > commits[-1][1] for _, end in ends):
        return "STOP"
    offsets = [offset for _, offset in commits]
    if _rewound(offsets):
        return "REWIND"
    known = [([end for at, end in all_ends if at >= ago], offset) for ago, offset in commits]
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
