"""The hooks of the server: what an observer sees of requests, answers and shards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.coordinator import CoordinatorShard
from coterie.protocol.frames import FrameBuffer
from coterie.protocol.messages.groups import ListGroupsRequest, ListGroupsResponse
from coterie.security.plain import PlainClient
from coterie.security.secrets import Secret
from coterie.server.partitions.partition import Partition
from coterie.server.requests import observer
from coterie.server.requests.observer import Observer, ShardChange, observe
from coterie.testing import EmbeddedCluster
from tests.kit.wire_client import WireClient


class Seen(Observer):
    """Keeps what it sees."""

    def __init__(self) -> None:
        self.requests: dict[int, int | None] = {}
        self.answers: dict[int, bytes] = {}
        self.bytes = b""
        self.shards: dict[int, list[ShardChange]] = {}
        self._slots: list[object] = []

    def request(self, connection: object, slot: object, correlation_id: int | None) -> None:  # noqa: ARG002
        self._slots.append(slot)
        self.requests[id(slot)] = correlation_id

    def answer(self, slot: object, data: bytes) -> None:
        assert id(slot) not in self.answers
        self.answers[id(slot)] = data

    def sent(self, connection: object, data: bytes) -> None:  # noqa: ARG002
        self.bytes += data

    def shard(
        self,
        change: ShardChange,
        shard: CoordinatorShard,  # noqa: ARG002
        partition: Partition,
    ) -> None:
        self.shards.setdefault(partition.index, []).append(change)


@pytest.fixture
def seen() -> Iterator[Seen]:
    before = observer.current
    seen = Seen()
    observe(seen)
    try:
        yield seen
    finally:
        observe(before)


def test_each_request_has_one_answer_and_all_answers_are_sent(seen: Seen) -> None:
    with (
        EmbeddedCluster(users={"ann": "secret"}) as cluster,
        WireClient(*_address(cluster)) as client,
    ):
        client.authenticate(PlainClient("ann", Secret("secret")))
        client.ask(ListGroupsRequest(), ListGroupsResponse)
    assert seen.requests.keys() == seen.answers.keys()
    sent = FrameBuffer().feed(seen.bytes)
    assert len(sent) == len(seen.requests)
    ids = [each for each in seen.requests.values() if each is not None]
    assert [int.from_bytes(each[:4], "big", signed=True) for each in sent] == ids


def test_the_life_of_a_shard(seen: Seen) -> None:
    with EmbeddedCluster(brokers=2) as cluster:
        cluster.scene("empty_group", "moving")
        first = cluster.coordinator_of("moving")
        cluster.move_coordinator("moving", 3 - first)
        cluster.scene("empty_group", "moving")
    led = [ShardChange.LED, ShardChange.LOADED]
    resigned = [ShardChange.RESIGNING, ShardChange.RESIGNED]
    assert [*led, *resigned, *led, *resigned] in seen.shards.values()


def _address(cluster: EmbeddedCluster) -> tuple[str, int]:
    host, _, port = cluster.bootstrap_servers.rpartition(":")
    return host, int(port)
