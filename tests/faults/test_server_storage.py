"""Disks that fill up, fail or are slow under a running server (F59-F61), and what clients see of it."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from coterie.coordinator.config import GroupConfig
from coterie.error_codes import ErrorCode
from coterie.files import File
from coterie.protocol.messages.membership import HeartbeatRequest, HeartbeatResponse
from coterie.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from coterie.server.cluster import Cluster
from coterie.server.settings.config import ServerConfig
from coterie.storage.errors import StorageBroken
from tests.kit.fault_fs import FaultFS
from tests.kit.wire_client import WireClient

T = TypeVar("T")

Play = Callable[[Cluster, Callable[[Callable[[WireClient], T]], Awaitable[T]]], Awaitable[None]]


def run(fs: FaultFS, play: Play[int], **settings: int | GroupConfig) -> None:
    """A cluster on a file system that can fail; `play` gets it, and a way to talk to it."""

    async def stage() -> None:
        config = ServerConfig(**settings)  # type: ignore[arg-type]
        cluster = Cluster(root=Path("data"), config=config, fs=fs)
        await cluster.start()
        cluster.partitions.create_topic("orders", 1, {})
        cluster.partitions.offsets_partition("any")
        host, port = cluster.bootstrap_servers.split(":")

        async def ask(question: Callable[[WireClient], int]) -> int:
            def talk() -> int:
                with WireClient(host, int(port)) as client:
                    return question(client)

            return await asyncio.to_thread(talk)

        await play(cluster, ask)
        if cluster.storage_error is None:
            await cluster.stop()
        else:
            with pytest.raises(StorageBroken):
                await cluster.stop()

    asyncio.run(stage())


def commit(client: WireClient, offset: int, retention_ms: int | None = None) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="orders", partitions=(partition,))
    request, version = OffsetCommitRequest(group_id="g", topics=(topic,)), 9
    if retention_ms is not None:
        request, version = msgspec.structs.replace(request, retention_time_ms=retention_ms), 4
    answer = client.ask(request, OffsetCommitResponse, version)
    return answer.topics[0].partitions[0].error_code


def fetch(client: WireClient) -> int:
    """The committed offset, or minus the error."""
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=None),))
    (group,) = client.ask(request, OffsetFetchResponse, 9).groups
    if group.error_code:
        return -group.error_code
    return group.topics[0].partitions[0].committed_offset if group.topics else -1


def test_f59_a_full_disk_refuses_commits_keeps_reads_and_recovers() -> None:
    fs = FaultFS()

    async def play(
        cluster: Cluster, ask: Callable[[Callable[[WireClient], int]], Awaitable[int]]
    ) -> None:
        assert await ask(lambda client: commit(client, 1)) == ErrorCode.NONE
        fs.fail("pwrite", errno.ENOSPC)
        refused = await ask(lambda client: commit(client, 2))
        assert refused == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await cluster.settled()
        assert await ask(fetch) == 1
        fs.heal()
        assert await ask(lambda client: commit(client, 3)) == ErrorCode.NONE
        assert await ask(fetch) == 3
        assert not cluster.broken.is_set()

    run(fs, play)


def test_f59_what_time_has_changed_is_taken_back_too_if_it_cannot_be_written() -> None:
    """Offsets expire, and nobody waits for an answer that could tell of the full disk."""
    fs = FaultFS()
    often = GroupConfig(offsets_retention_check_interval_ms=20)

    async def play(
        cluster: Cluster, ask: Callable[[Callable[[WireClient], int]], Awaitable[int]]
    ) -> None:
        assert await ask(lambda client: commit(client, 1, retention_ms=200)) == ErrorCode.NONE
        fs.fail("pwrite", errno.ENOSPC)
        tries = fs.calls["pwrite"] + 2
        async with asyncio.timeout(30):
            while fs.calls["pwrite"] < tries:  # it expires, cannot, is there again, expires again
                await ask(fetch)
            fs.heal()
            while await ask(fetch) != -1:
                pass

    run(fs, play, group=often)


def test_f60_a_failed_sync_is_never_acknowledged_and_ends_the_server() -> None:
    fs = FaultFS()

    async def play(
        cluster: Cluster, ask: Callable[[Callable[[WireClient], int]], Awaitable[int]]
    ) -> None:
        assert await ask(lambda client: commit(client, 1)) == ErrorCode.NONE
        fs.fail("sync", errno.EIO)
        assert await ask(lambda client: commit(client, 2)) == ErrorCode.NOT_COORDINATOR
        assert cluster.broken.is_set()
        fs.heal()
        # The disk says it is well again; what it lost in between nobody knows.
        assert await ask(lambda client: commit(client, 3)) != ErrorCode.NONE

    run(fs, play)


class SlowFS(FaultFS):
    """A disk whose syncs wait until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.go.set()

    def open(self, path: Path, *, create: bool = False, private: bool = False) -> File:
        file = super().open(path, create=create, private=private)
        sync = file.sync

        def slow() -> None:
            self.go.wait()
            sync()

        file.sync = slow  # type: ignore[method-assign]
        return file


def test_f61_a_slow_disk_times_out_commits_and_leaves_heartbeats_alone() -> None:
    fs = SlowFS()

    async def play(
        cluster: Cluster, ask: Callable[[Callable[[WireClient], int]], Awaitable[int]]
    ) -> None:
        assert await ask(lambda client: commit(client, 1)) == ErrorCode.NONE
        fs.go.clear()
        late = asyncio.ensure_future(ask(lambda client: commit(client, 2)))

        def beat(client: WireClient) -> int:
            return client.ask(HeartbeatRequest("g", 1, "m"), HeartbeatResponse).error_code

        assert await ask(beat) == ErrorCode.UNKNOWN_MEMBER_ID
        assert not late.done()
        assert await late == ErrorCode.COORDINATOR_NOT_AVAILABLE
        fs.go.set()
        # It was late, not lost: nobody may be told an older offset than the one on disk.
        assert await ask(lambda client: commit(client, 3)) == ErrorCode.NONE
        assert await ask(fetch) == 3

    run(fs, play, offsets_commit_timeout_ms=300)
