"""When groups last committed, read from `__consumer_offsets`: the admin API does not tell.

The log is read as far as it reached when reading began. Of all records with the same key the last one
counts, so keys and values stay bytes until the end. Commits of aborted transactions never happened.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from importlib.util import find_spec
from typing import Any, Final

import msgspec

from coterie.client.admin import AdminClient
from coterie.client.probing import OFFSETS_TOPIC
from coterie.client.record_batches import FetchedRecords
from coterie.client.results import TopicPartition
from coterie.errors import CoterieError, TopicAuthorizationFailed, UnknownTopicOrPartition
from coterie.protocol.group_records import decode_record
from coterie.protocol.group_records.classic import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.protocol.group_state import partition_for
from coterie.protocol.records import decode_batches

__all__ = ["CommitTimes", "read_commit_times"]

#: The types of records of committed offsets; other keys begin with other numbers.
_COMMITS: Final = (b"\x00\x00", b"\x00\x01")
_KEYS: Final = (LegacyOffsetCommitKey, OffsetCommitKey)
_VALUES: Final = (LegacyOffsetCommitValue, OffsetCommitValue)
_ABORT_MARKER: Final = b"\x00\x00\x00\x00"

#: The last value of each key, as bytes.
_Newest = dict[bytes, bytes]


class CommitTimes(msgspec.Struct, frozen=True):
    """Milliseconds since 1970 of the last commit, by group and partition; and what could not be read."""

    times: dict[str, dict[TopicPartition, int]]
    errors: dict[TopicPartition, CoterieError] = {}

    def last(self, group: str) -> int | None:
        """The latest of all partitions, or None if the log knows of no commit."""
        return max(self.times.get(group, {}).values(), default=None)

    def at(self, group: str, partition: TopicPartition) -> int | None:
        return self.times.get(group, {}).get(partition)


async def read_commit_times(
    admin: AdminClient,
    groups: Collection[str],
    expect: Callable[[int], None],
    advance: Callable[[int], None],
) -> CommitTimes:
    """Read the partitions of groups. `expect` is told how many offsets those have, `advance` what is read.

    All commits of a group are in one partition. A partition that cannot be read to its end tells nothing:
    half of it would make groups look idle that are not.
    """
    described = await admin.describe_topics([OFFSETS_TOPIC])
    _check_allowed(described.errors)
    if isinstance(described.errors.get(OFFSETS_TOPIC), UnknownTopicOrPartition):
        return CommitTimes({})  # nobody has committed yet
    count = len(described.unwrap()[OFFSETS_TOPIC].partitions)
    partitions = sorted(
        {TopicPartition(OFFSETS_TOPIC, partition_for(each, count)) for each in groups}
    )
    starts = await admin.log_offsets(partitions, "earliest")
    ends = await admin.log_offsets(partitions, "latest")
    errors = starts.errors | ends.errors
    _check_allowed(errors)
    sizes = {key: ends[key].offset - starts[key].offset for key in partitions if key not in errors}
    expect(sum(sizes.values()))
    newest: dict[TopicPartition, _Newest] = {key: {} for key, size in sizes.items() if size}
    errors |= await _read(admin, {key: starts[key].offset for key in newest}, newest, advance)
    _check_allowed(errors)
    whole = [found for key, found in newest.items() if key not in errors]
    return CommitTimes(_decoded(whole), errors)


def _check_allowed(errors: Mapping[Any, CoterieError]) -> None:
    if any(isinstance(each, TopicAuthorizationFailed) for each in errors.values()):
        raise CoterieError(
            f"times of commits are in {OFFSETS_TOPIC}, and you may not read that topic: ask for READ on it, "
            "or leave out --idle-for and the columns with times of commits"
        )


async def _read(
    admin: AdminClient,
    starts: dict[TopicPartition, int],
    newest: dict[TopicPartition, _Newest],
    advance: Callable[[int], None],
) -> dict[TopicPartition, CoterieError]:
    if not starts:
        return {}
    records = _from_columns if find_spec("numpy") is not None else _from_batches
    open_aborts: dict[TopicPartition, set[int]] = {key: set() for key in starts}
    # To the last stable offset as it is when reading begins: an open transaction is not waited for.
    reading = admin.fetch(
        {key: (start, None) for key, start in starts.items()},
        isolation="read_committed",
        skip_deleted=True,
    )
    try:
        async with reading:
            async for chunk in reading:
                found = newest[chunk.partition]
                for key, value in records(chunk, open_aborts[chunk.partition]):
                    if value is None:
                        found.pop(key, None)
                    else:
                        found[key] = value
                advance(chunk.stop - chunk.start)
    except CoterieError as error:
        return dict(reading.errors) or dict.fromkeys(starts, error)
    return {}


class _Aborts:
    """Which batches belong to aborted transactions, batch by batch in the order of the log."""

    def __init__(self, chunk: FetchedRecords, now_open: set[int]) -> None:
        self._open = now_open
        self._begin = sorted((each.first_offset, each.producer_id) for each in chunk.aborted)

    def drops(self, last_offset: int, producer_id: int) -> bool:
        while self._begin and self._begin[0][0] <= last_offset:
            self._open.add(self._begin.pop(0)[1])
        return producer_id in self._open

    def marker(self, producer_id: int, key: bytes | None) -> None:
        if key == _ABORT_MARKER:
            self._open.discard(producer_id)


def _from_batches(
    chunk: FetchedRecords, now_open: set[int]
) -> Iterator[tuple[bytes, bytes | None]]:
    aborts = _Aborts(chunk, now_open)
    for batch in decode_batches(chunk.records).batches:
        last = batch.base_offset + batch.last_offset_delta
        dropped = aborts.drops(last, batch.producer_id) and batch.is_transactional
        for record in batch.records():
            if batch.is_control:
                aborts.marker(batch.producer_id, record.key)
            elif not dropped and record.key is not None and record.key[:2] in _COMMITS:
                yield record.key, record.value


def _from_columns(
    chunk: FetchedRecords, now_open: set[int]
) -> Iterator[tuple[bytes, bytes | None]]:
    """The same with arrays: no object per record."""
    columns = chunk.columns()
    aborts = _Aborts(chunk, now_open)
    batches = columns.batches
    control = batches.is_control.tolist()
    transactional = batches.is_transactional.tolist()
    producers = batches.producer_id.tolist()
    lasts = batches.last_offset.tolist()
    buffer = bytes(columns.buffer)
    rows = zip(
        columns.batch.tolist(),
        columns.key_start.tolist(),
        columns.key_length.tolist(),
        columns.value_start.tolist(),
        columns.value_length.tolist(),
        strict=True,
    )
    seen, dropped = -1, False
    for batch, key_start, key_length, value_start, value_length in rows:
        if batch != seen:
            seen = batch
            dropped = aborts.drops(lasts[batch], producers[batch]) and transactional[batch]
        key = buffer[key_start : key_start + key_length]
        if control[batch]:
            aborts.marker(producers[batch], key)
        elif not dropped and key[:2] in _COMMITS:
            value = buffer[value_start : value_start + value_length]
            yield key, value if value_length >= 0 else None


def _decoded(parts: list[_Newest]) -> dict[str, dict[TopicPartition, int]]:
    times: dict[str, dict[TopicPartition, int]] = {}
    for raw_key, raw_value in (item for part in parts for item in part.items()):
        key, value = decode_record(raw_key, raw_value)
        # What cannot be read tells no time.
        if isinstance(key, _KEYS) and isinstance(value, _VALUES):
            partition = TopicPartition(key.topic, key.partition)
            times.setdefault(key.group, {})[partition] = value.commit_timestamp
    return times
