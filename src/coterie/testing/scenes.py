"""Scenes: groups in every state, set in a line, for tests of tools that look at groups.

Members are real ones: they join, sync and heartbeat over sockets, until the scene or the cluster ends.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TypeVar

from coterie.coordinator.outcome import Outcome, Record
from coterie.error_codes import ErrorCode
from coterie.errors import CoterieError
from coterie.protocol.api import ApiKey
from coterie.protocol.frames import FrameBuffer, InFlight
from coterie.protocol.group_records.classic import OffsetCommitKey, OffsetCommitValue
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from coterie.protocol.messages.membership import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from coterie.protocol.records import build_batch
from coterie.protocol.schema import Request, Response
from coterie.protocol.versioned import encode_versioned
from coterie.server.cluster import Cluster

__all__ = ["Member", "Scenes"]

R = TypeVar("R", bound=Response)

_DAY_MS = 24 * 60 * 60 * 1000
_SESSION_MS = 45_000


class Member:
    """One live member of a classic consumer group. `leave` ends it without a word, like a crash."""

    def __init__(self, group_id: str, topic: str, client_id: str) -> None:
        self.group_id = group_id
        self.topic = topic
        self.member_id = ""
        self.generation = -1
        self._in_flight = InFlight(client_id)
        self._frames = FrameBuffer()
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._beating: asyncio.Task[None] | None = None

    async def connect(self, host: str, port: int) -> None:
        self._reader, self._writer = await asyncio.open_connection(host, port)

    async def ask(self, request: Request, expect: type[R]) -> R:
        _, data = self._in_flight.send(request, ApiKey(type(request).__key__).versions.highest)
        self._writer.write(data)
        while True:
            received = await self._reader.read(65536)
            if not received:
                raise CoterieError("the broker closed a scene member's connection")
            for frame in self._frames.feed(received):
                _, response = self._in_flight.receive(frame)
                if isinstance(response, expect):
                    return response

    async def join(self) -> JoinGroupResponse:
        """Join, with the handshake for a member id; returns when the rebalance has all members."""
        subscription = ConsumerProtocolSubscription(topics=(self.topic,))
        protocol = JoinGroupRequestProtocol("range", encode_versioned(subscription, 3))
        while True:
            request = JoinGroupRequest(
                group_id=self.group_id,
                session_timeout_ms=_SESSION_MS,
                rebalance_timeout_ms=300_000,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=(protocol,),
            )
            joined = await self.ask(request, JoinGroupResponse)
            self.member_id = joined.member_id
            if joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                self.generation = joined.generation_id
                return joined

    async def sync(self, assignments: dict[str, tuple[int, ...]]) -> SyncGroupResponse:
        """Sync; the leader brings everyone's partitions, the others nothing."""
        return await self.ask(
            SyncGroupRequest(
                group_id=self.group_id,
                generation_id=self.generation,
                member_id=self.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=tuple(
                    SyncGroupRequestAssignment(
                        member_id,
                        encode_versioned(
                            ConsumerProtocolAssignment(
                                assigned_partitions=(TopicPartition(self.topic, partitions),)
                            ),
                            3,
                        ),
                    )
                    for member_id, partitions in assignments.items()
                ),
            ),
            SyncGroupResponse,
        )

    def keep_alive(self) -> None:
        self._beating = asyncio.get_running_loop().create_task(self._beat())

    async def _beat(self) -> None:
        request = HeartbeatRequest(self.group_id, self.generation, self.member_id)
        with contextlib.suppress(CoterieError, OSError):
            while True:
                await self.ask(request, HeartbeatResponse)
                await asyncio.sleep(_SESSION_MS / 1000 / 3)

    async def leave(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait([self._beating])
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


class Scenes:
    """Makes groups. Topics that a scene needs and that are not there are made with it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._members: list[Member] = []

    async def end(self) -> None:
        """All members go."""
        for member in self._members:
            await member.leave()

    async def empty_group(self, group_id: str, topic: str = "orders", offset: int = 42) -> None:
        """A group without members that has committed offsets: state Empty."""
        await self._commit(group_id, topic, offset, self._cluster.clock.now_ms())

    async def stale_group(self, group_id: str, topic: str = "orders", days: int = 30) -> None:
        """An empty group whose last commit was long ago."""
        await self._commit(group_id, topic, 42, self._cluster.clock.now_ms() - days * _DAY_MS)

    async def lagging_group(self, group_id: str, topic: str = "orders", lag: int = 100) -> None:
        """An empty group that is so many records behind in every partition of the topic."""
        partitions = self._ensure(topic)
        now = self._cluster.clock.now_ms()
        ends: dict[int, int] = {}
        for index in range(partitions):
            partition = self._cluster.partitions.get(topic, index)
            if partition is None:
                raise CoterieError(f"there is no partition {topic}-{index}")
            records = [(None, b"behind", now, ()) for _ in range(lag)]
            base_offset, _ = partition.append(build_batch(records).encode())
            await partition.committer.drain()
            ends[index] = base_offset + lag
        await self._commit_each(group_id, topic, {i: end - lag for i, end in ends.items()}, now)

    async def stable_group(
        self, group_id: str, topic: str = "orders", members: int = 2
    ) -> list[Member]:
        """A group whose members have their partitions: state Stable."""
        crowd = await self._crowd(group_id, topic, members)
        joined = await asyncio.gather(*(member.join() for member in crowd))
        # The first join may have completed a generation before the others came: join until all agree.
        while len({each.generation_id for each in joined}) > 1:
            joined = await asyncio.gather(*(member.join() for member in crowd))
        shares = self._shares(topic, [member.member_id for member in crowd])
        leader = joined[0].leader
        await asyncio.gather(
            *(member.sync(shares if member.member_id == leader else {}) for member in crowd)
        )
        for member in crowd:
            member.keep_alive()
        return crowd

    async def rebalancing_group(self, group_id: str, topic: str = "orders") -> list[Member]:
        """A group that waits for its leader's assignment and does not get it: CompletingRebalance."""
        crowd = await self._crowd(group_id, topic, 1)
        await crowd[0].join()
        return crowd

    async def _crowd(self, group_id: str, topic: str, count: int) -> list[Member]:
        self._ensure(topic)
        node = self._cluster.broker(self._cluster.partitions.offsets_partition(group_id).leader)
        crowd = [Member(group_id, topic, f"{group_id}-client-{i + 1}") for i in range(count)]
        await asyncio.gather(*(member.connect(*node.address) for member in crowd))
        self._members += crowd
        return crowd

    def _ensure(self, topic: str) -> int:
        metadata = self._cluster.metadata.topic(topic) or self._cluster.partitions.create_topic(
            topic, 4, {}
        )
        return len(metadata.partitions)

    def _shares(self, topic: str, members: list[str]) -> dict[str, tuple[int, ...]]:
        partitions = range(self._ensure(topic))
        return {
            member: tuple(p for p in partitions if p % len(members) == i)
            for i, member in enumerate(members)
        }

    async def _commit(self, group_id: str, topic: str, offset: int, timestamp: int) -> None:
        offsets = dict.fromkeys(range(self._ensure(topic)), offset)
        await self._commit_each(group_id, topic, offsets, timestamp)

    async def _commit_each(
        self, group_id: str, topic: str, offsets: dict[int, int], timestamp: int
    ) -> None:
        """Written as the coordinator writes it, because no request can commit in the past."""
        partition = self._cluster.partitions.offsets_partition(group_id)
        groups = self._cluster.broker(partition.leader).services.groups
        hosted = groups.find(group_id)
        if isinstance(hosted, ErrorCode):
            raise CoterieError(f"the coordinator of {group_id!r} is not ready: {hosted.name}")
        records = tuple(
            Record(
                OffsetCommitKey(group_id, topic, index),
                OffsetCommitValue(offset=offset, commit_timestamp=timestamp),
                version=3,
            )
            for index, offset in offsets.items()
        )
        groups.settle(hosted, Outcome(records))
        await partition.committer.drain()
