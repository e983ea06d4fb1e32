"""A Fetch on its way: what can be read now, and the wait for more.

What this is: Kafka's ReplicaManager.fetchMessages and DelayedFetch, without sessions. A request that finds
less than it wants waits at its partitions and is looked at again when one of them has more.
What this is not: a cache; every look reads the logs. Called by coterie.server.handlers.data.
"""

from __future__ import annotations

import asyncio
from struct import Struct
from typing import Final

from coterie.error_codes import ErrorCode
from coterie.protocol.batch_layout import LENGTH_END
from coterie.protocol.messages.data import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchLeaderIdAndEpoch,
    FetchNodeEndpoint,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from coterie.server.data.leading import find_topic, led_partition, present_leaders
from coterie.server.partitions.partition import Partition
from coterie.server.partitions.state import PartitionState, state_of
from coterie.server.requests.calls import Call
from coterie.server.services import Services

__all__ = ["Fetch"]

_TOPIC_IDS_FROM: Final = 13  # KIP-516
_LEADER_TOLD_FROM: Final = 12
_ENDPOINTS_TOLD_FROM: Final = 16  # KIP-951
_READ_COMMITTED: Final = 1
_UNKNOWN: Final = -1
_UNKNOWN_PARTITIONS: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_NOT_TOLD: Final = FetchLeaderIdAndEpoch()
_BASE_OFFSET_AND_LENGTH = Struct(">qi")


