"""The kit's real Apache Kafka: each version starts, answers as that version, and is gone after.

What this is: proof that tests/kit/kafka.py does what other tests lean on.
What this is not: a test of anything under src/.
Who calls it: pytest.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit import kafka as kafka_module
from tests.kit import probe, processes
from tests.kit.kafka import KafkaCluster, KafkaStartError
from tests.kit.plugin import KafkaClusterFactory, require_kafka
from tests.kit.ports import hold_ports

pytestmark = pytest.mark.kafka

REPOSITORY = Path(__file__).parents[2]
CONSUMER_GROUPS = {
    "4.3.0": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "3.9.1": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "2.5.1": "kafka.admin.ConsumerGroupCommand",
}
# Starts a cluster, says the pids of its processes, and waits to be killed.
CHILD = """
import sys
from tests.kit.kafka import KafkaCluster
cluster = KafkaCluster(sys.argv[1], 1)
cluster.start()
sys.stdout.write(f"{cluster.home}\\n{' '.join(map(str, cluster.pids))}\\n")
sys.stdout.flush()
sys.stdin.read()
"""


def until(condition: Callable[[], bool], timeout: float = 60.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("version", "brokers", "list_groups", "find_coordinator"),
    [("4.3.0", 1, 5, 6), ("4.3.0", 3, 5, 6), ("3.9.1", 1, 5, 6), ("2.5.1", 1, 3, 3)],
)
def test_answers_as_its_version(
    version: str, brokers: int, list_groups: int, find_coordinator: int
) -> None:
    require_kafka(version)
    with KafkaCluster(version, brokers) as cluster:
        pids, home = cluster.pids, cluster.home
        assert len(cluster.addresses) == brokers
        assert cluster.bootstrap == ",".join(f"127.0.0.1:{port}" for _, port in cluster.addresses)
        for i, address in enumerate(cluster.addresses):
            versions = probe.api_versions(address)
            assert versions[probe.API_LIST_GROUPS][1] == list_groups
            assert versions[probe.API_FIND_COORDINATOR][1] == find_coordinator
            assert probe.cluster_view(address).brokers == dict(enumerate(cluster.addresses))
            assert cluster.log_dir(i).is_dir()
            assert cluster.server_log(i).stat().st_size > 0
        assert len(pids) >= brokers
        assert all(processes.alive(pid) for pid in pids)
    assert not any(processes.alive(pid) for pid in pids)
    assert not home.exists()
    assert not cluster.pids
    assert not cluster.addresses


@pytest.mark.parametrize("version", sorted(CONSUMER_GROUPS))
def test_runs_kafkas_own_tools(kafka_cluster: KafkaClusterFactory, version: str) -> None:
    cluster = kafka_cluster(version, 1)
    run = cluster.run_tool(
        CONSUMER_GROUPS[version], "--bootstrap-server", cluster.bootstrap, "--list"
    )
    # What it lists depends on the tests that used the cluster before.
    assert (run.returncode, run.stderr.strip()) == (0, "")


def test_the_dump_tool_is_there(kafka: KafkaCluster) -> None:
    run = kafka.run_tool("org.apache.kafka.tools.DumpLogSegments", "--help")
    assert "--offsets-decoder" in run.stdout + run.stderr


@pytest.mark.parametrize("version", ["4.3.0", "2.5.1"])
def test_a_killed_broker_comes_back_on_its_port_and_data(version: str) -> None:
    require_kafka(version)
    with KafkaCluster(version, 1) as cluster:
        address, (pid, *_) = cluster.addresses[0], cluster.pids
        meta = (cluster.log_dir(0) / "meta.properties").read_bytes()
        cluster.kill_broker(0)
        assert not processes.alive(pid)
        assert not cluster.is_running(0)
        with pytest.raises(probe.ProbeError):
            probe.api_versions(address)
        # A thread that ends must not take the broker it started with it.
        starter = threading.Thread(target=cluster.start_broker, args=(0,))
        starter.start()
        starter.join()
        assert cluster.addresses[0] == address
        assert probe.cluster_view(address).brokers == {0: address}
        assert _cluster_id((cluster.log_dir(0) / "meta.properties").read_bytes()) == _cluster_id(
            meta
        )


def test_the_rest_of_three_go_on_without_one() -> None:
    require_kafka()
    with KafkaCluster("4.3.0", 3) as cluster:
        cluster.kill_broker(0)
        until(lambda: all(0 not in seen for seen in brokers_seen(cluster, 1, 2)))
        cluster.start_broker(0)
        until(lambda: all(len(seen) == 3 for seen in brokers_seen(cluster, 0, 1, 2)))
        cluster.kill_broker(1, orderly=True)
        assert not cluster.is_running(1)
        until(lambda: all(1 not in seen for seen in brokers_seen(cluster, 0, 2)))


def brokers_seen(cluster: KafkaCluster, *of: int) -> list[dict[int, tuple[str, int]]]:
    return [probe.cluster_view(cluster.addresses[i]).brokers for i in of]


def test_a_taken_port_is_tried_again_with_others(monkeypatch: pytest.MonkeyPatch) -> None:
    require_kafka()
    calls = 0
    with socket.create_server(("127.0.0.1", 0)) as taken:

        def one_taken_at_first(count: int) -> list[socket.socket]:
            nonlocal calls
            calls += 1
            held = hold_ports(count)
            if calls == 1:
                held[0].close()
                # Closing a duplicate of the listening socket does not free its port.
                held[0] = taken.dup()
            return held

        monkeypatch.setattr(kafka_module, "hold_ports", one_taken_at_first)
        with KafkaCluster("4.3.0", 1) as cluster:
            assert calls == 2
            assert cluster.addresses[0][1] != taken.getsockname()[1]


@pytest.mark.parametrize("version", ["4.3.0", "2.5.1"])
def test_a_broker_that_does_not_start_shows_its_log(version: str) -> None:
    require_kafka(version)
    cluster = KafkaCluster(version, 1, {"log.retention.check.interval.ms": "0"})
    with pytest.raises(KafkaStartError, match=r"log\.retention\.check\.interval\.ms"):
        cluster.start()
    assert cluster.pids == []


@pytest.mark.parametrize("version", ["4.3.0", "2.5.1"])
def test_a_killed_test_run_leaves_no_broker(version: str) -> None:
    require_kafka(version)
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, version],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    pids: list[int] = []
    try:
        assert child.stdout is not None
        home = Path(child.stdout.readline().strip())
        pids = [int(pid) for pid in child.stdout.readline().split()]
        assert pids
        assert all(processes.alive(pid) for pid in pids)
        child.send_signal(signal.SIGKILL)
        child.wait()
        until(lambda: not any(processes.alive(pid) for pid in pids))
    finally:
        child.kill()
        child.wait()
        child.communicate()
        for pid in filter(processes.alive, pids):
            os.kill(pid, signal.SIGKILL)
    # Its directory stays: nobody was left to remove it.
    shutil.rmtree(home)


def _cluster_id(meta: bytes) -> bytes:
    return next(line for line in meta.splitlines() if line.startswith(b"cluster.id="))
