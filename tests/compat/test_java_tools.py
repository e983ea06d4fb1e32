"""The tools that come with Apache Kafka 4.3.0 do their work on our cluster."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.testing import EmbeddedCluster
from tests.compat.clients.confluent import ConfluentClient
from tests.compat.java import JavaTools, Said, at_once
from tests.compat.scenarios import unique
from tests.kit.cli_replay import java_driver
from tests.kit.plugin import require_kafka

pytestmark = pytest.mark.kafka

#: Said aloud, since the tools' default may change one day.
CLASSIC = ("--command-property", "group.protocol=classic")


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def tools(
    cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaTools]:
    require_kafka()
    directory = tmp_path_factory.mktemp("tools")
    with java_driver(directory) as driver:
        yield JavaTools(cluster.bootstrap_servers, directory, driver=driver)


def test_topics(tools: JavaTools) -> None:
    topic = unique("topic")
    topics = functools.partial(tools.run, "topics")
    create = topics(
        "--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=99"
    )
    assert (create.code, create.lines) == (0, [f"Created topic {topic}."])
    again, altered = at_once(
        lambda: topics("--create", "--topic", topic),
        lambda: topics("--alter", "--topic", topic, "--partitions", "5"),
    )
    assert (again.code, altered.code, altered.out) == (1, 0, "")
    assert f"Topic '{topic}' already exists." in again.out
    listed, described = at_once(
        lambda: topics("--list"), lambda: topics("--describe", "--topic", topic)
    )
    assert topic in listed.lines
    assert "PartitionCount: 5" in described.lines[0]
    assert "Configs: min.insync.replicas=1,retention.ms=99" in described.lines[0]
    assert ["Leader: " in line and "Isr: " in line for line in described.lines[1:]] == [True] * 5
    assert topics("--delete", "--topic", topic).code == 0
    gone = topics("--describe", "--topic", topic)
    assert (gone.code, gone.lines[0]) == (
        1,
        f"Error while executing topic command : Topic '{topic}' does not exist as expected",
    )


def produce_and_consume(tools: JavaTools, topic: str, group: str) -> None:
    typed = "".join(f"{number}:value {number}\n" for number in range(6))
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    assert tools.run("console-producer", "--topic", topic, *keyed, typed=typed).code == 0
    consumed = tools.run(
        "console-consumer", "--topic", topic, "--group", group, "--from-beginning",
        "--max-messages", "6", "--timeout-ms", "60000", *CLASSIC,
    )  # fmt: skip
    assert consumed.code == 0
    assert sorted(consumed.lines) == [f"value {number}" for number in range(6)]


def test_console_clients_and_consumer_groups(tools: JavaTools, cluster: EmbeddedCluster) -> None:
    topic, group = unique("console"), unique("console")
    cluster.create_topic(topic, 2)
    produce_and_consume(tools, topic, group)
    groups = functools.partial(tools.run, "consumer-groups")
    describe = functools.partial(groups, "--describe", "--group", group)
    offsets, states, members, dry, ends = at_once(
        lambda: describe("--offsets", "--verbose"),
        lambda: describe("--state", "--verbose"),
        lambda: describe("--members"),
        lambda: groups("--reset-offsets", "--group", group, "--topic", topic, "--to-latest"),
        lambda: tools.run("get-offsets", "--topic", topic),
    )
    check_empty(group, offsets, states, members)
    assert sum(int(row["NEW-OFFSET"]) for row in dry.table()) == 6
    assert "--execute option is missing" in dry.err
    assert sorted(int(line.rpartition(":")[2]) for line in ends.lines) == sorted(
        int(row["LOG-END-OFFSET"]) for row in offsets.table()
    )
    reset = groups(
        "--reset-offsets", "--group", group, "--all-topics", "--to-earliest", "--execute"
    )
    assert [row["NEW-OFFSET"] for row in reset.table()] == ["0", "0"]
    deleted = groups("--delete-offsets", "--group", group, "--topic", f"{topic}:0")
    assert [row["STATUS"] for row in deleted.table()] == ["Successful"]
    with ConfluentClient(cluster.bootstrap_servers) as client:
        assert client.offsets(group) == {(topic, 1): 0}
    assert groups("--delete", "--group", group).lines == [
        f"Deletion of requested consumer groups ('{group}') was successful."
    ]
    again, missing = at_once(lambda: groups("--delete", "--group", group), describe)
    assert "GroupIdNotFoundException: The group id does not exist." in again.out
    assert f"GroupIdNotFoundException: Group {group} not found." in missing.out


def check_empty(group: str, offsets: Said, states: Said, members: Said) -> None:
    rows = offsets.table()
    assert sorted(row["PARTITION"] for row in rows) == ["0", "1"]
    assert {row["LAG"] for row in rows} == {"0"}
    assert sum(int(row["CURRENT-OFFSET"]) for row in rows) == 6
    assert " Empty " in states.lines[1]
    assert members.table() == []
    for said in (offsets, states, members):
        assert said.code == 0
        assert f"Consumer group '{group}' has no active members." in said.err


def test_consumer_groups_with_members(tools: JavaTools, cluster: EmbeddedCluster) -> None:
    topic, group = unique("live"), unique("live")
    cluster.create_topic(topic, 4)
    cluster.scene("stable_group", group, topic=topic, members=2)
    groups = functools.partial(tools.run, "consumer-groups")
    describe = functools.partial(groups, "--describe", "--group", group)
    listed, by_state, members, state, offsets, deletion, reset = at_once(
        lambda: groups("--list"),
        lambda: groups("--list", "--state", "stable", "--type", "classic"),
        lambda: describe("--members", "--verbose"),
        lambda: describe("--state"),
        describe,
        lambda: groups("--delete", "--group", group),
        lambda: groups("--reset-offsets", "--group", group, "--all-topics", "--to-latest"),
    )
    assert group in listed.lines
    (row,) = (row for row in by_state.table() if row["GROUP"] == group)
    assert row == {"GROUP": group, "TYPE": "Classic", "STATE": "Stable"}
    assert sum(int(row["#PARTITIONS"]) for row in members.table()) == 4
    assert len({row["CONSUMER-ID"] for row in members.table()}) == 2
    coordinator = f"({cluster.coordinator_of(group)})"
    assert state.lines[1].split()[2:] == [coordinator, "range", "Stable", "2"]
    assert sorted(row["PARTITION"] for row in offsets.table()) == ["0", "1", "2", "3"]
    assert "GroupNotEmptyException: The group is not empty." in deletion.out
    assert f"if the group '{group}' is inactive, but the current state is Stable." in reset.out


def test_configs(tools: JavaTools, cluster: EmbeddedCluster) -> None:
    topic = unique("configured")
    cluster.create_topic(topic, 1, {"retention.ms": "99"})
    configs = functools.partial(
        tools.run, "configs", "--entity-type", "topics", "--entity-name", topic
    )
    describe = functools.partial(configs, "--describe")
    added = configs("--alter", "--add-config", "cleanup.policy=[compact,delete],retention.ms=5000")
    assert (added.code, added.lines) == (0, [f"Completed updating config for topic {topic}."])
    refused, now = at_once(lambda: configs("--alter", "--add-config", "nonsense=1"), describe)
    assert described(now) == {"cleanup.policy": "compact,delete", "retention.ms": "5000"}
    assert refused.code == 1
    assert configs("--alter", "--delete-config", "cleanup.policy").code == 0
    last = describe()
    assert described(last) == {"retention.ms": "5000"}
    assert "synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5000" in last.out


def described(said: Said) -> dict[str, str]:
    assert said.code == 0
    words = [line.split()[0].partition("=") for line in said.lines[1:]]
    return {name: value for name, _, value in words}


def events(said: Said) -> list[dict[str, Any]]:
    assert said.code == 0
    return [json.loads(line) for line in said.lines]


def test_quotas_with_configs(tools: JavaTools) -> None:
    alice = ("--entity-type", "users", "--entity-name", "alice")
    quotas = "producer_byte_rate=1024,consumer_byte_rate=2048"
    assert tools.run("configs", "--alter", "--add-config", quotas, *alice).code == 0
    every_client = ("--entity-type", "clients", "--entity-default")
    added = tools.run("configs", "--alter", "--add-config", "request_percentage=150", *every_client)
    assert added.code == 0
    shown = tools.run("configs", "--describe", *alice)
    assert "user-principal 'alice'" in shown.out
    assert "producer_byte_rate=1024.0" in shown.out
    assert "consumer_byte_rate=2048.0" in shown.out
    assert "request_percentage=150.0" in tools.run("configs", "--describe", *every_client).out
    for entity, keys in (
        (alice, "producer_byte_rate,consumer_byte_rate"),
        (every_client, "request_percentage"),
    ):
        assert tools.run("configs", "--alter", "--delete-config", keys, *entity).code == 0
    assert "byte_rate" not in tools.run("configs", "--describe", *alice).out


def test_verifiable_clients(tools: JavaTools, cluster: EmbeddedCluster, tmp_path: Path) -> None:
    topic, group = unique("verified"), unique("verified")
    cluster.create_topic(topic, 3)
    limit = ("--topic", topic, "--max-messages", "50")
    produced = events(tools.run("verifiable-producer", *limit, "--throughput", "-1"))
    assert [(each["sent"], each["acked"]) for each in produced if each["name"] == "tool_data"] == [
        (50, 50)
    ]
    consumed = events(tools.run("verifiable-consumer", *limit, "--group-id", group))
    assert sum(each["count"] for each in consumed if each["name"] == "records_consumed") == 50
    commits = [each for each in consumed if each["name"] == "offsets_committed"]
    assert commits
    assert all(each["success"] for each in commits)


def test_broker_api_versions(tools: JavaTools) -> None:
    said = tools.run("broker-api-versions")
    assert said.code == 0
    assert sum("(id: " in line for line in said.lines) == 3
    assert sum(line.strip() == "ListGroups(16): 0 to 5 [usable: 5]," for line in said.lines) == 3
