"""Very many groups, ours alone, beside the figures that we want to keep to.

The log is written straight into a data directory, one batch per commit and one per group as the server
would have written them, and the server then starts on it. Whether its event loop is held up is seen from
outside, by a client that sends ApiVersions again and again over a connection of its own: the longest
it had to wait for an answer is the figure, and on a machine with other work that is too much rather than too
little. What a group costs in memory besides its offsets is counted in this process, with tracemalloc, by
replaying the records of groups without any.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final, Self

from bench.harness import Measurement, Round, must_equal
from bench.scene import LIST_VERSION, SESSION_MS, Sizes
from bench.servers import START_SECONDS, Server, coterie
from coterie.coordinator.config import GroupConfig
from coterie.coordinator.shard import CoordinatorShard
from coterie.protocol.api import ApiKey
from coterie.protocol.frames import decode_response, encode_request
from coterie.protocol.group_records import encode_key, encode_value
from coterie.protocol.group_records.classic import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.protocol.messages.groups import ListGroupsRequest, ListGroupsResponse
from coterie.protocol.messages.session import ApiVersionsRequest
from coterie.protocol.records import RecordBatch, build_batch, decode_batches
from coterie.server.cluster import Cluster
from coterie.server.group_service import replay_batch
from coterie.server.settings.config import ServerConfig
from coterie.storage.config import Durability

__all__ = ["measurements", "memory_per_group"]

LOAD_SECONDS: Final = 10.0
LIST_MS: Final = 1_000.0
LIST_BY_STATE_MS: Final = 5.0
BLOCKED_MS: Final = 50.0
GROUP_BYTES: Final = 1_024.0

_TOPIC: Final = "events"
_LIKE: Final = RecordBatch(base_sequence=0)
_STAGED_AT_ONCE: Final = 2_000


def measurements(home: Path, sizes: Sizes) -> Iterator[Measurement]:
    """All of them; the load comes first and leaves the server running for the others."""
    home.mkdir()
    asyncio.run(_write_groups(home / "data", sizes))
    many = _ManyGroups(coterie(home), sizes)
    try:
        yield from many.measurements()
    finally:
        many.server.stop()
    memory = partial(memory_per_group, sizes.counted_groups)
    yield _beside_goal("scale_memory_per_group", memory, GROUP_BYTES, "B", max_rounds=1)


def _beside_goal(
    name: str, ours: Round, limit: float, unit: str, *, max_rounds: int
) -> Measurement:
    return Measurement(
        name=f"cluster.{name}",
        ours=ours,
        peers={"goal": lambda: limit},
        goal=1.0,
        agree=lambda: None,
        unit=unit,
        max_rounds=max_rounds,
    )


class _ManyGroups:
    """A server on a data directory with very many groups."""

    def __init__(self, server: Server, sizes: Sizes) -> None:
        self.server = server
        self._sizes = sizes
        self._blocked_by_load: list[float] = []
        self._blocked_by_list: list[float] = []

    def measurements(self) -> Iterator[Measurement]:
        yield _beside_goal("scale_load", self._restart, LOAD_SECONDS, "s", max_rounds=2)
        if not self._blocked_by_load:
            self._restart()
        yield _beside_goal("scale_list_all", self._list_all, LIST_MS, "ms", max_rounds=5)
        by_state = self._list_by_state
        yield _beside_goal("scale_list_10", by_state, LIST_BY_STATE_MS, "ms", max_rounds=30)
        # Taken during the rounds above: the longest wait in each, and the best of these.
        load, listing = self._blocked_by_load, self._blocked_by_list
        by_load = partial(min, load)
        yield _beside_goal("scale_blocked_by_load", by_load, BLOCKED_MS, "ms", max_rounds=1)
        if not listing:
            self._list_all()
        by_list = partial(min, listing)
        yield _beside_goal("scale_blocked_by_list", by_list, BLOCKED_MS, "ms", max_rounds=1)

    def _restart(self) -> float:
        """End the server in order, start it again; the seconds until groups can be listed."""
        self.server.terminate()
        begin = perf_counter()
        self.server.launch()
        with _Pinger(self.server.address) as pinger:
            self.server.wait(begin + START_SECONDS)
            took = perf_counter() - begin
        self._blocked_by_load.append(pinger.longest_ms)
        return took

    def _list_all(self) -> float:
        with _Pinger(self.server.address) as pinger:
            took = self._listed(ListGroupsRequest(), self._sizes.scale_groups)
            time.sleep(0.02)
        self._blocked_by_list.append(pinger.longest_ms)
        return took

    def _list_by_state(self) -> float:
        asked = ListGroupsRequest(states_filter=("Stable",))
        return self._listed(asked, self._sizes.scale_stable)

    def _listed(self, request: ListGroupsRequest, count: int) -> float:
        """Milliseconds until the last byte of a list is here; it is looked at afterwards."""
        data = encode_request(request, LIST_VERSION, correlation_id=1, client_id="bench")
        with socket.create_connection(self.server.address, timeout=START_SECONDS) as link:
            begin = perf_counter()
            link.sendall(data)
            body = _read_answer(link)
            took = perf_counter() - begin
        _, answer = decode_response(ApiKey.LIST_GROUPS, LIST_VERSION, bytes(body))
        if not isinstance(answer, ListGroupsResponse):
            raise TypeError(f"{type(answer).__name__} to ListGroups")
        must_equal("the list", (0, count), (answer.error_code, len(answer.groups)))
        return took * 1e3


def _read_answer(link: socket.socket) -> bytearray:
    body = bytearray()
    size = 4
    while len(body) < size:
        data = link.recv(1 << 20)
        if not data:
            raise ConnectionError("the server closed the connection")
        body += data
        if size == 4 and len(body) >= 4:
            size += int.from_bytes(body[:4], "big")
    del body[:4]
    return body


class _Pinger(threading.Thread):
    """Asks a server for its versions all the time, from the moment that it listens."""

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(name="pinger", daemon=True)
        self._address = address
        self._stop_asking = threading.Event()
        self._answered = threading.Event()
        self.longest_ms = 0.0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._answered.wait(1)
        self._stop_asking.set()
        self.join(START_SECONDS)

    def run(self) -> None:
        data = encode_request(ApiVersionsRequest(), 0, correlation_id=1, client_id="ping")
        while not self._stop_asking.is_set():
            with suppress(ConnectionRefusedError), self._connected() as link:
                while not self._stop_asking.is_set():
                    begin = perf_counter()
                    link.sendall(data)
                    _read_answer(link)
                    self.longest_ms = max(self.longest_ms, (perf_counter() - begin) * 1e3)
                    self._answered.set()
                    time.sleep(0.001)
            time.sleep(0.001)

    def _connected(self) -> socket.socket:
        return socket.create_connection(self._address, timeout=START_SECONDS)


async def _write_groups(root: Path, sizes: Sizes) -> None:
    """Fill a data directory: for each group its record, then a commit of all its partitions."""
    now = int(time.time() * 1000)
    committed = encode_value(OffsetCommitValue(offset=1_000_000, commit_timestamp=now), 3)
    empty = encode_value(_group_value(now), 3)
    config = ServerConfig(durability=Durability.OS)
    cluster = Cluster(root=root, config=config)
    await cluster.start()
    try:
        cluster.partitions.create_topic(_TOPIC, sizes.scale_offsets, {})
        for number in range(sizes.scale_groups):
            group = f"consumer-group-{number:06}"
            value = empty
            if number < sizes.scale_stable:
                value = encode_value(_group_value(now, group), 3)
            partition = cluster.partitions.offsets_partition(group)
            metadata = (encode_key(GroupMetadataKey(group)), value, now, ())
            partition.append(build_batch([metadata], _LIKE).encode())
            commit = [
                (encode_key(OffsetCommitKey(group, _TOPIC, index)), committed, now, ())
                for index in range(sizes.scale_offsets)
            ]
            partition.append(build_batch(commit, _LIKE).encode())
            if number % _STAGED_AT_ONCE == 0:
                await asyncio.sleep(0)
    finally:
        await cluster.stop()


def _group_value(now: int, group: str | None = None) -> GroupMetadataValue:
    """A consumer group that all have left, or one with a member that stays."""
    if group is None:
        return GroupMetadataValue(
            protocol_type="consumer",
            generation=3,
            protocol=None,
            leader=None,
            current_state_timestamp=now,
        )
    member = MemberMetadata(
        member_id=f"consumer-{group}-1",
        client_id="consumer",
        client_host="/10.0.0.7",
        rebalance_timeout=300_000,
        session_timeout=SESSION_MS,
        subscription=b"\x00" * 40,
        assignment=b"\x00" * 40,
    )
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader=member.member_id,
        current_state_timestamp=now,
        members=(member,),
    )


def memory_per_group(count: int) -> float:
    """Bytes that a shard keeps for a group of which the log tells nothing but that it exists."""
    now = int(time.time() * 1000)
    value = encode_value(_group_value(now), 3)
    log = b"".join(
        build_batch(
            [(encode_key(GroupMetadataKey(f"consumer-group-{number:06}")), value, now, ())], _LIKE
        ).encode()
        for number in range(count)
    )
    shard = CoordinatorShard(0, GroupConfig())
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for batch in decode_batches(log).batches:
            replay_batch(shard, batch)
        shard.load_finished(0.0, now)
        del batch
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    must_equal("the groups", count, len(shard.list_groups(ListGroupsRequest())))
    return (after - before) / count
