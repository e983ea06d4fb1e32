"""Times of commits, read from the offsets topic: what counts, what does not, and who may not look."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from coterie.cli import commit_times
from coterie.cli.commit_times import CommitTimes, read_commit_times
from coterie.client import AdminClient
from coterie.error_codes import ErrorCode
from coterie.testing import EmbeddedCluster
from tests.unit.cli.conftest import runner


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("t", partitions=1)
        yield cluster


def times(cluster: EmbeddedCluster, *groups: str) -> CommitTimes:
    seen = {"expected": 0, "read": 0}

    def advance(count: int) -> None:
        seen["read"] += count

    async def read() -> CommitTimes:
        async with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            return await read_commit_times(
                admin, groups, lambda n: seen.update(expected=n), advance
            )

    found = asyncio.run(read())
    assert seen["read"] == seen["expected"]
    return found


@pytest.mark.parametrize("with_numpy", [True, False])
def test_the_last_commit_counts_and_deleted_ones_do_not(
    with_numpy: bool, cluster: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_numpy:
        monkeypatch.setattr(commit_times, "find_spec", lambda _: None)
    tool = runner(tmp_path, cluster.bootstrap_servers)
    cluster.scene("stale_group", "old", topic="t", days=100)
    cluster.scene("stale_group", "renewed", topic="t", days=100)
    cluster.scene("stale_group", "renewed", topic="t", days=2)
    cluster.scene("stale_group", "gone", topic="t", days=100)
    assert tool("groups", "delete", "gone", "--execute").returncode == 0
    found = times(cluster, "old", "renewed", "gone")
    old, renewed = found.last("old"), found.last("renewed")
    assert old is not None
    assert renewed is not None
    assert 97 < (renewed - old) / 86_400_000 < 99
    assert found.last("gone") is None


@pytest.mark.parametrize("with_numpy", [True, False])
def test_commits_of_aborted_transactions_never_happened(
    with_numpy: bool, cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_numpy:
        monkeypatch.setattr(commit_times, "find_spec", lambda _: None)
    servers = {"bootstrap.servers": cluster.bootstrap_servers}
    name = f"transactions-{with_numpy}"
    producer = Producer(servers | {"transactional.id": name})
    producer.init_transactions(20)
    groups = {}
    for end in ("commit_transaction", "abort_transaction"):
        group = f"{name}-{end}"
        consumer = Consumer(servers | {"group.id": group})
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [TopicPartition("t", 0, 7)], consumer.consumer_group_metadata(), 20
        )
        getattr(producer, end)(20)
        consumer.close()
        groups[end] = group
    found = times(cluster, *groups.values())
    assert found.last(groups["commit_transaction"]) is not None
    assert found.last(groups["abort_transaction"]) is None


def test_only_the_partitions_of_the_groups_are_read(cluster: EmbeddedCluster) -> None:
    cluster.scene("stale_group", "one", topic="t")
    cluster.scene("stale_group", "another", topic="t")
    found = times(cluster, "one")
    assert found.last("one") is not None
    assert found.last("another") is None


def test_no_commit_at_all_is_no_trouble(tmp_path: Path) -> None:
    with EmbeddedCluster() as fresh:
        assert times(fresh, "nobody").times == {}
        done = runner(tmp_path, fresh.bootstrap_servers)("groups", "list", "--idle-for", "1d")
        assert done.returncode == 0


@pytest.mark.parametrize("api", ["ListOffsets", "Fetch"])
def test_who_may_not_read_the_topic_is_told_so(api: str, tmp_path: Path) -> None:
    with EmbeddedCluster() as cluster:
        cluster.scene("stale_group", "old")
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        cluster.inject(api, error_code=code, times=None)
        tool = runner(tmp_path, cluster.bootstrap_servers)
        done = tool("groups", "delete", "--idle-for", "1d", "--execute", "--timeout", "5s")
        assert done.returncode == 1
        assert "times of commits are in __consumer_offsets, and you may not read" in done.stderr
        assert len(json.loads(tool("groups", "list", "-o", "json").stdout)) == 1


def test_half_a_log_is_not_believed(tmp_path: Path) -> None:
    """A partition that cannot be read says nothing about its groups; the others do."""
    with EmbeddedCluster(brokers=2) as cluster:
        for number in range(8):
            cluster.scene("stale_group", f"old-{number}")
        cluster.inject("Fetch", broker=2, error_code=ErrorCode.KAFKA_STORAGE_ERROR, times=None)
        tool = runner(tmp_path, cluster.bootstrap_servers)
        done = tool("groups", "list", "--idle-for", "1d", "-o", "name", "--timeout", "2s")
        assert done.returncode == 3
        assert 0 < len(done.stdout.split()) < 8
        assert "Incomplete: partition __consumer_offsets-" in done.stderr
