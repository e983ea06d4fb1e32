"""A coordinator whose disk is busy, then moves or finds it full: what it acknowledges is what is known."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coterie.coordinator.config import GroupConfig
from coterie.error_codes import ErrorCode
from coterie.protocol.api import ApiKey
from coterie.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from coterie.server.settings.config import ServerConfig
from coterie.storage.data_directory import DataDirectory, SealedRound
from coterie.storage.errors import StorageFull
from tests.integration.server.background import BackgroundCluster
from tests.integration.server.talk import new_topic
from tests.kit.wire_client import WireClient

#: With fsync, so that a write is under way while the loop goes on.
CONFIG = ServerConfig(group=GroupConfig(initial_rebalance_delay_ms=0))


class SlowDisk:
    """Writes wait, once `busy` is set, until `go_on` is; the first of them then fails if `full` is set."""

    def __init__(self) -> None:
        self.full = False
        self.busy = threading.Event()
        self.reached = threading.Event()
        self.go_on = threading.Event()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    slow, write = SlowDisk(), DataDirectory.write

    def slowly(self: DataDirectory, sealed: SealedRound) -> None:
        if slow.busy.is_set():
            slow.reached.set()
            assert slow.go_on.wait(30)
        if slow.full:
            slow.full = False
            raise StorageFull("no space left")
        write(self, sealed)

    monkeypatch.setattr(DataDirectory, "write", slowly)
    yield slow
    slow.go_on.set()


def commit(topic: str, offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    row = OffsetCommitRequestTopic(name=topic, partitions=(partition,))
    return OffsetCommitRequest(group_id="moving", topics=(row,))


def committed(client: WireClient) -> int:
    """The group's only offset, as soon as its coordinator is loaded."""
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="moving", topics=None),))
    while True:
        (group,) = client.ask(request, OffsetFetchResponse, 9).groups
        if group.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            assert group.error_code == 0
            return group.topics[0].partitions[0].committed_offset


def error_of(answer: OffsetCommitResponse) -> int:
    return answer.topics[0].partitions[0].error_code


def test_what_is_being_written_when_a_coordinator_moves_is_loaded(
    tmp_path: Path, disk: SlowDisk
) -> None:
    with (
        BackgroundCluster(2, tmp_path, CONFIG) as cluster,
        WireClient(*cluster.address(1)) as old,
        WireClient(*cluster.address(2)) as new,
        ThreadPoolExecutor(1) as beside,
    ):
        topic, _ = new_topic(old)
        cluster.ask(lambda running: running.partitions.offsets_partition("moving"))
        cluster.run(cluster.cluster.move_coordinator("moving", 1))
        assert not error_of(old.ask(commit(topic, 1), OffsetCommitResponse, 9))
        disk.busy.set()
        answer = beside.submit(old.ask, commit(topic, 2), OffsetCommitResponse, 9)
        assert disk.reached.wait(30)
        cluster.run(cluster.cluster.move_coordinator("moving", 2))
        # Turns of the loop in which the new coordinator could load what is there so far.
        for _ in range(5):
            cluster.ask(lambda running: running.registry.alive())
        disk.go_on.set()
        acknowledged = not error_of(answer.result())
        assert committed(new) == 2 if acknowledged else committed(new) in (1, 2)


def test_what_was_gathered_behind_a_round_that_failed_is_gone(
    tmp_path: Path, disk: SlowDisk
) -> None:
    with (
        BackgroundCluster(1, tmp_path, CONFIG) as cluster,
        WireClient(*cluster.address()) as client,
        WireClient(*cluster.address()) as other,
        ThreadPoolExecutor(2) as beside,
    ):
        topic, _ = new_topic(client)
        cluster.ask(lambda running: running.partitions.offsets_partition("moving"))
        assert not error_of(client.ask(commit(topic, 1), OffsetCommitResponse, 9))
        disk.full = True
        disk.busy.set()
        first = beside.submit(client.ask, commit(topic, 2), OffsetCommitResponse, 9)
        assert disk.reached.wait(30)
        second = beside.submit(other.ask, commit(topic, 3), OffsetCommitResponse, 9)
        while cluster.ask(lambda running: running.brokers[1].requests[ApiKey.OFFSET_COMMIT]) < 3:
            pass
        disk.go_on.set()
        assert error_of(first.result()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert error_of(second.result()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert committed(client) == 1
        assert not error_of(client.ask(commit(topic, 4), OffsetCommitResponse, 9))
    with (
        BackgroundCluster(1, tmp_path, CONFIG) as cluster,
        WireClient(*cluster.address()) as client,
    ):
        assert committed(client) == 4
