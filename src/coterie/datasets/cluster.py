"""The log of `__consumer_offsets` in a running cluster, read by Fetch: a source for log datasets.

`KeptClient` keeps a client open from one reading to the next. Spark's workers read again and again: a task
reads for a quarter of a second, of which connecting would take a thirtieth. The client need not be closed:
Spark ends a worker that is idle for a minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import msgspec

from coterie.client import AdminClient
from coterie.client.blocking import BlockingAdminClient, BlockingFetching
from coterie.client.results import Result, TopicPartition
from coterie.datasets.chunks import Chunk, parse
from coterie.datasets.log import LogRange, LogSlice, cut
from coterie.datasets.segments import TOPIC
from coterie.error_codes import ErrorCode
from coterie.errors import (
    CoterieError,
    DeadlineExceeded,
    KafkaError,
    PartialAnswer,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)

__all__ = [
    "ClusterSource",
    "KeptClient",
    "kept",
]


class KeptClient:
    """At most one client, with the settings that it was made with."""

    def __init__(self) -> None:
        self._settings: dict[str, str] = {}
        self._client: BlockingAdminClient | None = None

    @contextmanager
    def lend(self, properties: Mapping[str, str]) -> Iterator[BlockingAdminClient]:
        """The client that was kept, if it has these settings and is not lent; else a new one."""
        settings = dict(properties)
        client = self._take(settings) or AdminClient.connect(settings)
        try:
            yield client
        except BaseException:
            # Broken off, too: an answer may be under way, which the next reading would have to wait for.
            client.close()
            raise
        # Where two were lent at once, the one that comes back last stays.
        self.close()
        self._settings, self._client = settings, client

    def _take(self, settings: dict[str, str]) -> BlockingAdminClient | None:
        if settings != self._settings:
            self.close()
        client, self._client = self._client, None
        return client

    def close(self) -> None:
        """Close what is kept; there may be nothing."""
        if self._client is not None:
            self._client.close()
            self._client = None


#: That of this process.
kept = KeptClient()


K = TypeVar("K")
T = TypeVar("T")

_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED.name


class ClusterSource(msgspec.Struct, frozen=True):
    """A cluster, by the settings of a client; connections are made when they are needed."""

    properties: Mapping[str, str]
    #: Whether records that were deleted before they could be read are skipped, not an error.
    skip_deleted: bool = False
    #: Whether partitions that cannot be read are left out, instead of failing all.
    partial: bool = False
    #: Whether the client that has read slices stays open for those that this process reads next.
    keep_client: bool = False

    def __repr__(self) -> str:
        # Settings may hold secrets.
        return f"ClusterSource({self.properties.get('bootstrap.servers', '')!r})"

    def partitions(self) -> list[int]:
        """Their numbers; none if no group has ever been used."""
        with self._connect() as admin:
            return [each.partition for each in _partitions(admin)]

    def bounds(self) -> dict[int, tuple[int, int]]:
        """Ends are those of readers of committed records: before them all transactions are decided."""
        with self._connect() as admin:
            partitions = _partitions(admin)
            starts = _whole(admin.log_offsets(partitions, "earliest"))
            ends = _whole(admin.log_offsets(partitions, "latest", isolation="read_committed"))
        return {each.partition: (starts[each].offset, ends[each].offset) for each in partitions}

    def ends(self) -> dict[int, int]:
        """Where the log of each partition ends, open transactions included."""
        with self._connect() as admin:
            ends = _whole(admin.log_offsets(_partitions(admin), "latest"))
        return {each.partition: end.offset for each, end in ends.items()}

    def slices(self, wanted: LogRange) -> list[LogSlice]:
        """Ends are pinned here, so that all tasks of a query, and its repetitions, read the same."""
        with self._connect() as admin:
            partitions = [each for each in _partitions(admin) if wanted.wants(each.partition)]
            starts = self._offsets(admin, partitions, "earliest")
            ends = self._offsets(admin, partitions, "latest")
            if wanted.start_ms is not None:
                # Offset -1: nothing is that late.
                found = self._offsets(admin, partitions, wanted.start_ms)
                starts = {each: at if at >= 0 else ends.get(each, 0) for each, at in found.items()}
        slices: list[LogSlice] = []
        for each in partitions:
            if each not in starts or each not in ends:
                continue
            start, stop = wanted.cut(each.partition, starts[each], ends[each])
            slices += cut(each.partition, start, min(stop or 0, ends[each]))
        return slices

    def chunks(self, slices: Sequence[LogSlice]) -> Iterator[Chunk]:
        with kept.lend(self.properties) if self.keep_client else self._connect() as admin:
            for turn in _turns(slices):
                spans = {TopicPartition(TOPIC, p): (s.start, s.stop) for p, s in turn.items()}
                with admin.fetch(spans, skip_deleted=self.skip_deleted) as reading:
                    yield from self._read(reading)

    def _read(self, reading: BlockingFetching) -> Iterator[Chunk]:
        try:
            for each in reading:
                number = each.partition.partition
                yield parse(number, each.records, each.start, each.stop, each.places)
        except (KafkaError, PartialAnswer, DeadlineExceeded) as error:
            # Raised at the end, when all that can be read has been.
            if not self.partial:
                raise _with_permissions(error) from None

    def look_ahead(self, partition: int, offset: int) -> Iterator[Chunk]:
        yield from self.chunks([LogSlice(partition, offset, None)])

    def _offsets(
        self, admin: BlockingAdminClient, partitions: Iterable[TopicPartition], at: Any
    ) -> dict[TopicPartition, int]:
        result = admin.log_offsets(partitions, at)
        found = result.items if self.partial else _whole(result)
        return {key: each.offset for key, each in found.items()}

    def _connect(self) -> BlockingAdminClient:
        return AdminClient.connect(dict(self.properties))


def _whole(result: Result[K, T]) -> dict[K, T]:
    """What was asked for; an exception if some of it is missing."""
    try:
        return result.unwrap()
    except CoterieError as error:
        raise _with_permissions(error) from None


def _with_permissions(error: CoterieError) -> CoterieError:
    """The same, with what the user lacks, where that is the cause."""
    needed = f"; the user needs READ and DESCRIBE on topic {TOPIC}"
    if isinstance(error, TopicAuthorizationFailed):
        return TopicAuthorizationFailed(error.code, error.subject, error.text + needed)
    if isinstance(error, PartialAnswer) and _DENIED in str(error):
        return PartialAnswer(str(error) + needed)
    return error


def _partitions(admin: BlockingAdminClient) -> list[TopicPartition]:
    """Those of the offsets topic; none if no group has ever been used."""
    described = admin.describe_topics([TOPIC])
    if isinstance(described.errors.get(TOPIC), UnknownTopicOrPartition):
        return []
    topic = _whole(described)[TOPIC]
    return sorted(TopicPartition(TOPIC, each.partition) for each in topic.partitions)


def _turns(slices: Sequence[LogSlice]) -> Iterator[dict[int, LogSlice]]:
    """Slices that can be read together: of each partition one at a time, in order."""
    left = list(slices)
    while left:
        turn: dict[int, LogSlice] = {}
        later = []
        for each in left:
            if each.partition in turn:
                later.append(each)
            else:
                turn[each.partition] = each
        yield turn
        left = later
