"""The consumer protocol (KIP-848) by stock clients: librdkafka and Java, on our cluster and on Apache Kafka.

A story is told on each cluster by each client; what a description shows at its ends must be the same. So must
be the records: both logs are read by Kafka's own tool and compared.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

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
from tests.compat import setting
from tests.compat.clients.confluent import ConfluentClient
from tests.compat.consumer_conversations import beat
from tests.compat.java import JavaTools
from tests.compat.members import Client, Java, Librdkafka, Member, java, patient
from tests.kit.kafka import KafkaCluster
from tests.kit.plugin import require_kafka
from tests.kit.ports import free_port
from tests.kit.wire_client import WireClient

pytestmark = pytest.mark.kafka

#: Rebalances in tenths of seconds; Kafka has to be told that this is allowed. A session is so long that a
#: slow machine does not end it while a broker starts.
FAST = {
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.session.timeout.ms": "20000",
    "group.consumer.assignment.interval.ms": "0",
}
KAFKA = FAST | {
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "20000",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    # A broker that was killed is let in again when this has passed.
    "broker.session.timeout.ms": "3000",
}
#: A coordinator that is on its way.
_LATER = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


class World(NamedTuple):
    """A cluster, and what can happen to it."""

    bootstrap: str
    #: Have another broker coordinate a group.
    move: Callable[[str], None]
    #: kill -9 of the broker that coordinates a group, and its next start.
    kill: Callable[[str], None]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    with java(tmp_path_factory.mktemp("java")) as running:
        yield running


@pytest.fixture(params=["librdkafka", "java"])
def client(request: pytest.FixtureRequest, jvm: Java) -> Client:
    return jvm if request.param == "java" else Librdkafka()


@pytest.fixture(scope="module")
def cluster(directory: Path) -> Iterator[EmbeddedCluster]:
    config: dict[str, str | int | bool] = dict(FAST)
    with EmbeddedCluster(2, data_dir=directory, config=config) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    require_kafka()
    with KafkaCluster(brokers=2, config=KAFKA) as kafka:
        yield kafka


@pytest.fixture
def ours(cluster: EmbeddedCluster) -> World:
    def move(group: str) -> None:
        to = 3 - cluster.coordinator_of(group)
        cluster.move_coordinator(group, to)
        assert cluster.coordinator_of(group) == to

    return World(cluster.bootstrap_servers, move, lambda _: None)


@pytest.fixture
def theirs(kafka: KafkaCluster, jvm: Java) -> World:
    def node(group: str) -> int:
        with coordinator(kafka.bootstrap, group) as client:
            return kafka.addresses.index(client.address)

    def move(group: str) -> None:
        to = 1 - node(group)
        jvm.move(kafka.bootstrap, "__consumer_offsets", to)
        patient(lambda: node(group) == to)

    def kill(group: str) -> None:
        victim = node(group)
        kafka.kill_broker(victim)
        kafka.start_broker(victim)

    return World(kafka.bootstrap, move, kill)


def wire(bootstrap: str) -> WireClient:
    host, port = bootstrap.split(",", maxsplit=1)[0].split(":")
    return WireClient(host, int(port))


def described(bootstrap: str, group: str) -> DescribedGroup:
    """From whichever broker coordinates the group."""
    with coordinator(bootstrap, group) as client:
        request = ConsumerGroupDescribeRequest(group_ids=(group,))
        (found,) = client.ask(request, ConsumerGroupDescribeResponse, 1).groups
    return found


def settled(
    bootstrap: str,
    group: str,
    members: list[Member],
    when: Callable[[DescribedGroup], bool],
) -> DescribedGroup:
    """Let members live until the group is as it should be."""
    seen: list[DescribedGroup] = []

    def done() -> bool:
        for member in members:
            member.live()
        seen[:] = [described(bootstrap, group)]
        return when(seen[0])

    patient(done, lambda: seen)
    return seen[0]


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
    """A connection to the broker that coordinates a group, as soon as one does."""
    found: list[WireClient] = []

    def done() -> bool:
        for each in bootstrap.split(","):
            client = wire(each)
            request = ConsumerGroupDescribeRequest(group_ids=(group,))
            (said,) = client.ask(request, ConsumerGroupDescribeResponse, 1).groups
            if said.error_code not in _LATER:
                found.append(client)
                return True
            client.close()
        return False

    patient(done)
    return found[0]


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


class Stage(ExitStack):
    """A group and its members, who leave at the end."""

    def __init__(self, world: World, client: Client, name: str, partitions: int = 4) -> None:
        super().__init__()
        self.bootstrap = world.bootstrap
        self.client = client
        self.group = self.topic = f"{name}-{client.name}"
        self.told: list[dict[str, Any]] = []
        make_topic(self.bootstrap, self.topic, partitions)

    def join(self, client_id: str, **more: str) -> Member:
        config = {"client.id": client_id} | more
        member = self.client.join(self.bootstrap, self.group, self.topic, **config)
        self.callback(member.close)
        return member

    def produce(self, partitions: int) -> None:
        """A record for each partition."""
        with ConfluentClient(self.bootstrap) as client:
            client.produce(self.topic, [b"value"] * partitions, partitions)

    def look(self, members: list[Member], when: Callable[[DescribedGroup], bool]) -> DescribedGroup:
        found = settled(self.bootstrap, self.group, members, when)
        self.told.append(picture(found))
        return found


def owns(member: Member, partitions: int) -> bool:
    """Whether the member knows of that many partitions of its own."""
    member.live()
    return member.assigned() == partitions


# Stories


def life(world: World, client: Client) -> list[dict[str, Any]]:
    """Join, rebalance, growth, a static restart, leaving: the pictures at each rest."""
    with Stage(world, client, "life") as stage:
        one = stage.join("one")
        stage.look([one], stable(1))
        two = stage.join("two")
        stage.look([one, two], stable(2))
        grow_topic(world.bootstrap, stage.topic, 6)
        stage.look([one, two], lambda each: stable(2)(each) and each.group_epoch == 4)
        two.close()
        stage.look([one], stable(1))
        static = stage.join("static", **{"group.instance.id": "seat"})
        stage.look([one, static], stable(2))
        static.close()
        stage.look([one], lambda each: any(member.member_epoch == -2 for member in each.members))
        again = stage.join("static", **{"group.instance.id": "seat"})
        stage.look([one, again], stable(2))
        # The group is stable before the member has read the answer to its join, and a librdkafka that has
        # not read it leaves without a request.
        patient(lambda: owns(again, 3))
    return [*stage.told, picture(described(world.bootstrap, stage.group))]


def migration(world: World, client: Client) -> list[dict[str, Any]]:
    """A classic group takes in a member of the new protocol, and loses it again."""
    classic = {"group.protocol": "classic", "session.timeout.ms": "20000"} | client.classic
    classic |= {"heartbeat.interval.ms": "200"}
    with (
        Stage(world, client, "migration") as stage,
        ConfluentClient(world.bootstrap) as admin,
    ):
        old = stage.join("old", **classic)

        def has_all() -> bool:
            old.live()
            return old.assigned() == 4

        patient(has_all)
        new = stage.join("new")
        stage.look([old, new], stable(2))
        new.close()
        patient(lambda: has_all() and admin.describe(stage.group).state == "Stable")
        return [*stage.told, {"classic": admin.describe(stage.group).state}]


def patterns(world: World, client: Client) -> list[dict[str, Any]]:
    """A subscription by pattern; what its epoch is depends on when the pattern was run."""
    with Stage(world, client, "pattern", 2) as stage:
        stage.topic = f"^pattern-{client.name[:4]}.*"
        one = stage.join("one")
        stage.look([one], lambda each: stable(1)(each) and picture(each)["members"][0][6] == 2)
    (seen,) = stage.told
    return [{name: seen[name] for name in ("state", "assignor", "members")}]


def move(world: World, client: Client) -> list[dict[str, Any]]:
    """Members find the new coordinator, with the epochs and partitions that they had; a third one joins."""
    with Stage(world, client, "move", 6) as stage:
        members = [stage.join(name) for name in ("one", "two")]
        before = stage.look(members, stable(2))
        # A librdkafka that still asks for its offsets while the coordinator moves may never let go of a
        # partition again, on Kafka as well.
        stage.produce(6)
        for member in members:
            member.read(3)
        world.move(stage.group)
        assert stage.look(members, stable(2)) == before
        stage.look([*members, stage.join("three")], stable(3))
    return stage.told


@pytest.mark.parametrize("story", [life, migration, patterns, move])
def test_descriptions_are_kafkas(
    ours: World,
    theirs: World,
    client: Client,
    story: Callable[[World, Client], list[dict[str, Any]]],
) -> None:
    assert story(ours, client) == story(theirs, client)


# Crashes


def test_members_that_crash(ours: World, theirs: World, jvm: Java, tmp_path: Path) -> None:
    """kill -9 of one of two members: its session ends, and the other has everything."""
    clients: list[Client] = [Librdkafka(), jvm]
    with ExitStack() as stack:
        stages = [
            stack.enter_context(Stage(world, client, "crash"))
            for client in clients
            for world in (ours, theirs)
        ]
        survivors = [stage.join("one") for stage in stages]
        for stage, survivor in zip(stages, survivors, strict=True):
            stage.look([survivor], stable(1))
        victims = []
        for client, pair in zip(clients, (stages[:2], stages[2:]), strict=True):
            joins = [(stage.bootstrap, stage.group, stage.topic, "two") for stage in pair]
            victims.append(client.victim(*joins, directory=tmp_path))
            stack.callback(victims[-1].kill)
        for stage in stages:
            stage.look(survivors, stable(2))
        for victim in victims:
            victim.kill()
        for stage in stages:
            stage.look(survivors, stable(1))
    by_librdkafka, by_java = [[stage.told for stage in pair] for pair in (stages[:2], stages[2:])]
    assert by_librdkafka[0] == by_librdkafka[1]
    assert by_java[0] == by_java[1]


def serve(port: int, directory: Path) -> subprocess.Popen[str]:
    command = [str(Path(sys.executable).parent / "coterie"), "server", "--port", str(port)]
    command += ["--data-dir", str(directory)]
    for name, value in FAST.items():
        command += ["--set", f"{name}={value}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


@pytest.fixture
def served(tmp_path: Path) -> Iterator[World]:
    """Our server as a process of its own."""
    port = free_port()
    running = [serve(port, tmp_path / "served")]

    def kill(_: str) -> None:
        os.kill(running[0].pid, signal.SIGKILL)
        running[0].communicate()
        running[0] = serve(port, tmp_path / "served")

    yield World(f"127.0.0.1:{port}", lambda _: None, kill)
    running[0].terminate()
    running[0].communicate()


def killed(world: World, clients: list[Client]) -> list[list[dict[str, Any]]]:
    """Members go on where they were: same epoch, same partitions, and their commits are there."""
    with ExitStack() as stack:
        stages = [stack.enter_context(Stage(world, client, "killed")) for client in clients]
        members = [stage.join("one") for stage in stages]
        before = []
        for stage, member in zip(stages, members, strict=True):
            stage.produce(4)
            before.append(stage.look([member], stable(1)))
            member.read(4)
            member.commit()
        world.kill(stages[0].group)
        for stage, member, was in zip(stages, members, before, strict=True):
            assert stage.look([member], stable(1)) == was
            assert member.committed() == [1, 1, 1, 1]
            member.commit()
            stage.look([*members, stage.join("two")], stable(2))
        return [stage.told for stage in stages]


def test_kill_9_of_the_server(served: World, theirs: World, jvm: Java) -> None:
    clients: list[Client] = [Librdkafka(), jvm]
    assert killed(served, clients) == killed(theirs, clients)


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
    # Kafka renames what was moved away, and removes it later.
    logs = [each for each in root.rglob("__consumer_offsets-*/*.log") if each.stat().st_size]
    files = [str(each) for each in logs if not each.parent.name.endswith("-delete")]
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


def test_records_are_kafkas(
    cluster: EmbeddedCluster, kafka: KafkaCluster, directory: Path, tmp_path: Path
) -> None:
    """Both logs, decoded by Kafka's own tool: the same records in the same order."""
    logs = []
    for bootstrap, root in ((cluster.bootstrap_servers, directory), (kafka.bootstrap, kafka.home)):
        make_topic(bootstrap, "records", 4)
        with coordinator(bootstrap, "records") as client:
            script(client, "records")
        logs.append(dumped(JavaTools(bootstrap, tmp_path), root, "records"))
    ours, theirs = logs
    assert len(ours) > 40
    assert ours == theirs
