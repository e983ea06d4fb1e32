"""The world in which the transcripts of Kafka's tool were made: topics, records, and a group of every kind.

Built on Apache Kafka and on our cluster alike, over the wire, so that one set of transcripts fits both. A
broker that does not serve a kind of groups gets none of them; `absent` names those that are not there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, Self

from coterie.client import AdminClient, PartitionOffset, TopicPartition
from coterie.protocol.api import ApiKey
from coterie.protocol.messages.data import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from coterie.protocol.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from coterie.protocol.records import build_batch
from tests.kit.cli_members import (
    ClassicMember,
    ConsumerMember,
    join_share_group,
    join_streams_group,
    settle,
)
from tests.kit.wire_client import WireClient

__all__ = ["Offsets", "World", "at_end", "beat_until_settled", "produce"]

LONG_GROUP: Final = "g-empty-long-group-id-that-widens-the-first-column"
LONG_TOPIC: Final = "a-topic-with-a-rather-long-name-for-widths"
#: Topics: partitions, and records in each.
_TOPICS: Final = {
    "orders": (4, 20),
    "payments": (2, 10),
    "audit-log": (1, 10),
    LONG_TOPIC: (1, 3),
    "hollow": (2, 0),
    "events": (3, 20),
}
_CONSUMER_GROUPS: Final = (
    "g-consumer", "g-consumer-static", "g-consumer-empty", "g-mixed", "g-reconciling",
)  # fmt: skip
#: 2025-07-31T08:20:00Z, the time of the first record of `clicks`; the others follow minute by minute.
_CLICKS_BEGIN_MS: Final = 1_753_950_000_000
#: Topic ids in Produce requests came with v13; names are what we have.
_PRODUCE_VERSION: Final = 12

Offsets = dict[TopicPartition, PartitionOffset]


class World:
    """All of it, on one broker."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.partition(":")
        self.bootstrap = bootstrap
        self.absent: set[str] = set()
        self._address = (host, int(port))
        self._wire = self._connect("world")
        self._admin = AdminClient.connect(bootstrap_servers=bootstrap)
        self._alive: list[WireClient] = [self._wire]

    def _connect(self, client_id: str) -> WireClient:
        return WireClient(*self._address, client_id=client_id)

    def __enter__(self) -> Self:
        self._make_topics()
        self._make_empty_groups()
        self._make_classic_groups()
        self._make_waiting_groups()
        self._make_if_served(
            ApiKey.CONSUMER_GROUP_HEARTBEAT, _CONSUMER_GROUPS, self._make_consumer_groups
        )
        self._make_if_served(
            ApiKey.SHARE_GROUP_HEARTBEAT,
            ("g-share",),
            lambda: self._alive.append(join_share_group(self._connect, "g-share", "orders")),
        )
        self._make_if_served(
            ApiKey.STREAMS_GROUP_HEARTBEAT,
            ("g-streams",),
            lambda: self._alive.append(join_streams_group(self._connect, "g-streams", "orders")),
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._admin.close()
        for client in self._alive:
            client.close()

    def _make_if_served(
        self, api: ApiKey, groups: Iterable[str], make: Callable[[], object]
    ) -> None:
        if api in self._wire.served:
            make()
        else:
            self.absent.update(groups)

    # -- topics ---------------------------------------------------------------------------------------

    def _make_topics(self) -> None:
        self._admin.create_topics({name: size for name, (size, _) in _TOPICS.items()}).unwrap()
        now = int(time.time() * 1000)
        for name, (partitions, records) in _TOPICS.items():
            for index in range(partitions if records else 0):
                produce(self._wire, name, index, [now] * records)
        gone = tuple(DeleteRecordsPartition(index, 20) for index in range(3))
        self._wire.ask(
            DeleteRecordsRequest((DeleteRecordsTopic("events", gone),), 10_000),
            DeleteRecordsResponse,
        )

    def make_clicks(self) -> None:
        """A topic and a group that only some scenarios know."""
        self._admin.create_topics({"clicks": 3}, configs={"retention.ms": "-1"}).unwrap()
        for index in range(3):
            minutes = range(index, 60, 3)
            times = [_CLICKS_BEGIN_MS + 60_000 * each for each in minutes]
            produce(self._wire, "clicks", index, times)
        self._admin.alter_offsets({"g-clicks": at_end("clicks", 3, 20)}).unwrap()

    def remove_clicks(self) -> None:
        self._admin.delete_groups(["g-clicks"]).unwrap()
        self._admin.delete_topics(["clicks"]).unwrap()

    # -- groups ---------------------------------------------------------------------------------------

    def _make_empty_groups(self) -> None:
        orders, payments = at_end("orders", 4, 20), at_end("payments", 2, 10)
        simple: Offsets = {
            TopicPartition(LONG_TOPIC, 0): PartitionOffset(1),
            TopicPartition("orders", 0): PartitionOffset(5),
            TopicPartition("orders", 2): PartitionOffset(100),
        }
        self._admin.alter_offsets(
            {
                "g-empty": orders,
                "g-empty2": payments,
                "g-events": at_end("events", 3, 20),
                "g-two-topics": orders | payments,
                "g-del-1": payments,
                "g-del-2": payments,
                LONG_GROUP: at_end("audit-log", 1, 10),
                "g-simple": simple,
                # Those of the groups that get members next.
                "g-stable": orders | payments,
                "g-static": orders,
                "g-idle": at_end("audit-log", 1, 10),
                "g-coop": payments,
            }
        ).unwrap()
        visitor = self._classic("g-nooffsets", "visitor", "orders")
        settle([visitor], [{}])
        visitor.leave()

    def _classic(
        self,
        group: str,
        client_id: str,
        *topics: str,
        protocol: str = "range",
        protocol_type: str = "consumer",
        instance_id: str | None = None,
    ) -> ClassicMember:
        member = ClassicMember(
            self._connect,
            group,
            client_id,
            topics,
            protocol=protocol,
            protocol_type=protocol_type,
            instance_id=instance_id,
        )
        self._alive.append(member.client)
        return member

    def _make_classic_groups(self) -> None:
        both = ("orders", "payments")
        settle(
            [
                self._classic("g-stable", "svc-a", *both),
                self._classic("g-stable", "svc-b-with-long-client-id", *both),
            ],
            [{"orders": (0, 1), "payments": (0,)}, {"orders": (2, 3), "payments": (1,)}],
        )
        settle(
            [
                self._classic("g-static", "dyn", "orders"),
                self._classic("g-static", "st", "orders", instance_id="instance-number-one"),
            ],
            [{"orders": (0, 1)}, {"orders": (2, 3)}],
        )
        settle(
            [
                self._classic("g-idle", "i1", "audit-log"),
                self._classic("g-idle", "i2", "audit-log"),
            ],
            [{"audit-log": (0,)}, {}],
        )
        coop = self._classic("g-coop", "coop", "payments", protocol="cooperative-sticky")
        settle([coop], [{"payments": (0, 1)}])
        settle([self._classic("g-nocommit", "nc", "orders")], [{"orders": (0, 1, 2, 3)}])
        worker = self._classic("g-connect", "worker", protocol_type="connect", protocol="sessioned")
        settle([worker], [{}])

    def _make_waiting_groups(self) -> None:
        silent = self._classic("g-rebalancing", "raw", "orders")
        settle([silent], [{"orders": (0,)}])
        self._classic("g-rebalancing", "raw2", "orders").ask_to_join()
        silent.await_rebalance()
        self._classic("g-completing", "raw", "orders").join()

    # -- groups of KIP-848 ----------------------------------------------------------------------------

    def _consumer(
        self,
        group: str,
        client_id: str,
        *topics: str,
        instance_id: str | None = None,
        rack: str | None = None,
    ) -> ConsumerMember:
        member = ConsumerMember(
            self._connect, group, client_id, topics, instance_id=instance_id, rack=rack
        )
        self._alive.append(member.client)
        return member

    def _make_consumer_groups(self) -> None:
        crowd = [
            self._consumer("g-consumer", "kip848-a", "orders", "payments"),
            self._consumer("g-consumer", "kip848-b", "orders"),
        ]
        for member in crowd:
            beat_until_settled(crowd[: crowd.index(member) + 1])
        static = self._consumer(
            "g-consumer-static", "kip848-s", "audit-log", instance_id="pod-0", rack="rack-a"
        )
        beat_until_settled([static])
        visitor = self._consumer("g-consumer-empty", "visitor", "orders")
        beat_until_settled([visitor])
        visitor.leave()
        self._make_mixed_group()
        keeper = self._consumer("g-reconciling", "raw", "orders")
        beat_until_settled([keeper])
        self._consumer("g-reconciling", "raw", "orders").beat()
        self._commit_for_consumers(crowd, static)

    def _make_mixed_group(self) -> None:
        """A classic group that a member of the new protocol joins: it is upgraded (KIP-848)."""
        old = self._classic("g-mixed", "old", "orders")
        self._admin.alter_offsets({"g-mixed": at_end("orders", 4, 20)}).unwrap()
        settle([old], [{"orders": (0, 1, 2, 3)}])
        new = self._consumer("g-mixed", "new", "orders")
        new.beat()
        # The classic member joins anew and takes what the broker gives it.
        old.join()
        old.sync()
        beat_until_settled([new])

    def _commit_for_consumers(self, crowd: list[ConsumerMember], static: ConsumerMember) -> None:
        for member, offsets in (
            (crowd[0], at_end("orders", 4, 20) | at_end("payments", 2, 10)),
            (static, at_end("audit-log", 1, 10)),
        ):
            member.commit({(each.topic, each.partition): at.offset for each, at in offsets.items()})
        self._admin.alter_offsets({"g-consumer-empty": at_end("orders", 4, 20)}).unwrap()


def produce(wire: WireClient, topic: str, index: int, times: list[int]) -> None:
    """Records of these times."""
    batch = build_batch([(None, b"x", each, ()) for each in times]).encode()
    data = TopicProduceData(name=topic, partition_data=(PartitionProduceData(index, batch),))
    version = min(_PRODUCE_VERSION, wire.versions(ApiKey.PRODUCE)[-1])
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=(data,))
    while True:
        answer = wire.ask(request, ProduceResponse, version)
        code = answer.responses[0].partition_responses[0].error_code
        if not code:
            return
        # Right after a topic was made, its leader may not know it yet.
        assert code in (3, 5, 6), code


def beat_until_settled(members: list[ConsumerMember]) -> None:
    """Beat in turn until nobody's epoch or partitions change any more."""
    while True:
        before = [(each.epoch, each.owned) for each in members]
        for member in members:
            member.beat()
        if before == [(each.epoch, each.owned) for each in members]:
            return


def at_end(topic: str, partitions: int, offset: int) -> Offsets:
    return {
        TopicPartition(topic, index): PartitionOffset(offset, leader_epoch=0)
        for index in range(partitions)
    }
