"""Reading raw partitions: record batches as brokers store them, for reading records in bulk.

Each leader is asked about all its partitions at once, and asked again before what it answered is handed
out, so that it works while the caller does. A partition whose leader moves is read on where it went.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Final, NamedTuple, Self

from coterie.client.coordinators import Leaders
from coterie.client.network import PATIENCE_SECONDS, Deadline, Network, Node
from coterie.client.partitions import TopicPartition, by_topic
from coterie.client.record_batches import Budget, FetchedRecords, cut
from coterie.client.results import LogOffset, Result
from coterie.client.routing import moved_away
from coterie.error_codes import ErrorCode
from coterie.errors import BrokerUnreachable, CoterieError, kafka_error
from coterie.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from coterie.protocol.types import Uuid

__all__ = ["FetchPlan", "Fetching"]

#: One answer: large enough that few are needed, and small enough that its memory is used again. With 16 MiB
#: every answer came in fresh pages, which took thrice the time of reading it.
_MOST_BYTES: Final = 4 << 20
#: The first answer is small: it is processed while the next one comes.
_FIRST_BYTES: Final = 1 << 20
#: Of a partition of which less is wanted: so much for each record, and at least so much. A broker sends the
#: first batch of an answer whole however large it is (KIP-74), so this is never too little to go on.
_BYTES_PER_RECORD: Final = 1 << 10
_LEAST_BYTES: Final = 64 << 10
#: How long a broker may wait for records that are not there yet (fetch.max.wait.ms).
_WAIT_MS: Final = 500
#: Answers that may wait to be handed out; each leader holds one more, and has one under way.
_WAITING: Final = 4
#: From version 13 on topics go by id (KIP-516).
_NAMES_UP_TO: Final = 12

#: Asks where logs begin.
Starts = Callable[
    [Iterable[TopicPartition], Deadline], Awaitable[Result[TopicPartition, LogOffset]]
]


class FetchPlan(NamedTuple):
    """What to read and how; see AdminClient.fetch."""

    #: First offset and the offset after the last; None is the beginning, and the end as it is found.
    spans: Mapping[TopicPartition, tuple[int | None, int | None]]
    committed: bool = False
    skip_deleted: bool = False
    max_bytes: int | None = None
    max_records: int | None = None


class _Taken(NamedTuple):
    """What an answer brought, and the partitions to go on with: here, elsewhere, from another place."""

    chunks: list[FetchedRecords]
    left: list[TopicPartition]
    moved: list[TopicPartition]
    deleted: list[TopicPartition]


class Fetching:
    """One reading of some partitions: iterate over it, inside `async with` if you may stop early.

    It ends when every partition is read to its end, or the budget is spent. If a partition could not be
    read, it says so at the end, after all that could: by an exception that names all of them.
    """

    def __init__(
        self,
        network: Network,
        leaders: Leaders,
        starts: Starts,
        plan: FetchPlan,
        *,
        deadline: Callable[[], Deadline],
    ) -> None:
        self._network = network
        self._leaders = leaders
        self._starts = starts
        self._plan = plan
        self._new_deadline = deadline
        self._deadline = deadline()
        #: Where each partition is read next; at the end, the offset after the last record that was returned.
        self.positions = {key: start for key, (start, _) in plan.spans.items() if start is not None}
        self.errors: dict[TopicPartition, CoterieError] = {}
        self._unplaced = [key for key, (start, _) in plan.spans.items() if start is None]
        self._ends = {key: end for key, (_, end) in plan.spans.items()}
        self._topic_ids: dict[str, Uuid] = {}
        self._causes: dict[TopicPartition, CoterieError] = {}
        self._budget = Budget(plan.max_bytes, plan.max_records)
        self._answer_bytes = _FIRST_BYTES
        self._ready: asyncio.Queue[FetchedRecords | None] = asyncio.Queue(_WAITING)
        self._group = asyncio.TaskGroup()
        self._work: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None

    # -- for the caller -------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> FetchedRecords:
        found = await self.next()
        if found is None:
            raise StopAsyncIteration
        return found

    async def next(self) -> FetchedRecords | None:
        """The next records, or None when there are no more; raises if some could not be read."""
        if self._work is None:
            self._work = asyncio.get_running_loop().create_task(self._run())
        found = await self._ready.get()
        # Time in which the caller worked is not time in which a broker was silent.
        self._deadline = self._new_deadline()
        if found is None:
            self._ready.put_nowait(None)
            if self._failure is not None:
                raise self._failure
            Result(self.positions, self.errors).unwrap()
        return found

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop reading; a second time does nothing."""
        if self._work is None:
            self._work = asyncio.get_running_loop().create_task(asyncio.sleep(0))
        self._work.cancel()
        await asyncio.wait([self._work])
        self._failure = BrokerUnreachable("the reading was closed; iterate inside its block")
        while not self._ready.empty():
            self._ready.get_nowait()
        self._ready.put_nowait(None)

    # -- brokers --------------------------------------------------------------------------------------

    async def _run(self) -> None:
        # Cached leaders may be those of a topic that was recreated since.
        self._leaders.forget(self._plan.spans)
        try:
            if self._unplaced:
                await self._place(self._unplaced)
            async with self._group:
                self._group.create_task(self._serve(self._open(self.positions), 0))
        except ExceptionGroup as trouble:
            self._failure = trouble.exceptions[0]
        except CoterieError as error:
            self._failure = error
        await self._ready.put(None)

    async def _place(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin where the logs begin now."""
        found = await self._starts(partitions, self._deadline)
        self.errors.update(found.errors)
        self.positions.update((key, place.offset) for key, place in found.items.items())

    def _open(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those that are not read to their ends."""
        ends = self._ends
        return [
            key
            for key in partitions
            if (end := ends[key]) is None or self.positions[key] < end
            if key not in self.errors
        ]

    async def _serve(self, partitions: list[TopicPartition], tries: int) -> None:
        """Find the leaders, and read from each by itself."""
        try:
            found, lost = await self._leaders.find(partitions, self._deadline)
        except CoterieError as error:
            self.errors.update(dict.fromkeys(partitions, error))
            return
        nowhere: list[TopicPartition] = []
        for key, trouble in lost.items():
            if trouble.code is ErrorCode.LEADER_NOT_AVAILABLE:
                nowhere.append(key)
                self._causes[key] = trouble
            else:
                self.errors[key] = trouble
        by_node: dict[Node, list[TopicPartition]] = {}
        for key, node in found.items():
            if self._same_topic(key):
                by_node.setdefault(node, []).append(key)
        for node, theirs in by_node.items():
            self._group.create_task(self._read(node, theirs, tries))
        if nowhere:
            await self._again(nowhere, tries)

    def _same_topic(self, key: TopicPartition) -> bool:
        """Whether the topic is still the one that was read so far; offsets of another mean nothing."""
        now = self._leaders.topic_ids.get(key.topic, Uuid.ZERO)
        if self._topic_ids.setdefault(key.topic, now) == now:
            return True
        text = "it was deleted and recreated while it was read; read it from the beginning"
        self.errors[key] = kafka_error(ErrorCode.UNKNOWN_TOPIC_ID, f"topic {key.topic!r}", text)
        return False

    async def _again(self, partitions: list[TopicPartition], tries: int) -> None:
        self._leaders.forget(partitions)
        if await self._deadline.pause(tries):
            await self._serve(partitions, tries + 1)
            return
        for key in partitions:
            self.errors[key] = self._deadline.exceeded(
                self._leaders.name(key), self._causes.get(key), tries + 1
            )

    async def _read(self, node: Node, partitions: list[TopicPartition], tries: int) -> None:
        """Read from one leader until nothing is left that it leads."""
        asking = self._group.create_task(self._ask(node, partitions))
        while True:
            answer = await self._wait(asking, node, partitions)
            if isinstance(answer, CoterieError):
                self._fail(partitions, answer, tries)
                return
            taken = self._take(answer, partitions)
            tries = 0 if taken.chunks else tries
            if taken.moved:
                self._group.create_task(self._again(taken.moved, tries))
            if taken.deleted:
                self._group.create_task(self._jump(taken.deleted, tries))
            if taken.left:
                # Before what came is handed out: the broker reads while the caller does.
                asking = self._group.create_task(self._ask(node, taken.left))
            for chunk in taken.chunks:
                await self._ready.put(chunk)
            if not taken.left:
                return
            partitions = taken.left

    def _fail(self, partitions: list[TopicPartition], error: CoterieError, tries: int) -> None:
        if isinstance(error, BrokerUnreachable):
            for key in partitions:
                # That the time is up is no cause, if there is one.
                if key not in self._causes or not self._deadline.over:
                    self._causes[key] = error
            self._group.create_task(self._again(partitions, tries))
        else:
            self.errors.update(dict.fromkeys(partitions, error))

    async def _wait(
        self,
        asking: asyncio.Task[FetchResponse | CoterieError],
        node: Node,
        partitions: list[TopicPartition],
    ) -> FetchResponse | CoterieError:
        """The answer; a broker that is silent and no longer leads is not waited for."""
        patience = PATIENCE_SECONDS + _WAIT_MS / 1000
        while not (await asyncio.wait([asking], timeout=patience))[0]:
            if await moved_away(self._leaders, node, partitions, self._deadline):
                asking.cancel()
                return BrokerUnreachable(f"{node} does not answer")
        return asking.result()

    async def _ask(
        self, node: Node, partitions: list[TopicPartition]
    ) -> FetchResponse | CoterieError:
        ids = {topic: self._topic_ids[topic] for topic in {key.topic for key in partitions}}
        topics = tuple(
            FetchTopic(
                topic,
                ids[topic],
                tuple(
                    FetchPartition(
                        index,
                        fetch_offset=self.positions[TopicPartition(topic, index)],
                        partition_max_bytes=self._room(TopicPartition(topic, index)),
                    )
                    for index in indexes
                ),
            )
            for topic, indexes in by_topic(partitions).items()
        )
        request = FetchRequest(
            # At the end of the time there is to be an answer, and not a broker that still waits.
            max_wait_ms=min(_WAIT_MS, int(self._deadline.left * 500)),
            min_bytes=1,
            max_bytes=min(
                self._answer_bytes, self._network.settings.receive_message_max_bytes // 2
            ),
            isolation_level=int(self._plan.committed),
            topics=topics,
        )
        self._answer_bytes = _MOST_BYTES
        at_most = _NAMES_UP_TO if Uuid.ZERO in ids.values() else 32767
        try:
            return await self._network.ask(
                node, request, FetchResponse, self._deadline, at_most=at_most
            )
        except CoterieError as error:
            return error

    def _room(self, key: TopicPartition) -> int:
        """How many bytes of a partition to ask for: records after its end would be thrown away."""
        end = self._ends[key]
        if end is None:
            return _MOST_BYTES
        wanted = (end - self.positions[key]) * _BYTES_PER_RECORD
        return min(max(wanted, _LEAST_BYTES), _MOST_BYTES)

    async def _jump(self, partitions: list[TopicPartition], tries: int) -> None:
        """What was to be read is not there: deleted meanwhile, or never written."""
        if not self._plan.skip_deleted:
            for key in partitions:
                self.errors[key] = kafka_error(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    self._leaders.name(key),
                    f"offset {self.positions[key]} is not in its log; it was deleted, or never written",
                )
            return
        before = {key: self.positions[key] for key in partitions}
        await self._place(partitions)
        for key, position in before.items():
            # A log that begins earlier and has no such offset was cut at its end: not skipped, but lost.
            if key not in self.errors and self.positions[key] <= position:
                text = f"offset {position} is after the end of its log"
                code = ErrorCode.OFFSET_OUT_OF_RANGE
                self.errors[key] = kafka_error(code, self._leaders.name(key), text)
        await self._serve(self._open(partitions), tries)

    # -- answers --------------------------------------------------------------------------------------

    def _take(self, answer: FetchResponse, partitions: list[TopicPartition]) -> _Taken:
        names = {topic_id: topic for topic, topic_id in self._topic_ids.items()}
        data = {
            TopicPartition(topic.topic or names.get(topic.topic_id, ""), each.partition_index): each
            for topic in answer.responses
            for each in topic.partitions
        }
        chunks: list[FetchedRecords] = []
        moved: list[TopicPartition] = []
        deleted: list[TopicPartition] = []
        served: list[TopicPartition] = []
        hungry: list[TopicPartition] = []
        for key in partitions:
            each = data.get(key)
            code = ErrorCode.of(answer.error_code or (each.error_code if each else 0))
            if code is ErrorCode.OFFSET_OUT_OF_RANGE:
                deleted.append(key)
            elif code is not ErrorCode.NONE:
                self._refuse(key, code, moved)
            elif each is not None and (chunk := self._chunk(key, each)) is not None:
                chunks.append(chunk)
                served.append(key)
            else:
                hungry.append(key)
        for key in self._open(hungry):
            self._causes[key] = CoterieError(f"offset {self.positions[key]} is not there yet")
            if self._deadline.over:
                self.errors[key] = self._deadline.exceeded(
                    self._leaders.name(key), self._causes[key], 1
                )
        if chunks:
            self._deadline = self._new_deadline()
        # Those that got nothing come first next time: a broker fills its answer in this order.
        left = [] if self._budget.spent else self._open(hungry + served)
        return _Taken(chunks, left, moved, deleted)

    def _refuse(self, key: TopicPartition, code: ErrorCode, moved: list[TopicPartition]) -> None:
        error = kafka_error(code, self._leaders.name(key))
        if code.retriable:
            self._causes[key] = error
            moved.append(key)
        else:
            self.errors[key] = error

    def _chunk(self, key: TopicPartition, data: PartitionData) -> FetchedRecords | None:
        """What a broker sent of a partition, cut to whole batches that are wanted."""
        if self._ends[key] is None:
            self._ends[key] = (
                data.last_stable_offset if self._plan.committed else data.high_watermark
            )
        start = self.positions[key]
        if not data.records or self._budget.spent:
            return None
        try:
            size, stop, places = cut(data.records, start, self._ends[key] or 0, self._budget)
        except CoterieError as error:
            self.errors[key] = error
            return None
        if stop <= start:
            return None
        self.positions[key] = stop
        if not size:
            return None
        return FetchedRecords(
            key,
            start,
            stop,
            data.records[:size],
            data.high_watermark,
            data.last_stable_offset,
            data.log_start_offset,
            data.aborted_transactions or (),
            places,
        )
