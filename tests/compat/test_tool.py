"""`coterie` on our cluster and on Apache Kafka 4.3.0: the same commands, the same answers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from coterie.testing import EmbeddedCluster
from tests.unit.cli.conftest import Tool, runner

RECORDS = 50


class World:
    """A topic of two partitions, a group that read some of it, and one that is reading."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.settings: dict[str, Any] = {"bootstrap.servers": servers, "log_level": 0}
        admin = AdminClient(self.settings)
        admin.create_topics([NewTopic("tool", 2, 1)])["tool"].result(30)
        producer = Producer(self.settings)
        for partition in range(2):
            for number in range(RECORDS):
                producer.produce("tool", str(number), partition=partition)
        assert producer.flush(30) == 0
        self.commit("tool-read", 40)
        self.live = Consumer(self.settings | {"group.id": "tool-live", "client.id": "tool-client"})
        self.live.subscribe(["tool"])
        while len(self.live.assignment()) < 2:
            self.live.poll(0.1)

    def commit(self, group: str, offset: int) -> None:
        consumer = Consumer(self.settings | {"group.id": group})
        places = [TopicPartition("tool", partition, offset) for partition in range(2)]
        consumer.commit(offsets=places, asynchronous=False)
        consumer.close()


@pytest.fixture(scope="module", params=["coterie", "kafka"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "kafka":
        found = World(request.getfixturevalue("kafka").bootstrap)
        yield found
        found.live.close()
        return
    with EmbeddedCluster(brokers=2) as cluster:
        found = World(cluster.bootstrap_servers)
        yield found
        found.live.close()


@pytest.fixture
def tool(world: World, tmp_path: Path) -> Tool:
    return runner(tmp_path, world.servers)


def rows(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_list_and_select(tool: Tool) -> None:
    found = rows(tool("groups", "list", "--match", "^tool-(read|live)$", "-o", "json"))
    assert [(row["group_id"], row["state"], row["type"]) for row in found] == [
        ("tool-live", "Stable", "classic"),
        ("tool-read", "Empty", "classic"),
    ]
    stable = tool("groups", "list", "--state", "Stable", "--topic", "tool", "-o", "name")
    assert stable.stdout == "tool-live\n"
    assert tool("groups", "list", "--idle-for", "1d", "-o", "name", "--match", "^tool").stdout == ""
    recent = rows(tool("groups", "list", "tool-read", "--columns", "last_commit", "-o", "json"))
    assert recent[0]["last_commit"].startswith("20")


def test_describe_has_what_kip_181_asks_for(tool: Tool) -> None:
    (group,) = rows(tool("groups", "describe", "tool-live", "-o", "json"))
    assert group["generation"] >= 1
    assert group["leader_id"].startswith("tool-client-")
    assert group["assignor"] == "range"
    assert group["subscription"] == ["tool"]
    (member,) = group["members"]
    assert member["client_id"] == "tool-client"
    assert member["subscription"] == ["tool"]
    assert member["assignment"] == ["tool-0", "tool-1"]


def test_a_group_of_the_new_protocol(world: World, tool: Tool) -> None:
    settings = {"group.id": "tool-next", "client.id": "next", "group.protocol": "consumer"}
    consumer = Consumer(world.settings | settings)
    consumer.subscribe(["tool"])
    try:
        while len(consumer.assignment()) < 2:
            consumer.poll(0.1)
        (group,) = rows(tool("groups", "describe", "tool-next", "-o", "json"))
        assert (group["type"], group["leader_id"]) == ("consumer", None)
        assert group["generation"] >= 1
        assert group["assignor"] in ("uniform", "range")
        assert group["members"][0]["target_assignment"] == ["tool-0", "tool-1"]
        ours = ("--type", "consumer", "--match", "^tool-", "-o", "name")
        assert tool("groups", "list", *ours).stdout == "tool-next\n"
        assert tool("groups", "delete", "tool-next", "-e").returncode == 1
    finally:
        consumer.close()


def test_offsets_and_lag(tool: Tool) -> None:
    found = rows(tool("groups", "offsets", "tool-read", "-o", "json"))
    assert [(row["partition"], row["committed_offset"]) for row in found] == [(0, 40), (1, 40)]
    lag = tool(
        "groups", "lag", "tool-read", "-o", "csv", "--columns", "group_id,topic,partition,lag"
    )
    assert lag.stdout == "group_id,topic,partition,lag\ntool-read,tool,0,10\ntool-read,tool,1,10\n"
    (total,) = rows(tool("groups", "lag", "tool-read", "--by", "group", "-o", "json"))
    assert total["total_lag"] == 20


def test_delete_and_undo(world: World, tool: Tool, tmp_path: Path) -> None:
    world.commit("tool-delete", 7)
    plan, undo = tmp_path / "plan.json", tmp_path / "undo.json"
    chosen = ("--match", "^tool-delete$", "--state", "Empty")
    assert tool("groups", "delete", *chosen, "--plan-out", str(plan)).returncode == 0
    done = tool("groups", "delete", "--plan", str(plan), "-e", "--undo-file", str(undo))
    assert done.returncode == 0, done.stdout + done.stderr
    assert tool("groups", "offsets", "tool-delete").returncode == 1
    assert tool("groups", "import", str(undo), "--execute").returncode == 0
    found = rows(tool("groups", "offsets", "tool-delete", "-o", "json"))
    assert [row["committed_offset"] for row in found] == [7, 7]


def test_an_active_group_is_left_alone(tool: Tool) -> None:
    for change in (("delete",), ("reset", "--to", "earliest", "--topic", "tool")):
        done = tool("groups", change[0], "tool-live", *change[1:], "--execute", "-o", "json")
        assert done.returncode == 1
        assert json.loads(done.stdout)[0]["result"] == "refused"
    subscribed = tool("groups", "delete-offsets", "tool-live", "--topic", "tool", "--execute")
    assert subscribed.returncode == 1


def test_reset_clone_and_delete_offsets(world: World, tool: Tool) -> None:
    world.commit("tool-change", 7)
    assert tool("groups", "reset", "tool-change", "--to", "latest", "-e").returncode == 0
    assert tool("groups", "clone", "tool-change", "tool-clone", "-e").returncode == 0
    gone = tool("groups", "delete-offsets", "tool-clone", "--topic", "tool:0", "-e")
    assert gone.returncode == 0, gone.stdout
    found = rows(tool("groups", "offsets", "tool-clone", "-o", "json"))
    assert [(row["partition"], row["committed_offset"]) for row in found] == [(1, RECORDS)]


def test_topics_and_cluster(tool: Tool) -> None:
    (topic,) = rows(tool("topics", "list", "tool", "-o", "json"))
    assert topic["partitions"] == 2
    found = rows(tool("topics", "describe", "tool", "-o", "json"))
    assert [(row["log_start"], row["log_end"]) for row in found] == [(0, RECORDS), (0, RECORDS)]
    readers = tool("topics", "groups", "tool", "-o", "name").stdout.split()
    assert {"tool-read", "tool-live"} <= set(readers)
    assert all(row["cluster_id"] for row in rows(tool("cluster", "-o", "json")))
