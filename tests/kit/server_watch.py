"""Watches every server of a test: its logs, its connections, and what is left when it has stopped.

What this is: an Observer of servers (coterie.server.requests.observer), and wrappers around public methods:
`start` and `stop` of Cluster, `data_received` of Connection. `install` puts both in place once per process.
Of each running cluster it checks, after every test and before it stops:
    I1-I4 each coordinator's state is what its partition's bytes replay to, and what a reload by another
          broker or the next start finds is what was acknowledged before,
    I7    a request is answered once; a cluster that has stopped has no connection left that waits,
    I8    answers leave in the order of the requests, each with its request's correlation id,
    I10   connections keep to their limits, and what one of them brings does not hold up the loop for long; a
          stopped cluster leaves no connection, task or thread behind.
Who calls it: tests.kit.invariant_watch, for every test.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import threading
import time
import weakref
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from coterie.coordinator import CoordinatorShard
from coterie.server.broker import Broker
from coterie.server.cluster import Cluster
from coterie.server.connections.connection import Connection
from coterie.server.group_service import HostedShard, replay_batch
from coterie.server.partitions.partition import Partition
from coterie.server.requests.observer import Observer, ShardChange, observe
from coterie.storage.files import OsFileSystem
from tests.kit.broken_promises import BROKEN, BrokenPromises
from tests.kit.coordinator_watch import COORDINATORS, CoordinatorWatch
from tests.kit.shard_history import ShardHistory

__all__ = ["SERVERS", "AnswerWatch", "ServerWatch", "install"]

#: Turns of a loop in which transports tell that they are closed.
_TURNS: Final = 5
#: What the bytes of one read may cost a server, in seconds of its thread's own work: not of a clock, for the
#: machine has other things to do; and without the collection of garbage, which in a process full of tests is
#: not the server's. Ten times what is promised.
_TURN_SECONDS: Final = 1.0
#: How long a loop may take to get to a check, in seconds.
_PATIENCE: Final = 60


class _Expected(NamedTuple):
    """A request, the slot of its answer, and the bytes of its correlation id if it has one."""

    slot: object
    correlation_id: bytes | None


class AnswerWatch(Observer):
    """The answers of all connections: each is given once, and leaves in the order of the requests."""

    def __init__(self, broken: BrokenPromises) -> None:
        self._broken = broken
        self._waiting: WeakKeyDictionary[object, deque[_Expected]] = WeakKeyDictionary()
        # By the identity of the slot, which `_waiting` keeps alive.
        self._asked: dict[int, bytes | None] = {}
        self._answers: dict[int, bytes] = {}

    def request(self, connection: object, slot: object, correlation_id: int | None) -> None:
        asked = None if correlation_id is None else correlation_id.to_bytes(4, "big", signed=True)
        waiting = self._waiting.get(connection)
        if waiting is None:
            waiting = self._waiting[connection] = deque()
            weakref.finalize(connection, self._forget, waiting)
        waiting.append(_Expected(slot, asked))
        self._asked[id(slot)] = asked

    def answer(self, slot: object, data: bytes) -> None:
        if id(slot) not in self._asked:
            self._broken.add("I7: a request was answered twice, or never received")
        elif id(slot) in self._answers:
            self._broken.add(f"I7: request {self._asked[id(slot)]!r} was answered twice")
        self._answers[id(slot)] = data

    def sent(self, connection: object, data: bytes) -> None:
        waiting = self._waiting[connection]
        at = 0
        while at < len(data) or (waiting and self._answers.get(id(waiting[0].slot)) == b""):
            slot, asked = waiting.popleft()
            del self._asked[id(slot)]
            if self._answers.pop(id(slot), None) == b"":
                continue  # a request that wants no answer
            answered = data[at + 4 : at + 8]
            if asked is not None and answered != asked:
                self._broken.add(f"I8: {asked!r} is to be answered, and {answered!r} was")
            at += 4 + int.from_bytes(data[at : at + 4], "big")

    def _forget(self, waiting: deque[_Expected]) -> None:
        for slot, _ in waiting:
            self._asked.pop(id(slot), None)
            self._answers.pop(id(slot), None)


class Work(threading.local):
    """How long a thread has worked, collections of garbage left out."""

    def __init__(self) -> None:
        self._collecting = 0.0
        self._began = 0.0

    def seconds(self) -> float:
        return time.thread_time() - self._collecting

    def collected(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.thread_time()
        else:
            self._collecting += time.thread_time() - self._began


WORK = Work()


class ServerWatch:
    """The clusters that are running, and what the coordinators before theirs have promised."""

    def __init__(self, coordinators: CoordinatorWatch, broken: BrokenPromises) -> None:
        self._coordinators = coordinators
        self._broken = broken
        self.running: set[Cluster] = set()
        #: The coordinators before, by their logs. With the log's file system, which stays alive by it, and so
        #: does its id.
        self._before: dict[tuple[int, str], tuple[Any, ShardHistory]] = {}
        #: Shards that are loaded and not given up.
        self._loaded: set[CoordinatorShard] = set()
        #: Threads that were left, each told once.
        self._left: set[threading.Thread] = set()

    # Coordinators

    def changed(self, change: ShardChange, shard: CoordinatorShard, partition: Partition) -> None:
        """A server leads, loads or gives up a shard."""
        match change:
            case ShardChange.LED:
                self._coordinators.host(shard)
            case ShardChange.LOADED:
                self._loaded.add(shard)
                self._check_loaded(shard, partition)
            case ShardChange.FAILED:
                # Something could not be written; which of it was acknowledged, only the clients know.
                self._coordinators.history(shard).abandoned = True
            case ShardChange.RESIGNING:
                self._remember(shard, partition)
            case ShardChange.RESIGNED:
                self._coordinators.forget(shard)
                self._loaded.discard(shard)

    def _check_loaded(self, shard: CoordinatorShard, partition: Partition) -> None:
        """Another coordinator has had this log before: what it has acknowledged has to be there."""
        _, before = self._before.pop(_log(partition), (None, None))
        try:
            self._coordinators.history(shard).look(before)
        except AssertionError as error:
            self._broken.add(f"{error}, after {partition.log.directory.name} was loaded")

    def _remember(self, shard: CoordinatorShard, partition: Partition) -> None:
        history = self._coordinators.history(shard)
        if shard in self._loaded and not history.abandoned:
            history.look()
            self._before[_log(partition)] = (partition.committer.directory.fs, history)

    async def check_log(self, hosted: HostedShard) -> None:
        """I4 with the bytes of the log, and I1 to I3 with what a restart would make of them."""
        history = self._coordinators.history(hosted.shard)
        if not history.changed or not hosted.loaded:
            return
        partition = hosted.partition
        await partition.written()
        if history.abandoned or partition.committer.broken is not None or partition.log.is_deleted:
            return
        history.changed = False
        reloaded = CoordinatorShard(partition.index, hosted.shard.config)
        for batch in partition.log.batches():
            replay_batch(reloaded, batch)
        self._coordinators.forget(reloaded)
        try:
            history.check()
            history.check_reloaded(reloaded)
        except AssertionError as error:
            self._broken.add(f"{error} ({partition.log.directory.name})")

    # Clusters

    async def check_running(self, cluster: Cluster) -> None:
        """A test is over, or the cluster is about to stop."""
        for broker in list(cluster.brokers.values()):
            for hosted in broker.services.groups.hosted():
                await self.check_log(hosted)
            self._check_limits(broker)

    def _check_limits(self, broker: Broker) -> None:
        """I10: what one client can make a broker keep."""
        config = broker.config
        if len(broker.connections) > config.max_connections + 1:  # the one that is being refused
            self._broken.add(f"I10: {len(broker.connections)} connections")
        for connection in broker.connections:
            held, unsent = connection.incomplete_bytes, connection.unsent_bytes
            if connection.under_way > config.max_in_flight:
                count = connection.under_way
                self._broken.add(f"I10: {count} requests of one connection are under way")
            if held > config.max_request_bytes:
                self._broken.add(f"I10: {held} bytes of an incomplete frame are held")
            if unsent > config.max_write_buffer_bytes:
                self._broken.add(f"I10: {unsent} bytes wait for a client that does not read")

    def check_turn(self, seconds: float) -> None:
        """I10: how long one read of one client has kept all others waiting."""
        if seconds > _TURN_SECONDS:
            self._broken.add(f"I10: one read of one connection took {seconds:.1f} s of work")

    async def check_stopped(self, brokers: list[Broker]) -> None:
        """I10: nothing is left of it."""
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        for broker in brokers:
            if broker.connections:
                count = len(broker.connections)
                self._broken.add(f"I7, I10: a stopped broker has {count} connections")
            if any(each.is_open for each in broker.endpoints.values()):
                self._broken.add("I10: a stopped broker listens")
        if not any(self._loop(each) is asyncio.get_running_loop() for each in self.running):
            for task in asyncio.all_tasks():
                if task is not asyncio.current_task() and _is_ours(task):
                    self._broken.add(f"I10: a stopped cluster has left a task: {task.get_coro()}")

    def check(self) -> None:
        """After a test: the clusters that go on running, each in its own loop."""
        for cluster in list(self.running):
            loop = self._loop(cluster)
            if loop is None or not loop.is_running():
                self.running.discard(cluster)  # a test that cuts the power leaves it like this
                continue
            work = self.check_running(cluster)
            asyncio.run_coroutine_threadsafe(work, loop).result(_PATIENCE)
        self._before.clear()
        if not self.running:
            self._loaded.clear()
            left = {each for each in threading.enumerate() if "coterie-commit" in each.name}
            if left - self._left:
                self._broken.add(f"I10: {len(left)} threads are left of clusters that have stopped")
            self._left = left

    @staticmethod
    def _loop(cluster: Cluster) -> asyncio.AbstractEventLoop | None:
        return next((broker.loop for broker in cluster.brokers.values()), None)


SERVERS = ServerWatch(COORDINATORS, BROKEN)


def _log(partition: Partition) -> tuple[int, str]:
    """Where a log is, on which file system; all of the operating system's are one."""
    fs = partition.committer.directory.fs
    which = 0 if isinstance(fs, OsFileSystem) else id(fs)
    return which, str(partition.log.directory)


