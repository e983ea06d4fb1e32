"""The coordinators of one broker: which shards it leads, and the way of a request through one.

A request's way: find the shard → the shard's handler (pure) → records staged as one batch → replayed →
the answer leaves when the batch is durable. A read has nothing to write, but what it saw may not be
durable yet: its answer waits for the round of the last batch of its shard.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Hashable, Iterable
from functools import partial
from typing import cast

from coterie.coordinator.config import GroupConfig
from coterie.coordinator.outcome import Outcome, RequestContext
from coterie.coordinator.shard import CoordinatorShard
from coterie.error_codes import ErrorCode
from coterie.protocol.group_records import decode_record, encode_key, encode_value
from coterie.protocol.group_state import partition_for
from coterie.protocol.records import (
    ControlRecordType,
    RecordBatch,
    decode_control_record,
    encode_plain_batch,
)
from coterie.protocol.records.batch import TRANSACTIONAL_FLAG_MASK
from coterie.protocol.schema import Response
from coterie.protocol.types import Uuid
from coterie.security.acls import Operation, ResourceType
from coterie.server.clock import Clock
from coterie.server.metadata.topics import ClusterMetadata
from coterie.server.partitions.committer import CommitRound, StorageLate, when_all_end
from coterie.server.partitions.partition import Partition
from coterie.server.partitions.table import PartitionTable
from coterie.server.requests import observer
from coterie.server.requests.calls import Call
from coterie.server.requests.observer import ShardChange
from coterie.server.settings.brokers import BrokerSettings
from coterie.server.settings.cluster import ClusterSettings
from coterie.server.settings.groups import group_config, group_configs
from coterie.storage.errors import StorageError

__all__ = ["GroupService", "HostedShard"]

#: A timer that is so late was not late by work: the process was stopped, or the machine slept.
_PAUSE_SECONDS = 0.1

#: How long a load may have the event loop for itself.
_LOAD_SLICE_SECONDS = 0.005


class HostedShard:
    """A shard that this broker leads, with its log."""

    __slots__ = ("last_round", "loaded", "partition", "shard")

    def __init__(self, shard: CoordinatorShard, partition: Partition) -> None:
        self.shard = shard
        self.partition = partition
        self.loaded = False
        #: The round of the newest batch; an answer may not leave before it is durable.
        self.last_round: CommitRound | None = None


class GroupService:
    """The group coordinator of one broker."""

    def __init__(
        self,
        settings: ClusterSettings,
        broker_settings: BrokerSettings,
        metadata: ClusterMetadata,
        partitions: PartitionTable,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._broker_settings = broker_settings
        self._metadata = metadata
        self._partitions = partitions
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._shards: dict[int, HostedShard] = {}
        self._to_load: deque[HostedShard] = deque()
        self._loader: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")
        #: Groups with settings of their own (KIP-848).
        self._configs = group_configs(settings, broker_settings.config.group)

    def settings_changed(self, group_id: str) -> None:
        """Act on new settings of a group, from its next request on."""
        config = group_config(self._settings, group_id, self._config)
        if config is None:
            self._configs.pop(group_id, None)
        else:
            self._configs[group_id] = config

    @property
    def _config(self) -> GroupConfig:
        return self._broker_settings.config.group

    # -- leadership -----------------------------------------------------------------------------------

    def lead(self, partition: Partition) -> None:
        """Become the coordinator of a partition: load it; until then it answers that it is loading."""
        shard = CoordinatorShard(partition.index, self._config, self._configs)
        hosted = HostedShard(shard, partition)
        self._shards[partition.index] = hosted
        _report(ShardChange.LED, hosted)
        if partition.is_empty:
            self._loaded(hosted)
            return
        self._to_load.append(hosted)
        if self._loader is None or self._loader.done():
            self._loader = self._loop.create_task(self._load_all())

    def leads(self, index: int) -> bool:
        return index in self._shards

    def resign(self, index: int) -> None:
        """Stop being the coordinator; parked requests learn that they must look elsewhere."""
        hosted = self._shards.pop(index, None)
        if hosted is None:
            return
        _report(ShardChange.RESIGNING, hosted)
        for token, response in hosted.shard.unload():
            cast("Call", token).answer(response)
        _report(ShardChange.RESIGNED, hosted)

    def resign_all(self) -> None:
        for index in list(self._shards):
            self.resign(index)
        if self._timer is not None:
            self._timer.cancel()
        if self._loader is not None:
            self._loader.cancel()

    async def settled(self) -> None:
        """Wait until nothing loads."""
        if self._loader is not None and not self._loader.done():
            await asyncio.wait([self._loader])

    async def _load_all(self) -> None:
        """Replay the logs of new shards, one after the other, and let others have the loop in between."""
        clock = self._clock
        pause_at = clock.monotonic() + _LOAD_SLICE_SECONDS
        while self._to_load:
            hosted = self._to_load.popleft()
            # The coordinator before may still be writing, and acknowledges what it has written.
            await hosted.partition.written()
            for batch in hosted.partition.log.batches():
                if self._shards.get(hosted.partition.index) is not hosted:
                    break  # it moved away while it was loaded
                replay_batch(hosted.shard, batch)
                if clock.monotonic() > pause_at:
                    await asyncio.sleep(0)
                    pause_at = clock.monotonic() + _LOAD_SLICE_SECONDS
            else:
                self._loaded(hosted)

    def _loaded(self, hosted: HostedShard) -> None:
        _report(ShardChange.LOADED, hosted)
        clock = self._clock
        hosted.shard.load_finished(clock.monotonic(), clock.now_ms())
        hosted.loaded = True
        self._schedule(hosted.shard)

    def _reload(self, hosted: HostedShard) -> None:
        """An append failed: the state of the shard differs from the log. Load another."""
        _report(ShardChange.FAILED, hosted)
        if self._shards.get(hosted.partition.index) is hosted:
            self.resign(hosted.partition.index)
            self.lead(hosted.partition)

    # -- finding --------------------------------------------------------------------------------------

    def find(self, group_id: str) -> HostedShard | ErrorCode:
        """The shard of a group, or why it cannot be asked here and now."""
        count = self._partitions.offsets_partitions
        hosted = self._shards.get(partition_for(group_id, count)) if count else None
        if hosted is None:
            return ErrorCode.NOT_COORDINATOR
        return hosted if hosted.loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def hosted(self) -> list[HostedShard]:
        return list(self._shards.values())

    # -- requests -------------------------------------------------------------------------------------

    def context(self, call: Call) -> RequestContext:
        guard, clock = call.guard, self._clock
        visible = None
        if guard is not None:
            visible = partial(guard.allowed, Operation.DESCRIBE, ResourceType.TOPIC)
        # Fields in their order: every request about a group needs this.
        return RequestContext(
            clock.now_ms(),
            clock.monotonic(),
            call.version,
            call.client_id,
            call.client_host,
            call,
            _new_member_id,
            self._metadata,
            visible,
        )

    def handle(self, call: Call, group_id: str) -> Response | None:
        """A request about one group: the whole way."""
        hosted = self.find(group_id)
        if isinstance(hosted, ErrorCode):
            return call.refusal(hosted)
        outcome = hosted.shard.handle(call.request, self.context(call))
        self.settle(hosted, outcome, call)
        return None

    def settle(self, hosted: HostedShard, outcome: Outcome, call: Call | None = None) -> None:
        """Write and replay what a step wants written, and answer whom it answers."""
        own = () if call is None or outcome.response is None else ((call, outcome.response),)
        answers = outcome.released + own if outcome.released else own
        if outcome.records and not self._write(hosted, outcome):
            self._refuse_all([token for token, _ in answers])
            return
        round_ = None if outcome.immediate else hosted.last_round
        for token, response in answers:
            self._answer(round_, cast("Call", token), response)
        if hosted.shard.has_deadline_before(self._timer_at):
            self._schedule(hosted.shard)

    def _write(self, hosted: HostedShard, outcome: Outcome) -> bool:
        try:
            self.append(hosted, outcome)
        except StorageError:
            self._reload(hosted)
            return False
        return True

    def append(self, hosted: HostedShard, outcome: Outcome) -> None:
        """Stage the records of an outcome, all of them in one batch, and replay them."""
        records = [
            (
                encode_key(record.key),
                None if record.value is None else encode_value(record.value, record.version),
            )
            for record in outcome.records
        ]
        now_ms = self._clock.now_ms()
        shard = hosted.shard
        if outcome.producer_id >= 0:
            header, data = encode_plain_batch(records, now_ms, _of_producer(outcome))
            self.follow(hosted, hosted.partition.append(data, header)[1])
            for record in outcome.records:
                shard.replay_transactional(outcome.producer_id, record.key, record.value)
        else:
            self.follow(hosted, hosted.partition.gather(records, now_ms))
            for record in outcome.records:
                shard.replay(record.key, record.value)

    def follow(self, hosted: HostedShard, round_: CommitRound) -> None:
        """Watch the round of a batch, also if no request waits for it: an expiration may have written it."""
        if round_ is hosted.last_round:
            return
        hosted.last_round = round_

        def ended(error: StorageError | None) -> None:
            if isinstance(error, StorageLate):
                round_.when_durable(ended)  # it continues
            elif error is not None:
                self._reload(hosted)

        round_.when_durable(ended)

    def _answer(self, round_: CommitRound | None, call: Call, response: Response) -> None:
        if round_ is None or round_.done:
            call.answer(response)
        else:
            call.answer_when_durable(round_, response, partial(self._failed, call))

    def _failed(self, call: Call, _: StorageError) -> Response:
        return call.refusal(self._storage_error())

    def _storage_error(self) -> ErrorCode:
        """Full disks pass; a broken one does not, and the group must find another coordinator."""
        broken = any(hosted.partition.committer.broken for hosted in self._shards.values())
        return ErrorCode.NOT_COORDINATOR if broken else ErrorCode.COORDINATOR_NOT_AVAILABLE

    def _refuse_all(self, tokens: list[Hashable]) -> None:
        for token in tokens:
            call = cast("Call", token)
            call.answer(call.refusal(self._storage_error()))

    def answer_reads(self, call: Call, shards: Iterable[HostedShard], response: Response) -> None:
        """Answer a question about several shards once all that it saw is durable."""
        self.answer_encoded(call, shards, call.encode(response))

    def answer_encoded(self, call: Call, shards: Iterable[HostedShard], data: bytes) -> None:
        """The same with an answer that is bytes already."""

        def durable(_failed: set[CommitRound]) -> None:
            call.answer_encoded(data)

        when_all_end((hosted.last_round for hosted in shards), durable)

    def answer_writes(self, call: Call, shards: Iterable[HostedShard], response: Response) -> None:
        """Answer a change in several shards once all of it is durable, or refuse the whole of it."""

        def durable(failed: set[CommitRound]) -> None:
            call.answer(call.refusal(self._storage_error()) if failed else response)

        when_all_end((hosted.last_round for hosted in shards), durable)

    def topic_deleted(self, name: str, topic_id: Uuid) -> None:
        """Offsets of a topic go with it."""
        for hosted in self._shards.values():
            if hosted.loaded:
                self.settle(hosted, hosted.shard.forget_topic(name, topic_id))

    # -- time -----------------------------------------------------------------------------------------

    def _schedule(self, shard: CoordinatorShard) -> None:
        deadline = shard.next_deadline()
        if deadline is None or deadline >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        delay = max(0.0, deadline - self._clock.monotonic())
        self._timer = self._loop.call_later(delay, self._tick)

    def _tick(self) -> None:
        """Fire what is due; but after a pause of the whole process, sockets first.

        Heartbeats may wait in the kernel. A turn that began with an interrupted wait has not looked at
        the sockets; the next one does, and the one after that follows what it found.
        """
        loop = self._loop
        if self._clock.monotonic() - self._timer_at > _PAUSE_SECONDS:
            loop.call_soon(loop.call_soon, self._fire)
        else:
            self._fire()

    def _fire(self) -> None:
        clock = self._clock
        self._timer, self._timer_at = None, float("inf")
        for hosted in list(self._shards.values()):
            if hosted.loaded:
                now, topics = clock.now_ms(), self._metadata
                for outcome in hosted.shard.tick(clock.monotonic(), now, topics):
                    self.settle(hosted, outcome)
                self._schedule(hosted.shard)


def _report(change: ShardChange, hosted: HostedShard) -> None:
    if observer.current is not None:
        observer.current.shard(change, hosted.shard, hosted.partition)


def _of_producer(outcome: Outcome) -> RecordBatch:
    """The header of a batch that Kafka's coordinator would write for a transaction."""
    return RecordBatch(
        attributes=TRANSACTIONAL_FLAG_MASK,
        producer_id=outcome.producer_id,
        producer_epoch=outcome.producer_epoch,
        base_sequence=0,
    )


def replay_batch(shard: CoordinatorShard, batch: RecordBatch) -> None:
    """One batch of the log into a shard: records, transactional records, or the end of a transaction."""
    records = batch.records()
    if not records:
        return  # compaction keeps emptied batches for their producers' sake
    if batch.is_control:
        marker = decode_control_record(records[0]).type
        if marker in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
            shard.end_transaction(batch.producer_id, commit=marker is ControlRecordType.COMMIT)
        return
    for record in records:
        key, value = decode_record(record.key, record.value)
        if batch.is_transactional:
            shard.replay_transactional(batch.producer_id, key, value)
        else:
            shard.replay(key, value)


def _new_member_id(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4()}"
