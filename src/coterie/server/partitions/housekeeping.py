"""Background work of a cluster: checkpoints, retention and compaction, each at its own interval."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from coterie.server.clock import Clock
from coterie.server.partitions.committer import Committer
from coterie.server.settings.config import ServerConfig
from coterie.storage.errors import StorageError

__all__ = ["keep_house"]

log = logging.getLogger("coterie.server")

#: Kafka's log.flush.offset.checkpoint.interval.ms: how much a start after a crash has to read again.
CHECKPOINT_MS: Final = 60_000

_Work = Callable[[Committer, int], Awaitable[None]]


async def keep_house(
    committers: Iterable[Committer], clock: Clock, config: Callable[[], ServerConfig]
) -> None:
    """Run until cancelled. A failure is logged and tried again at the next interval.

    `config` returns the current settings: intervals can change while the cluster runs. One task does all the
    work, so that retention and compaction never meet in one log.
    """
    committers = list(committers)
    started = clock.monotonic()
    last: dict[_Work, float] = dict.fromkeys((checkpoint, retain, compact), started)
    while True:
        settings = config()
        intervals: dict[_Work, int] = {
            checkpoint: CHECKPOINT_MS,
            retain: settings.log_retention_check_interval_ms,
            compact: settings.log_cleaner_backoff_ms,
        }
        if not settings.log_cleaner_enable:
            del intervals[compact]
        now = clock.monotonic()
        due = [work for work, ms in intervals.items() if now - last[work] >= ms / 1000]
        for work in due:
            last[work] = now
            await _everywhere(work, committers, clock)
        await asyncio.sleep(min(1.0, *(ms / 1000 for ms in intervals.values())))


async def _everywhere(work: _Work, committers: list[Committer], clock: Clock) -> None:
    for committer in committers:
        if committer.broken is None:
            try:
                await work(committer, clock.now_ms())
            except StorageError as error:
                log.warning("housekeeping of %s failed: %s", committer.directory.root, error)


async def checkpoint(committer: Committer, _now_ms: int) -> None:
    await committer.in_worker(committer.directory.checkpoint)


async def retain(committer: Committer, now_ms: int) -> None:
    """Delete old segments; after a checkpoint, since only durable ones may go."""
    await checkpoint(committer, now_ms)
    gone = committer.directory.apply_retention(now_ms)
    if gone:
        log.info("retention removed %d segments of %s", gone, committer.directory.root)


async def compact(committer: Committer, now_ms: int) -> None:
    """Compact logs that are due; after a checkpoint, since only durable segments are compacted."""
    directory = committer.directory
    if not any(each.config.is_compacted for each in directory.logs.values()):
        return
    await checkpoint(committer, now_ms)
    for each in directory.logs_to_clean(now_ms):
        cleaned = await committer.in_worker(lambda each=each: directory.clean(each, now_ms))  # type: ignore[misc]
        saved = directory.swap(cleaned)
        log.info("compaction of %s saved %d bytes", each.partition.directory_name, saved)
