"""Burrow's rules for a partition, read once more in plain Python: what the marts are held against."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from coterie.spark.marts.burrow import Burrow

__all__ = ["Seen", "judged"]

#: How long ago, in any unit, and an offset; oldest first.
Seen = tuple[float, int]


def judged(all_commits: Sequence[Seen], all_ends: Sequence[Seen], settings: Burrow) -> str:
    """Burrow's calculatePartitionStatus, step by step."""
    commits = all_commits[-settings.intervals :]
    ends = all_ends[-settings.intervals :]
    current = max(ends[-1][1] - commits[-1][1], 0)
    lags = []
    for ago, offset in commits:
        known = [end for at, end in all_ends if at >= ago]
        if known:
            lags.append(max(known[-1] - offset, 0))
    if current <= settings.allowed_lag:
        return "OK"
    first_ago, last_ago = commits[0][0], commits[-1][0]
    if last_ago > first_ago - last_ago and all(end > commits[-1][1] for _, end in ends):
        return "STOP"
    offsets = [offset for _, offset in commits]
    for i in range(1, len(offsets)):
        if offsets[i] < offsets[i - 1]:
            if all(later < offsets[i - 1] for later in offsets[i:]):
                return "REWIND"
            break
    if any(lag <= settings.allowed_lag for lag in lags):
        return "OK"
    if len(set(offsets)) == 1:
        return "STALL"
    falls = any(later < earlier for earlier, later in itertools.pairwise(lags))
    return "OK" if falls else "WARN"
