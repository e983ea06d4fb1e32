"""Watches every server of a test: its logs, its connections, and what is left when it has stopped.

What this is: wrappers around Cluster, GroupService and the server's Connection, put there once per process by
`install`. Of each running cluster it holds, after every test and before it stops:
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
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final

from coterie.coordinator import CoordinatorShard
from coterie.server.broker import Broker
from coterie.server.cluster import Cluster
from coterie.server.connections.authentication import _State
from coterie.server.connections.connection import Connection, Server
from coterie.server.connections.listeners import Listener
from coterie.server.groups.service import GroupService, HostedShard, replay_batch
from coterie.server.requests.calls import Slot, Slots
from coterie.storage.files import OsFileSystem
from tests.kit.broken_promises import BROKEN, BrokenPromises
from tests.kit.coordinator_watch import COORDINATORS, CoordinatorWatch
from tests.kit.shard_history import ShardHistory

__all__ = ["SERVERS", "OrderedSlots", "ServerWatch", "install"]

#: Turns of a loop in which transports tell that they are closed.
_TURNS: Final = 5
#: What the bytes of one read may cost a server, in seconds of its thread's own work: not of a clock, for the
#: machine has other things to do; and without the collection of garbage, which in a process full of tests is
#: not the server's. Ten times what is promised.
_TURN_SECONDS: Final = 1.0
#: How long a loop may take to get to a check, in seconds.
_PATIENCE: Final = 60


class OnceSlot(Slot):
    """The place of one answer, which knows the request that it answers and takes one answer only."""

    __slots__ = ("_answer", "_broken", "asked")

    def __init__(self, asked: bytes | None, broken: BrokenPromises) -> None:
        #: The bytes of the request's correlation id; None where a request has none.
        self.asked = asked
        self._answer: bytes | None = None
        self._broken = broken

    @property
    def data(self) -> bytes | None:
        return self._answer

    @data.setter
    def data(self, answer: bytes | None) -> None:
        if self._answer is not None:
            self._broken.add(f"I7: request {self.asked!r} was answered twice")
        self._answer = answer


class OrderedSlots(Slots):
    """The slots of a connection, which look at what leaves."""

    __slots__ = ("_broken", "_order", "asked")

    def __init__(self, broken: BrokenPromises) -> None:
        super().__init__()
        self._broken = broken
        self._order: deque[OnceSlot] = deque()
        #: The correlation id of the request that is being handled.
        self.asked: bytes | None = None

    def open(self) -> Slot:
        slot = OnceSlot(self.asked, self._broken)
        self._waiting.append(slot)
        self._order.append(slot)
        return slot

    def take_ready(self) -> bytes:
        ready = super().take_ready()
        at = 0
        while at < len(ready) or (self._order and self._order[0].data == b""):
            slot = self._order.popleft()
            if slot.data == b"":
                continue  # a request that wants no answer
            answered = ready[at + 4 : at + 8]
            if slot.asked is not None and answered != slot.asked:
                self._broken.add(f"I8: {slot.asked!r} is to be answered, and {answered!r} was")
            at += 4 + int.from_bytes(ready[at : at + 4], "big")
        return ready


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
        #: Threads that were left, each told once.
        self._left: set[threading.Thread] = set()

    # Coordinators

    def loaded(self, hosted: HostedShard) -> None:
        """Another coordinator has had this log before: what it has acknowledged has to be there."""
        _, before = self._before.pop(_log(hosted), (None, None))
        try:
            self._coordinators.history(hosted.shard).look(before)
        except AssertionError as error:
            self._broken.add(f"{error}, after {hosted.partition.log.directory.name} was loaded")

    def resigns(self, hosted: HostedShard) -> None:
        history = self._coordinators.history(hosted.shard)
        if hosted.loaded and not history.abandoned:
            history.look()
            fs = hosted.partition.committer.directory.fs
            self._before[_log(hosted)] = (fs, history)

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
        reloaded = CoordinatorShard(partition.index, hosted.shard._config)
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
        if len(broker._connections) > config.max_connections + 1:  # the one that is being refused
            self._broken.add(f"I10: {len(broker._connections)} connections")
        for connection in broker._connections:
            slots, held = len(connection._slots), len(connection._frames)
            transport = connection._transport
            unsent = 0 if transport is None else transport.get_write_buffer_size()
            if slots > config.max_in_flight:
                self._broken.add(f"I10: {slots} requests of one connection are under way")
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
            if broker._connections:
                count = len(broker._connections)
                self._broken.add(f"I7, I10: a stopped broker has {count} connections")
            if any(each._server is not None for each in broker.endpoints.values()):
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
            left = {each for each in threading.enumerate() if "coterie-commit" in each.name}
            if left - self._left:
                self._broken.add(f"I10: {len(left)} threads are left of clusters that have stopped")
            self._left = left

    @staticmethod
    def _loop(cluster: Cluster) -> asyncio.AbstractEventLoop | None:
        return next((broker.loop for broker in cluster.brokers.values()), None)


SERVERS = ServerWatch(COORDINATORS, BROKEN)


def _log(hosted: HostedShard) -> tuple[int, str]:
    """Where a log is, on which file system; all of the operating system's are one."""
    fs = hosted.partition.committer.directory.fs
    which = 0 if isinstance(fs, OsFileSystem) else id(fs)
    return which, str(hosted.partition.log.directory)