class Fetch:
    """One Fetch request; `start` answers it, now or later."""

    def __init__(self, services: Services, call: Call, request: FetchRequest) -> None:
        self._services = services
        self._call = call
        self._request = request
        self._most_bytes = request.max_bytes
        if call.meter is not None:
            self._most_bytes = call.meter.most_bytes(request.max_bytes)
        self._committed_only = request.isolation_level == _READ_COMMITTED
        self._waiting_at: list[PartitionState] = []
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False
        # Of one look: the partitions, the bytes found and still allowed, whether an error ends the wait.
        self._states: list[PartitionState] = []
        self._found = 0
        self._room = 0
        self._failed = False
        self._leaders: set[int] = set()

    def start(self) -> None:
        request = self._request
        response = self._look()
        if self._is_enough() or request.max_wait_ms <= 0:
            self._call.answer(response)
            return
        # A client may disappear while its request waits: no wait is longer than an idle connection may be.
        wait_ms = min(request.max_wait_ms, self._services.config.connections_max_idle_ms)
        self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._finish)
        self._wait()

    def _more(self) -> None:
        """A partition has more: is it enough now?"""
        if self._ended:
            return  # a request may name a partition twice, and then it is woken twice
        response = self._look()
        if self._is_enough():
            self._end(response)
        else:
            self._wait()

    def _is_enough(self) -> bool:
        """Whether the last look ends the wait. Topics and partitions that do not exist end it only if
        there are no others, as in Kafka: a consumer would ask again at once."""
        enough = min(self._request.min_bytes, self._most_bytes)
        return self._found >= enough or self._failed or not self._states

    def _wait(self) -> None:
        self._stop_waiting()
        self._waiting_at = self._states
        for state in self._waiting_at:
            state.partition.when_more(self._more)

    def _stop_waiting(self) -> None:
        for state in self._waiting_at:
            state.partition.stop_waiting(self._more)

    def _finish(self) -> None:
        services = self._services
        # A broker that has stopped may have closed its logs, and no client gets the answer.
        self._end(
            self._look() if services.brokers.is_running(services.node_id) else FetchResponse()
        )

    def _end(self, response: FetchResponse) -> None:
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        self._stop_waiting()
        self._call.answer(response)

    # -- one look -------------------------------------------------------------------------------------

    def _look(self) -> FetchResponse:
        """The answer as it would be now."""
        self._found, self._failed = 0, False
        self._room = min(self._most_bytes, self._services.config.fetch_max_bytes)
        self._leaders.clear()
        self._states = []
        responses = tuple(self._topic(each) for each in self._request.topics)
        return FetchResponse(
            responses=responses,
            node_endpoints=tuple(
                FetchNodeEndpoint(*node)
                for node in present_leaders(self._services, self._call, self._leaders)
            ),
        )

    def _topic(self, asked: FetchTopic) -> FetchableTopicResponse:
        by_id = self._call.version >= _TOPIC_IDS_FROM
        topic = find_topic(self._services, asked.topic, asked.topic_id, by_id=by_id)
        if isinstance(topic, ErrorCode):
            partitions = tuple(self._error(each, topic) for each in asked.partitions)
        else:
            partitions = tuple(self._partition(topic.name, each) for each in asked.partitions)
        return FetchableTopicResponse(asked.topic, asked.topic_id, partitions)

    def _partition(self, topic: str, asked: FetchPartition) -> PartitionData:
        partition = led_partition(
            self._services, topic, asked.partition, asked.current_leader_epoch
        )
        if partition is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return self._error(asked, partition, self._leader(topic, asked.partition))
        if isinstance(partition, ErrorCode):
            return self._error(asked, partition)
        log = partition.log
        if not log.log_start_offset <= asked.fetch_offset <= log.log_end_offset:
            return self._error(asked, ErrorCode.OFFSET_OUT_OF_RANGE)
        state = state_of(partition)
        self._states.append(state)
        stable = state.last_stable_offset
        end = stable if self._committed_only else log.high_watermark
        data = self._read(partition, asked, end)
        return PartitionData(
            partition_index=asked.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=stable,
            log_start_offset=log.log_start_offset,
            aborted_transactions=self._aborted(state, asked.fetch_offset, data),
            records=data,
        )

    def _read(self, partition: Partition, asked: FetchPartition, end: int) -> bytes:
        """Whole batches up to `end`; the first that any partition has is given at any size (KIP-74)."""
        if asked.fetch_offset >= end or (self._found and self._room <= 0):
            return b""
        limit = max(0, min(asked.partition_max_bytes, self._room))
        data = partition.log.read(asked.fetch_offset, limit)
        if end < partition.log.high_watermark:
            data = _up_to(data, end)
        if len(data) > limit and self._found:
            return b""
        self._found += len(data)
        self._room -= len(data)
        return data

    def _aborted(
        self, state: PartitionState, offset: int, data: bytes
    ) -> tuple[AbortedTransaction, ...] | None:
        if not self._committed_only:
            return None
        if not data:
            return ()
        state.producers.forget_before(state.partition.log.log_start_offset)
        found = state.producers.aborted_in(offset, _end_of(data))
        return tuple(AbortedTransaction(each.producer_id, each.first_offset) for each in found)

    def _leader(self, topic: str, index: int) -> FetchLeaderIdAndEpoch:
        """Who leads a partition, as far as this version has a place for it."""
        partition = self._services.partitions.get(topic, index)
        if partition is None or self._call.version < _LEADER_TOLD_FROM:
            return FetchLeaderIdAndEpoch()
        if self._call.version >= _ENDPOINTS_TOLD_FROM:
            self._leaders.add(partition.leader)
        return FetchLeaderIdAndEpoch(partition.leader, partition.leader_epoch)

    def _error(
        self,
        asked: FetchPartition,
        error: ErrorCode,
        leader: FetchLeaderIdAndEpoch = _NOT_TOLD,
    ) -> PartitionData:
        self._failed = self._failed or error not in _UNKNOWN_PARTITIONS
        return PartitionData(
            partition_index=asked.partition,
            error_code=error,
            high_watermark=_UNKNOWN,
            aborted_transactions=() if self._committed_only else None,
            current_leader=leader,
        )


def _up_to(data: bytes, end_offset: int) -> bytes:
    """The batches before an offset at which one begins."""
    at = 0
    while at < len(data):
        base_offset, length = _BASE_OFFSET_AND_LENGTH.unpack_from(data, at)
        if base_offset >= end_offset:
            break
        at += LENGTH_END + length
    return data[:at]


def _end_of(data: bytes) -> int:
    """The offset after the base offset of the last batch: transactions that begin there or before
    have records in the data."""
    at = base_offset = 0
    while at < len(data):
        base_offset, length = _BASE_OFFSET_AND_LENGTH.unpack_from(data, at)
        at += LENGTH_END + length
    return int(base_offset) + 1
