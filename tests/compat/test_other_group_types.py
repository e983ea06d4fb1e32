"""Share and streams groups, which our cluster does not have: listed, described, deleted on Apache Kafka."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from coterie.client import AdminClient
from coterie.error_codes import ErrorCode
from coterie.errors import NonEmptyGroup
from coterie.protocol.api import ApiKey
from coterie.protocol.messages.share_groups import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from coterie.protocol.messages.streams_groups import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    Topology,
)
from coterie.protocol.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from coterie.testing import EmbeddedCluster
from tests.compat.scenarios import unique
from tests.compat.setting import find_coordinators
from tests.kit.kafka import KafkaCluster
from tests.kit.wire_client import WireClient
from tests.unit.cli.conftest import Tool, runner


class Group(NamedTuple):
    """A group of one member, whose connection is held."""

    kind: str
    name: str
    member: str
    client: WireClient

    def beat(self, epoch: int, topic: str = "") -> None:
        request: ShareGroupHeartbeatRequest | StreamsGroupHeartbeatRequest
        expected: type[ShareGroupHeartbeatResponse | StreamsGroupHeartbeatResponse]
        if self.kind == "share":
            topics = (topic,) if topic else None
            request = ShareGroupHeartbeatRequest(self.name, self.member, epoch, None, topics)
            expected = ShareGroupHeartbeatResponse
        else:
            joins: dict[str, Any] = {
                "rebalance_timeout_ms": 10_000,
                "topology": Topology(1, (Subtopology("0", source_topics=(topic,)),)),
                "process_id": "process",
                "client_tags": (),
            }
            request = StreamsGroupHeartbeatRequest(
                group_id=self.name,
                member_id=self.member,
                member_epoch=epoch,
                active_tasks=(),
                standby_tasks=(),
                warmup_tasks=(),
                **(joins if topic else {}),
            )
            expected = StreamsGroupHeartbeatResponse
        # A coordinator that has just been made needs a moment.
        while ErrorCode.of(code := self.client.ask(request, expected).error_code).retriable:
            pass
        assert code == ErrorCode.NONE, ErrorCode.of(code)


@pytest.fixture(scope="module")
def topic(kafka: KafkaCluster) -> str:
    wanted = CreatableTopic(unique("types"), 2, 1)
    with WireClient(*kafka.addresses[0]) as client:
        (made,) = client.ask(CreateTopicsRequest((wanted,)), CreateTopicsResponse).topics
        assert not made.error_code, made
    return wanted.name


@pytest.fixture(params=["share", "streams"])
def group(request: pytest.FixtureRequest, kafka: KafkaCluster, topic: str) -> Iterator[Group]:
    with WireClient(*kafka.addresses[0]) as client:
        made = Group(request.param, unique(request.param), str(uuid.uuid4()), client)
        find_coordinators(client, made.name)
        made.beat(0, topic)
        yield made


@pytest.fixture
def tool(kafka: KafkaCluster, tmp_path: Path) -> Tool:
    return runner(tmp_path, kafka.bootstrap)


def test_by_the_command_line(tool: Tool, group: Group, topic: str) -> None:
    listed = json.loads(tool("groups", "list", "--type", group.kind, "-o", "json").stdout)
    assert (group.name, group.kind) in {(each["group_id"], each["type"]) for each in listed}
    (described,) = json.loads(tool("groups", "describe", group.name, "-o", "json").stdout)
    assert described["type"] == group.kind
    assert topic in json.dumps(described)
    refused = tool("groups", "delete", group.name, "--execute")
    assert refused.returncode != 0
    assert group.name in tool("groups", "list", "-o", "name").stdout
    group.beat(-1)
    # Offsets of a share group are no commits, so that nothing could bring them back.
    undo = ("--no-undo",) if group.kind == "share" else ()
    deleted = tool("groups", "delete", group.name, "--execute", *undo)
    assert deleted.returncode == 0, deleted.stderr
    assert group.name not in tool("groups", "list", "-o", "name").stdout


def test_by_the_client(kafka: KafkaCluster, group: Group, topic: str) -> None:
    with AdminClient.connect({"bootstrap.servers": kafka.bootstrap}) as admin:
        assert group.name in admin.list_groups(types={group.kind})
        found = admin.describe_groups([group.name])[group.name]
        assert (found.type.value, found.members[0].subscription) == (group.kind, (topic,))
        assert isinstance(admin.delete_groups([group.name]).errors[group.name], NonEmptyGroup)
        group.beat(-1)
        assert admin.delete_groups([group.name]).complete
        assert group.name not in admin.list_groups()


def test_ours_has_none_and_says_so() -> None:
    """What is not served is not advertised."""
    with EmbeddedCluster() as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        with WireClient(host, int(port)) as client:
            names = {ApiKey(key).name for key in client.served}
    assert not {name for name in names if "share" in name.lower() or "streams" in name.lower()}
