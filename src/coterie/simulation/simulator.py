"""From a seed to a directory: plan the fleet, play every group, write what is left.

Partitions of the offsets topic are independent of each other, so they are played in several processes; the
bytes are the same however many there are. A directory appears whole or not at all.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.datasets.times import LAST_MS
from coterie.errors import CoterieError, InvalidArgument
from coterie.simulation.chronicle import iso
from coterie.simulation.destination import whole_or_nothing
from coterie.simulation.fleet import Fleet, plan_fleet
from coterie.simulation.story import Story
from coterie.simulation.writing import (
    groups_by_partition,
    offsets_directory,
    write_end_offsets,
    write_identity,
    write_lines,
    write_segments,
)

__all__ = ["START_MS", "Simulated", "simulate"]

#: Monday, 2026-03-02 00:00 UTC: fixed, so that a seed alone decides every byte.
START_MS = 1_772_409_600_000
_COMMIT_EVERY_MS = 300_000
_SECOND_MS = 1_000
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Simulated:
    """What a simulation has written."""

    directory: Path
    groups: int
    records: int
    end_offsets: int
    rebalances: int
    stale_groups: int
    offset_resets: int
    start_ms: int
    end_ms: int


@dataclass(slots=True)
class _Truth:
    """What one partition's groups lived through, in the order of the fleet."""

    records: int
    groups: list[dict[str, Any]]
    rebalances: list[dict[str, Any]]
    resets: list[dict[str, Any]]
    stale: list[dict[str, Any]]


def simulate(
    directory: Path,
    *,
    groups: int,
    hours: float,
    seed: int,
    partitions: int = 50,
    start_ms: int = START_MS,
    commit_every_ms: int = _COMMIT_EVERY_MS,
    workers: int = 1,
    progress: Callable[[int], None] = lambda _: None,
) -> Simulated:
    """Simulate a fleet into `directory`, which must not exist or be empty."""
    if min(groups, partitions, workers) < 1:
        raise InvalidArgument("a simulation needs one group, one partition and one worker at least")
    if not 1 <= hours <= (LAST_MS - start_ms) / _HOUR_MS:  # nor is that so for a NaN
        raise InvalidArgument(
            f"a simulation cannot last {hours:g} hours: one at least, and its end is before the year 10000"
        )
    if commit_every_ms < _SECOND_MS:
        raise InvalidArgument("a simulation commits every second at most")
    with whole_or_nothing(directory) as building:
        fleet = plan_fleet(
            groups=groups,
            hours=hours,
            seed=seed,
            start_ms=start_ms,
            partitions=partitions,
            commit_every_ms=commit_every_ms,
        )
        # All that decides the bytes: another fleet is another cluster, the same one again is the same.
        arguments = (seed, groups, fleet.start_ms, fleet.end_ms, partitions, commit_every_ms)
        write_identity(building, "/".join(map(str, arguments)))
        done = _write(building, fleet, workers, progress)
    return Simulated(directory, **done)


def _write(
    root: Path, fleet: Fleet, workers: int, progress: Callable[[int], None]
) -> dict[str, int]:
    truths = _play_all(root, fleet, workers, progress)
    truth_directory = root / "truth"
    truth_directory.mkdir()

    def write(name: str, lines: Iterator[dict[str, Any]], *keys: str) -> int:
        ordered = sorted(lines, key=lambda line: [line[key] for key in keys])
        return write_lines(truth_directory / f"{name}.jsonl", ordered)

    write("groups", (each for truth in truths for each in truth.groups), "group")
    return {
        "groups": len(fleet.groups),
        "records": sum(truth.records for truth in truths),
        "end_offsets": write_end_offsets(root / "end_offsets", fleet),
        "rebalances": write(
            "rebalances",
            (each for truth in truths for each in truth.rebalances),
            "time",
            "group",
            "generation",
        ),
        "stale_groups": write(
            "stale_groups", (each for truth in truths for each in truth.stale), "group"
        ),
        "offset_resets": write(
            "offset_resets",
            (each for truth in truths for each in truth.resets),
            "time",
            "group",
            "topic",
            "partition",
        ),
        "start_ms": fleet.start_ms,
        "end_ms": fleet.end_ms,
    }


def _play_all(
    root: Path, fleet: Fleet, workers: int, progress: Callable[[int], None]
) -> list[_Truth]:
    """The partitions, in order. Nobody writes any more when it ends, however it does."""
    members = groups_by_partition(fleet)

    def told(truth: _Truth) -> _Truth:
        progress(len(truth.groups))
        return truth

    if workers == 1:
        return [told(_play_partition(root, fleet, *each)) for each in members.items()]
    # Not fork: the caller may have threads.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, initializer=_end_when_interrupted)
    try:
        futures = [pool.submit(_play_partition, root, fleet, *each) for each in members.items()]
        return [told(future.result()) for future in futures]
    except BrokenProcessPool:
        raise CoterieError(
            "a process of the simulation was ended from outside, perhaps for want of memory:"
            " take fewer --workers, or fewer --groups"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _end_when_interrupted() -> None:
    """Ctrl-C reaches all processes: those that work for us end at once, and only we have something to say."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _play_partition(root: Path, fleet: Fleet, partition: int, numbers: list[int]) -> _Truth:
    """All groups of one partition of the offsets topic, and its log."""
    moves = [move.at_ms for move in fleet.moves if move.partition == partition]
    stories = [Story(number, fleet.groups[number], fleet, moves) for number in numbers]
    for story in stories:
        story.play()
    batches = [batch for story in stories for batch in story.batches]
    records = write_segments(offsets_directory(root, partition), batches, moves)
    return _Truth(
        records=records,
        groups=[story.summary() for story in stories],
        rebalances=[line for story in stories for line in story.chronicle.rebalances],
        resets=[line for story in stories for line in story.chronicle.resets],
        stale=[line for story in stories if (line := _stale(story, fleet)) is not None],
    )


def _stale(story: Story, fleet: Fleet) -> dict[str, Any] | None:
    """The truth about a group that has no members at the end and still has offsets."""
    chronicle = story.chronicle
    signs = [at for at in (chronicle.last_commit_ms, chronicle.last_member_ms) if at is not None]
    if story.has_members or not signs or chronicle.deleted_ms is not None:
        return None
    commit, member = chronicle.last_commit_ms, chronicle.last_member_ms
    return {
        "group": chronicle.group_id,
        "kind": story.kind,
        "last_commit": None if commit is None else iso(commit),
        "last_member": None if member is None else iso(member),
        "idle_seconds": (fleet.end_ms - max(signs)) // 1000,
    }
