"""The consumer protocol (KIP-848) by stock clients: librdkafka and Java, on our cluster and on Apache Kafka.

A story is told twice, once on each; what a description shows at its ends must be the same. So must be the
records: both logs are read by Kafka's own tool and compared.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
    DescribedGroup,
)
from coterie.protocol.messages.groups import DeleteGroupsRequest, DeleteGroupsResponse
from coterie.protocol.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from coterie.testing import EmbeddedCluster
from tests.compat import test_groups_over_a_socket as setting
from tests.compat.clients.confluent import ConfluentClient, _quiet
from tests.compat.consumer_conversations import beat
from tests.compat.java import JavaTools
from tests.compat.scenarios import unique
from tests.kit import kafka_jars, processes
from tests.kit.kafka import KafkaCluster
from tests.kit.plugin import require_kafka
from tests.kit.wire_client import WireClient

#: Rebalances in tenths of seconds; Kafka has to be told that this is allowed.
FAST = {
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.assignment.interval.ms": "0",
}
KAFKA = FAST | {
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "6000",
    "offsets.topic.num.partitions": "1",
}
_PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def cluster(directory: Path) -> Iterator[EmbeddedCluster]:
    config: dict[str, str | int | bool] = dict(FAST)
    with EmbeddedCluster(2, data_dir=directory, config=config) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    require_kafka()
    with KafkaCluster(config=KAFKA) as kafka:
        yield kafka


class Reader:
    """A consumer of librdkafka under the new protocol, or the classic one."""

    def __init__(self, bootstrap: str, group: str, *topics: str, **more: str) -> None:
        config = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        self.inner = Consumer(config | more, logger=_quiet)
        self.inner.subscribe(list(topics))

    def close(self) -> None:
        self.inner.close()


def wire(bootstrap: str) -> WireClient:
    host, port = bootstrap.split(",", maxsplit=1)[0].split(":")
    return WireClient(host, int(port))


def address(kafka: KafkaCluster) -> str:
    host, port = kafka.addresses[0]
    return f"{host}:{port}"


def described(bootstrap: str, group: str) -> DescribedGroup:
    """From whichever broker coordinates the group."""
    with coordinator(bootstrap, group) as client:
        request = ConsumerGroupDescribeRequest(group_ids=(group,))
        (found,) = client.ask(request, ConsumerGroupDescribeResponse, 1).groups
    return found


def settled(
    bootstrap: str,
    group: str,
    readers: list[Reader],
    when: Callable[[DescribedGroup], bool],
) -> DescribedGroup:
    """Let members live until the group is as it should be."""
    end = time.monotonic() + _PATIENCE_S
    while True:
        for reader in readers:
            reader.inner.poll(0.02)
        group_ = described(bootstrap, group)
        if when(group_):
            return group_
        assert time.monotonic() < end, group_


def stable(members: int) -> Callable[[DescribedGroup], bool]:
    return lambda group: group.group_state == "Stable" and len(group.members) == members


def picture(group: DescribedGroup) -> dict[str, Any]:
    """What is determined of a description: who made which id, and which half is whose, is not."""
    return {
        "state": group.group_state,
        "epochs": (group.group_epoch, group.assignment_epoch),
        "assignor": group.assignor_name,
        "members": sorted(
            (
                member.client_id,
                member.instance_id or "",
                member.member_epoch,
                member.member_type,
                member.subscribed_topic_names,
                member.subscribed_topic_regex or "",
                sum(len(each.partitions) for each in member.assignment.topic_partitions),
                member.assignment == member.target_assignment,
            )
            for member in group.members
        ),
    }


def coordinator(bootstrap: str, group: str) -> WireClient:
    """A connection to the broker that coordinates a group."""
    for each in bootstrap.split(","):
        client = wire(each)
        request = ConsumerGroupDescribeRequest(group_ids=(group,))
        (found,) = client.ask(request, ConsumerGroupDescribeResponse, 1).groups
        if found.error_code != ErrorCode.NOT_COORDINATOR:
            return client
        client.close()
    raise AssertionError(group)


def make_topic(bootstrap: str, topic: str, partitions: int) -> None:
    with wire(bootstrap) as client:
        request = CreateTopicsRequest(topics=(CreatableTopic(topic, partitions, 1),))
        answer = client.ask(request, CreateTopicsResponse, 7)
        assert answer.topics[0].error_code == ErrorCode.NONE
        setting.find_coordinators(client, "any")
    # Kafka's coordinator learns of a new topic a moment after its creation was answered.
    for attempt in range(100):
        group = f"visitor-{topic}-{attempt}"
        with coordinator(bootstrap, group) as client:
            joins = beat(group, "visitor", 0, subscribed_topic_names=(topic,))
            told = client.ask(joins, ConsumerGroupHeartbeatResponse, 1).assignment
            client.ask(beat(group, "visitor", -1), ConsumerGroupHeartbeatResponse, 1)
        if told is not None and told.topic_partitions:
            return
    raise AssertionError(topic)


def grow_topic(bootstrap: str, topic: str, partitions: int) -> None:
    with wire(bootstrap) as client:
        request = CreatePartitionsRequest(
            topics=(CreatePartitionsTopic(topic, partitions, assignments=None),), timeout_ms=10_000
        )
        answer = client.ask(request, CreatePartitionsResponse, 3)
        assert answer.results[0].error_code == ErrorCode.NONE


def life(bootstrap: str) -> list[dict[str, Any]]:
    """Join, rebalance, growth, a static restart, leaving: the pictures at each rest."""
    topic, group = "life", "life"
    make_topic(bootstrap, topic, 4)
    told: list[dict[str, Any]] = []
    with ExitStack() as stack:

        def member(client_id: str, **more: str) -> Reader:
            reader = Reader(bootstrap, group, topic, **{"client.id": client_id} | more)
            stack.callback(reader.close)
            return reader

        def look(readers: list[Reader], when: Callable[[DescribedGroup], bool]) -> None:
            told.append(picture(settled(bootstrap, group, readers, when)))

        one = member("one")
        look([one], stable(1))
        two = member("two")
        look([one, two], stable(2))
        grow_topic(bootstrap, topic, 6)
        look([one, two], lambda each: stable(2)(each) and each.group_epoch == 4)
        two.close()
        look([one], stable(1))
        static = member("static", **{"group.instance.id": "seat"})
        look([one, static], stable(2))
        static.close()
        look([one], lambda each: any(member.member_epoch == -2 for member in each.members))
        again = member("static", **{"group.instance.id": "seat"})
        look([one, again], stable(2))
    told.append(picture(described(bootstrap, group)))
    return told


def migration(bootstrap: str) -> list[dict[str, Any]]:
    """A classic group takes in a member of the new protocol, and loses it again."""
    topic, group = "migration", "migration"
    make_topic(bootstrap, topic, 4)
    classic = {"group.protocol": "classic", "client.id": "old", "session.timeout.ms": "6000"}
    classic |= {
        "heartbeat.interval.ms": "200",
        "partition.assignment.strategy": "cooperative-sticky",
    }
    with ExitStack() as stack:
        old = Reader(bootstrap, group, topic, **classic)
        stack.callback(old.close)
        end = time.monotonic() + _PATIENCE_S
        while len(old.inner.assignment()) < 4:
            old.inner.poll(0.05)
            assert time.monotonic() < end
        new = Reader(bootstrap, group, topic, **{"client.id": "new"})
        stack.callback(new.close)
        told = [picture(settled(bootstrap, group, [old, new], stable(2)))]
        new.close()
        with ConfluentClient(bootstrap) as client:
            end = time.monotonic() + _PATIENCE_S
            while len(old.inner.assignment()) < 4 or client.describe(group).state != "Stable":
                old.inner.poll(0.05)
                assert time.monotonic() < end
            told.append({"classic": client.describe(group).state})
    return told


def patterns(bootstrap: str) -> list[dict[str, Any]]:
    make_topic(bootstrap, "pattern-1", 2)
    reader = Reader(bootstrap, "patterns", "^pattern-[0-9]", **{"client.id": "one"})
    try:
        wanted = 2

        def has_them(group: DescribedGroup) -> bool:
            return stable(1)(group) and picture(group)["members"][0][6] == wanted

        first = picture(settled(bootstrap, "patterns", [reader], has_them))
        return [{name: first[name] for name in ("state", "assignor", "members")}]
    finally:
        reader.close()


@pytest.mark.kafka
@pytest.mark.parametrize("story", [life, migration, patterns])
def test_descriptions_are_kafkas(
    cluster: EmbeddedCluster,
    kafka: KafkaCluster,
    story: Callable[[str], list[dict[str, Any]]],
) -> None:
    assert story(cluster.bootstrap_servers) == story(address(kafka))


# Moves and crashes


def test_the_coordinator_moves(cluster: EmbeddedCluster) -> None:
    """Members find the new one, with the epochs and partitions that they had."""
    topic, group, bootstrap = unique("topic"), unique("group"), cluster.bootstrap_servers
    make_topic(bootstrap, topic, 4)
    readers = [Reader(bootstrap, group, topic) for _ in range(2)]
    try:
        before = settled(bootstrap, group, readers, stable(2))
        to = 3 - cluster.coordinator_of(group)
        cluster.move_coordinator(group, to)
        assert cluster.coordinator_of(group) == to
        beats = cluster.requests("ConsumerGroupHeartbeat")
        while cluster.requests("ConsumerGroupHeartbeat") < beats + 6:
            for reader in readers:
                reader.inner.poll(0.05)
        assert settled(bootstrap, group, readers, stable(2)) == before
    finally:
        for reader in readers:
            reader.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def serve(port: int, directory: Path) -> subprocess.Popen[str]:
    command = [str(Path(sys.executable).parent / "coterie"), "server", "--port", str(port)]
    command += ["--data-dir", str(directory)]
    for name, value in FAST.items():
        command += ["--set", f"{name}={value}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


def test_kill_9_of_the_server(tmp_path: Path) -> None:
    """A member goes on where it was: same epoch, same partitions, and its commit is there."""
    port = free_port()
    bootstrap = f"127.0.0.1:{port}"
    server = serve(port, tmp_path)
    reader: Reader | None = None
    try:
        make_topic(bootstrap, "topic", 4)
        with ConfluentClient(bootstrap) as client:
            client.produce("topic", [b"a", b"b", b"c", b"d"], 4)
        reader = Reader(bootstrap, "group", "topic")
        before = settled(bootstrap, "group", [reader], stable(1))
        read = 0
        while read < 4:
            read += len(reader.inner.consume(4, 0.1))
        reader.inner.commit(asynchronous=False)
        os.kill(server.pid, signal.SIGKILL)
        server.communicate()
        server = serve(port, tmp_path)
        with wire(bootstrap) as client_:
            setting.find_coordinators(client_, "group")
        assert settled(bootstrap, "group", [reader], stable(1)) == before
        committed = reader.inner.committed(reader.inner.assignment(), timeout=_PATIENCE_S)
        assert [each.offset for each in committed] == [1, 1, 1, 1]
        reader.inner.commit(asynchronous=False, offsets=committed)
    finally:
        if reader is not None:
            reader.close()
        server.terminate()
        server.communicate()


@pytest.mark.kafka
def test_java_consumers(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """One reads, another shares with it, dies by kill -9, and its part comes back."""
    topic, group, bootstrap = unique("topic"), unique("group"), cluster.bootstrap_servers
    make_topic(bootstrap, topic, 4)
    jars = kafka_jars.resolve("4.3.0")
    require_kafka("4.3.0")
    command = [jars.java, "-Xmx128m", "-cp", jars.classpath]
    command += ["org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", bootstrap]
    command += ["--topic", topic, "--group-id", group, "--group-protocol", "consumer"]
    outputs = [tmp_path / "one.txt", tmp_path / "two.txt"]
    alive = [processes.spawn(command, output) for output in outputs]
    try:
        shared = settled(bootstrap, group, [], stable(2))
        assert [len(each.assignment.topic_partitions[0].partitions) for each in shared.members] == [
            2,
            2,
        ]
        alive[1].kill()
        alone = settled(bootstrap, group, [], stable(1))
        assert alone.group_epoch == shared.group_epoch + 1
        (left,) = alone.members
        assert left.assignment.topic_partitions[0].partitions == (0, 1, 2, 3)
    finally:
        for process in alive:
            processes.end(process)
    events = [json.loads(line) for line in outputs[0].read_text().splitlines() if line[:1] == "{"]
    assert "partitions_assigned" in {each["name"] for each in events}


# Records


def script(client: WireClient, group: str) -> None:
    """A conversation whose records are determined."""

    def say(member: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        answer = client.ask(beat(group, member, epoch, **fields), ConsumerGroupHeartbeatResponse, 1)
        assert answer.error_code == 0, answer
        return answer

    names = {"subscribed_topic_names": ("records",)}
    say("one", 0, **names)
    say("two", 0, **names)
    told = say("one", 2).assignment
    assert told is not None
    say("one", 2, topic_partitions=told.topic_partitions)
    say("two", 3)
    say("two", 3, server_assignor="range", rack_id="east")
    say("one", -1)
    say("two", 3)
    say("two", -1)
    say("three", 0, instance_id="seat", **names)
    say("three", -2, instance_id="seat")
    say("four", 0, instance_id="seat", **names)
    say("four", -1, instance_id="seat")
    answer = client.ask(DeleteGroupsRequest(groups_names=(group,)), DeleteGroupsResponse, 2)
    assert answer.results[0].error_code == ErrorCode.NONE


def dumped(tools: JavaTools, root: Path, group: str) -> list[tuple[str, Any]]:
    files = [str(each) for each in root.rglob("__consumer_offsets-*/*.log") if each.stat().st_size]
    said = tools.run("dump-log", "--offsets-decoder", "--files", ",".join(files))
    assert said.code == 0
    found = []
    for line in said.lines:
        match = re.search(r" key: (\{.*\}) payload: (.*)$", line)
        if match is None or json.loads(match[1])["data"].get("groupId") != group:
            continue
        value = None if match[2] == "<DELETE>" else _steady(json.loads(match[2])["data"])
        found.append((match[1], value))
    return found


def _steady(value: Any) -> Any:
    """Without what differs from run to run: ids of topics, times, and hashes of both."""
    if isinstance(value, dict):
        volatile = {"topicId", "assignmentTimestamp", "metadataHash"}
        return {key: key if key in volatile else _steady(each) for key, each in value.items()}
    return [_steady(each) for each in value] if isinstance(value, list) else value


@pytest.mark.kafka
def test_records_are_kafkas(
    cluster: EmbeddedCluster, kafka: KafkaCluster, directory: Path, tmp_path: Path
) -> None:
    """Both logs, decoded by Kafka's own tool: the same records in the same order."""
    logs = []
    assert kafka._home is not None
    for bootstrap, root in ((cluster.bootstrap_servers, directory), (address(kafka), kafka._home)):
        make_topic(bootstrap, "records", 4)
        with coordinator(bootstrap, "records") as client:
            script(client, "records")
        logs.append(dumped(JavaTools(bootstrap, tmp_path), root, "records"))
    ours, theirs = logs
    assert len(ours) > 40
    assert ours == theirs
