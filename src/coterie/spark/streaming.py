"""The log as a stream: micro-batches between offsets, which Spark keeps in its checkpoint.

An offset of the stream is the next offset of each partition, as JSON. Of a running cluster only records whose
transactions are decided are read, so that each commit has its outcome when it comes, and comes once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from coterie.datasets.log import BYTES_PER_OFFSET, LogSlice, cut, packed, read_log
from coterie.errors import CoterieError
from coterie.spark.errors import told_in_one_line
from coterie.spark.options import SourceOptions

__all__ = ["CoterieStreamReader", "exact"]

Offsets = dict[str, int]


class StreamPartition(InputPartition):
    """A part of a micro-batch for one task."""

    def __init__(self, slices: Sequence[LogSlice]) -> None:
        super().__init__(None)
        self.slices = tuple(slices)


class CoterieStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a log dataset as it grows."""

    def __init__(self, options: SourceOptions, expected: pa.Schema) -> None:
        self._options = options
        self._expected = expected
        #: With Trigger.AvailableNow: the end, as it was when the query began.
        self._target: Offsets | None = None

    @told_in_one_line
    def initialOffset(self) -> Offsets:  # noqa: N802 - Spark's name
        options = self._options
        bounds = self._bounds()
        starts = {key: start for key, (start, _) in bounds.items()}
        if options.starting_latest:
            starts = {key: end for key, (_, end) in bounds.items()}
        elif options.start_ms is not None:
            late = {key: end for key, (_, end) in bounds.items()}
            found = {str(s.partition): s.start for s in reversed(self._slices_from_time())}
            starts = late | found
        wanted = {str(partition): offset for partition, offset in options.starting.items()}
        return {key: max(start, wanted.get(key, start)) for key, start in starts.items()}

    def _slices_from_time(self) -> list[LogSlice]:
        return self._options.source.slices(self._options.range)

    def _bounds(self) -> dict[str, tuple[int, int]]:
        wants = self._options.range.wants
        bounds = self._options.source.bounds()
        return {str(number): both for number, both in sorted(bounds.items()) if wants(number)}

    def _ends(self) -> Offsets:
        return {key: end for key, (_, end) in self._bounds().items()}

    @told_in_one_line
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = self._ends()

    @told_in_one_line
    def reportLatestOffset(self) -> Offsets:  # noqa: N802 - Spark's name
        return self._ends()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        options = self._options
        if options.max_offsets is not None:
            return ReadMaxRows(options.max_offsets)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        return ReadAllAvailable()

    @told_in_one_line
    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802 - Spark's name
        ends = self._target if self._target is not None else self._ends()
        self._refuse_loss(start, ends)
        most = None
        if isinstance(limit, ReadMaxRows):
            most = limit.max_rows
        elif isinstance(limit, ReadMaxBytes):
            most = max(1, limit.max_bytes // BYTES_PER_OFFSET)
        return _limited(start, ends, most)

    def _refuse_loss(self, start: Offsets, ends: Offsets) -> None:
        for key, offset in start.items():
            if self._options.fail_on_data_loss and ends.get(key, 0) < offset:
                raise CoterieError(
                    f"partition {key} of the log ends at offset {ends.get(key, 0)}, and was read up to"
                    f" {offset}: it was deleted and made anew. Begin with a new checkpoint, or set"
                    " failOnDataLoss=false"
                )

    @told_in_one_line
    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        slices = [
            each for key, stop in end.items() for each in cut(int(key), start.get(key, 0), stop)
        ]
        return [StreamPartition(each) for each in packed(slices, self._options.bytes_per_task)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, StreamPartition):
            return iter(())
        query = self._options.log_query(tuple(self._expected.names))
        return exact(read_log(self._options.source, query, partition.slices), self._expected)


def exact(batches: Iterator[pa.RecordBatch], expected: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches with the very schema that Spark compares them with; columns are not copied."""
    try:
        for batch in batches:
            yield pa.RecordBatch.from_arrays(batch.columns, schema=expected)
    except CoterieError as error:
        raise error.with_traceback(None) from None


def _limited(start: Mapping[str, int], ends: Mapping[str, int], most: int | None) -> Offsets:
    """How far to go: each partition by its share of what there is, and one record at least."""
    new = {key: max(0, end - start.get(key, 0)) for key, end in ends.items()}
    total = sum(new.values())
    if most is None or total <= most:
        return dict(start) | {key: start.get(key, 0) + count for key, count in new.items()}
    left = most
    reached = dict(start)
    for key, count in sorted(new.items(), key=lambda item: (item[1], item[0])):
        step = min(count, max(1, count * most // total), left)
        reached[key] = start.get(key, 0) + step
        left -= step
    return reached