def _is_ours(task: asyncio.Task[Any]) -> bool:
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and "/coterie/server/" in code.co_filename


@functools.cache
def install() -> None:
    """Watch all servers of this process, from now on."""
    _watch_clusters()
    _watch_reads()
    observe(_Watch(BROKEN))


class _Watch(AnswerWatch):
    """Passes what servers report to the watches of this kit."""

    def shard(self, change: ShardChange, shard: CoordinatorShard, partition: Partition) -> None:
        SERVERS.changed(change, shard, partition)


def _watch_clusters() -> None:
    start, stop = Cluster.start, Cluster.stop

    @functools.wraps(start)
    async def watched_start(self: Cluster) -> None:
        await start(self)
        SERVERS.running.add(self)

    @functools.wraps(stop)
    def watched_stop(self: Cluster) -> Coroutine[Any, Any, None]:
        return _stop(self, stop)

    Cluster.start = watched_start  # type: ignore[method-assign]
    Cluster.stop = watched_stop  # type: ignore[method-assign]


async def _stop(cluster: Cluster, stop: Any) -> None:
    brokers = list(cluster.brokers.values())
    if cluster in SERVERS.running:
        await SERVERS.check_running(cluster)
    try:
        await stop(cluster)
    finally:
        SERVERS.running.discard(cluster)
    await SERVERS.check_stopped(brokers)


def _watch_reads() -> None:
    received = Connection.data_received

    @functools.wraps(received)
    def watched_received(self: Connection, data: bytes) -> None:
        began = WORK.seconds()
        received(self, data)
        SERVERS.check_turn(WORK.seconds() - began)

    gc.callbacks.append(WORK.collected)
    Connection.data_received = watched_received  # type: ignore[method-assign]
