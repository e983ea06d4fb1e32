"""Servers that tests of the admin client are run against, and members of groups of every type on them."""

from __future__ import annotations

import time
import uuid
from typing import Any, NamedTuple

from confluent_kafka import Consumer

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
from tests.kit.wire_client import WireClient


class Server(NamedTuple):
    version: str
    bootstrap: str
    brokers: int

    @property
    def line(self) -> tuple[int, ...]:
        """The release as numbers; ours is as new as any."""
        return (99,) if self.version == "ours" else tuple(map(int, self.version.split(".")))


class Member:
    """A consumer that stays in its group until the block ends."""

    def __init__(self, server: Server, group: str, topic: str, **config: Any) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": server.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
                **config,
            }
        )
        self.consumer.subscribe([topic])

    def __enter__(self) -> Consumer:
        end = time.monotonic() + 60
        while not self.consumer.assignment():
            assert time.monotonic() < end, "the consumer was given nothing"
            self.consumer.poll(0.1)
        return self.consumer

    def __exit__(self, *_: object) -> None:
        self.consumer.close()


def join_share(address: tuple[str, int], group: str, topic: str) -> None:
    with WireClient(*address) as client:
        answer = client.ask(
            ShareGroupHeartbeatRequest(group, str(uuid.uuid4()), 0, None, (topic,)),
            ShareGroupHeartbeatResponse,
        )
        assert answer.error_code == 0, answer


def join_streams(address: tuple[str, int], group: str, topic: str) -> None:
    topology = Topology(1, (Subtopology("0", source_topics=(topic,)),))
    with WireClient(*address) as client:
        answer = client.ask(
            StreamsGroupHeartbeatRequest(
                group_id=group,
                member_id=str(uuid.uuid4()),
                member_epoch=0,
                rebalance_timeout_ms=10_000,
                topology=topology,
                active_tasks=(),
                standby_tasks=(),
                warmup_tasks=(),
                process_id="process",
                client_tags=(),
            ),
            StreamsGroupHeartbeatResponse,
        )
        assert answer.error_code == 0, answer
