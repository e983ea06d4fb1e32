"""What a cluster does on the side: checkpoints, retention, compaction. One task, one directory at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from coterie.server.clock import Clock
from coterie.server.committer import Committer
from coterie.storage.errors import StorageError

__all__ = ["keep_house"]

log = logging.getLogger("coterie.server")

#: Kafka's log.flush.offset.checkpoint.interval.ms: how much a start after a crash has to read again.
CHECKPOINT_SECONDS: Final = 60


async def keep_house(
    committers: Iterable[Committer], clock: Clock, retention_check_ms: int
) -> None:
    """Run until cancelled. What fails is said and tried again at the next round."""
    committers = list(committers)
    next_retention = clock.monotonic() + retention_check_ms / 1000
    while True:
        await asyncio.sleep(min(CHECKPOINT_SECONDS, retention_check_ms / 1000))
        due = clock.monotonic() >= next_retention
        if due:
            next_retention = clock.monotonic() + retention_check_ms / 1000
        for committer in committers:
            if committer.broken is None:
                try:
                    await tidy(committer, clock.now_ms(), retention=due)
                except StorageError as error:
                    log.warning("housekeeping of %s failed: %s", committer.directory.root, error)


async def tidy(committer: Committer, now_ms: int, *, retention: bool) -> None:
    """One round in one directory: checkpoint first, since the rest touches only what is durable."""
    directory = committer.directory
    await committer.in_worker(directory.checkpoint)
    if not retention:
        return
    gone = directory.apply_retention(now_ms)
    if gone:
        log.info("retention removed %d segments of %s", gone, directory.root)
    for each in directory.logs_to_clean():
        cleaned = await committer.in_worker(lambda each=each: directory.clean(each, now_ms))  # type: ignore[misc]
        saved = directory.swap(cleaned)
        log.info("compaction of %s saved %d bytes", each.partition.directory_name, saved)
