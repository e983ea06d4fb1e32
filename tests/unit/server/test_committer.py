"""Group commit: what was staged is durable when its round ends, and every round ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from coterie.protocol.records import RecordBatch, encode_plain_batch
from coterie.server.partitions.committer import CommitRound, Committer
from coterie.storage.config import Durability
from coterie.storage.data_directory import DataDirectory
from coterie.storage.errors import StorageBroken, StorageError
from coterie.storage.partition_log import PartitionLog, TopicPartition

HEADER, BATCH = encode_plain_batch([(b"k", b"v")], 1, RecordBatch(base_sequence=0))


def with_committer(
    root: Path, use: Callable[[Committer, PartitionLog], Awaitable[None]]
) -> list[StorageError]:
    """Run something with a committer on a real directory; what it was told of broken storage."""
    broken: list[StorageError] = []

    async def run() -> None:
        directory = DataDirectory.open(root)
        (log,) = directory.create([TopicPartition("t", 0)])
        committer = Committer(
            directory, Durability.FSYNC, timeout_ms=60_000, on_broken=broken.append
        )
        await use(committer, log)
        await committer.close()

    asyncio.run(run())
    return broken


async def end_of(round_: CommitRound) -> StorageError | None:
    ended: asyncio.Future[StorageError | None] = asyncio.get_running_loop().create_future()
    round_.when_durable(ended.set_result)
    return await asyncio.wait_for(ended, 60)


def test_a_round_ends_when_it_is_published(tmp_path: Path) -> None:
    async def use(committer: Committer, log: PartitionLog) -> None:
        offset, round_ = committer.stage(log, BATCH, 0, HEADER)
        assert (offset, log.high_watermark) == (0, 0)
        assert await end_of(round_) is None
        assert (round_.done, log.high_watermark) == (True, 1)

    assert with_committer(tmp_path, use) == []


def test_a_failure_that_nobody_foresaw_ends_the_round_as_a_broken_disk_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("odd")

    async def use(committer: Committer, log: PartitionLog) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(DataDirectory, "write", fail)
            _, round_ = committer.stage(log, BATCH, 0, HEADER)
            assert isinstance(await end_of(round_), StorageBroken)
        with pytest.raises(StorageBroken):
            committer.stage(log, BATCH, 0, HEADER)

    assert len(with_committer(tmp_path, use)) == 1


def test_work_between_rounds_gives_what_it_gives_and_raises_what_it_raises(tmp_path: Path) -> None:
    def fail() -> None:
        raise ValueError("no")

    async def use(committer: Committer, _: PartitionLog) -> None:
        assert await committer.in_worker(lambda: 7) == 7
        with pytest.raises(ValueError, match="no"):
            await committer.in_worker(fail)
        abandoned = asyncio.ensure_future(committer.in_worker(lambda: 8))
        await asyncio.sleep(0)
        abandoned.cancel()
        assert await committer.in_worker(lambda: 9) == 9

    assert with_committer(tmp_path, use) == []