def _is_ours(task: asyncio.Task[Any]) -> bool:
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and "/coterie/server/" in code.co_filename


@functools.cache
def install() -> None:
    """Watch all servers of this process, from now on."""
    _watch_clusters()
    _watch_coordinators()
    _watch_connections()


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


def _watch_coordinators() -> None:
    init, loaded = HostedShard.__init__, GroupService._loaded
    resign, reload = GroupService.resign, GroupService._reload

    @functools.wraps(init)
    def watched_init(self: HostedShard, shard: CoordinatorShard, partition: Any) -> None:
        init(self, shard, partition)
        COORDINATORS.host(shard)

    @functools.wraps(loaded)
    def watched_loaded(self: GroupService, hosted: HostedShard) -> None:
        SERVERS.loaded(hosted)
        loaded(self, hosted)

    @functools.wraps(resign)
    def watched_resign(self: GroupService, index: int) -> None:
        hosted = self._shards.get(index)
        if hosted is not None:
            SERVERS.resigns(hosted)
        resign(self, index)
        if hosted is not None:
            COORDINATORS.forget(hosted.shard)

    @functools.wraps(reload)
    def watched_reload(self: GroupService, hosted: HostedShard) -> None:
        # Something could not be written; what of it was acknowledged, only the clients know.
        COORDINATORS.history(hosted.shard).abandoned = True
        reload(self, hosted)

    HostedShard.__init__ = watched_init  # type: ignore[method-assign]
    GroupService._loaded = watched_loaded  # type: ignore[method-assign]
    GroupService.resign = watched_resign  # type: ignore[method-assign]
    GroupService._reload = watched_reload  # type: ignore[method-assign]


def _watch_connections() -> None:
    init, handle, received = Connection.__init__, Connection._handle, Connection.data_received

    @functools.wraps(init)
    def watched_init(self: Connection, server: Server, listener: Listener) -> None:
        init(self, server, listener)
        self._slots = OrderedSlots(BROKEN)

    @functools.wraps(handle)
    def watched_handle(self: Connection, frame: bytes) -> None:
        gate = self._gate
        bare = gate is not None and gate._state is _State.TOKENS and not gate._framed
        slots = self._slots
        if isinstance(slots, OrderedSlots):
            slots.asked = None if bare else frame[4:8]
        handle(self, frame)

    @functools.wraps(received)
    def watched_received(self: Connection, data: bytes) -> None:
        began = WORK.seconds()
        received(self, data)
        SERVERS.check_turn(WORK.seconds() - began)

    gc.callbacks.append(WORK.collected)
    Connection.__init__ = watched_init  # type: ignore[method-assign]
    Connection.data_received = watched_received  # type: ignore[method-assign]
    Connection._handle = watched_handle  # type: ignore[method-assign]
