"""The log as a stream: micro-batches between offsets, which Spark keeps in its checkpoint.

An offset of the stream is the next offset of each partition, as JSON. An offset that goes back belongs to a
log that was recreated, which is read from its beginning. From a running cluster only records whose
transactions have ended are read, so that each commit is read once, with its outcome.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyspark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from coterie.datasets.log import LogSlice, cut, packed, read_log
from coterie.errors import CoterieError, InvalidArgument
from coterie.spark.errors import in_one_line
from coterie.spark.options import SourceOptions
from coterie.spark.quickstart.worker import acknowledge, settle

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

    #: Whether Spark passes the start and the limit of a micro-batch to latestOffset().
    ADMISSION_CONTROL = True
except ImportError:  # before Spark 4.2
    SupportsTriggerAvailableNow = object  # type: ignore[assignment, misc]
    ADMISSION_CONTROL = False
if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

__all__ = ["CoterieStreamReader", "exact"]

Offsets = dict[str, int]
#: Of each partition the first offset, and the one behind the last whose transactions are decided.
Bounds = dict[str, tuple[int, int]]

_NEXT_STEP: Final = "begin with a new checkpoint, or set failOnDataLoss=false"


class StreamPartition(InputPartition):
    """A part of a micro-batch for one task."""

    def __init__(self, slices: Sequence[LogSlice]) -> None:
        super().__init__(None)
        self.slices = tuple(slices)


class CoterieStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a log dataset as it grows."""

    def __init__(self, options: SourceOptions, expected: pa.Schema) -> None:
        if not ADMISSION_CONTROL and options.max_rows is not None:
            raise InvalidArgument(
                "maxOffsetsPerTrigger and maxBytesPerTrigger have no effect before Spark 4.2;"
                f" this is Spark {pyspark.__version__}. Leave them out, or update Spark"
            )
        self._options = options
        self._expected = expected
        #: With Trigger.AvailableNow: the log as it was when the query began.
        self._target: Bounds | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        # As in CoterieReader.
        self.__dict__.update(state)
        acknowledge()

    @in_one_line
    def initialOffset(self) -> Offsets:  # noqa: N802 - Spark's name
        options = self._options
        everything = options.source.bounds()
        options.check_partitions(everything)
        bounds = self._wanted(everything)
        wanted = self._starting(bounds)
        starts = {key: start for key, (start, _) in bounds.items()}
        if options.starting_latest:
            starts = _ends(bounds)
        elif options.start_ms is not None:
            slices = options.source.slices(options.range)
            starts = _ends(bounds) | {str(each.partition): each.start for each in reversed(slices)}
        found = {key: max(start, wanted.get(key, start)) for key, start in starts.items()}
        if not ADMISSION_CONTROL:
            _check_decided(found, bounds)
        return found

    def _starting(self, bounds: Bounds) -> Offsets:
        """Where options say to begin; raises if the log has no such place, unless the nearest will do."""
        named = {str(number): offset for number, offset in self._options.starting.items()}
        wanted = {key: offset for key, offset in named.items() if key in bounds}
        # Behind the last that is decided the log goes on with transactions that are open.
        late = any(offset > bounds[key][1] for key, offset in wanted.items())
        now = self._options.log_ends() if late else {}
        for key, offset in wanted.items():
            first, end = bounds[key]
            end = max(end, now.get(int(key), end))
            if self._options.fail_on_data_loss and offset < first:
                raise CoterieError(
                    f"startingOffsets: partition {key} of the log begins at offset {first}, not"
                    f" {offset}: what was before it is deleted; begin there, or set failOnDataLoss=false"
                )
            if self._options.fail_on_data_loss and offset > end:
                raise CoterieError(
                    f"startingOffsets: partition {key} of the log ends at offset {end}, before {offset};"
                    " begin there, or set failOnDataLoss=false"
                )
            wanted[key] = min(max(first, offset), end)
        return wanted

    def _bounds(self) -> Bounds:
        return self._wanted(self._options.source.bounds())

    def _wanted(self, bounds: Mapping[int, tuple[int, int]]) -> Bounds:
        wants = self._options.range.wants
        return {str(number): both for number, both in sorted(bounds.items()) if wants(number)}

    @in_one_line
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = self._bounds()

    @in_one_line
    def reportLatestOffset(self) -> Offsets:  # noqa: N802 - Spark's name
        return _ends(self._bounds())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

        most = self._options.max_rows
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    @in_one_line
    def latestOffset(  # noqa: N802 - Spark's name
        self, start: Offsets | None = None, limit: ReadLimit | None = None
    ) -> Offsets:
        bounds = self._target if self._target is not None else self._bounds()
        if start is None:  # before Spark 4.2
            return _ends(bounds)
        most: int | None = getattr(limit, "max_rows", None)
        anew = self._made_anew(start, bounds)
        # Partitions that the stream has not met yet, or that are others now, are read from their beginning.
        known = {key: first for key, (first, _) in bounds.items()}
        known |= {key: offset for key, offset in start.items() if key not in anew}
        return _limited(known, _ends(bounds), most)

    def _made_anew(self, reached: Offsets, bounds: Bounds) -> frozenset[str]:
        """Partitions whose log ends before what was reached; raises if that is a loss.

        An end that only seems to be before it is none: of a transaction that is still open, or of a
        target that was set before the start was known. So the log itself is asked.
        """
        ends = _ends(bounds)
        short = [key for key, offset in reached.items() if ends.get(key, 0) < offset]
        now = self._options.log_ends() if short else {}
        strict = self._options.fail_on_data_loss
        anew = set()
        for key in short:
            end = now.get(int(key))
            if end is None and strict:
                raise _gone(key, reached[key])
            if end is None or end >= reached[key]:
                continue
            if strict:
                raise CoterieError(
                    f"partition {key} of the log ends at offset {end}, and the stream has come up to"
                    f" {reached[key]}: it was deleted and made anew; {_NEXT_STEP}"
                )
            anew.add(key)
        return frozenset(anew)

    @in_one_line
    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        if not ADMISSION_CONTROL and start != end:
            # latestOffset() was not passed the start that it would have checked.
            self._made_anew(start, self._bounds())
        slices = list(self._slices(start, end))
        return [StreamPartition(each) for each in packed(slices, self._options.bytes_per_task)]

    def _slices(self, start: Offsets, end: Offsets) -> Iterator[LogSlice]:
        """What is between two offsets of the stream, as far as the log still has it."""
        new = {key: stop for key, stop in end.items() if start.get(key, 0) != stop}
        bounds = self._options.source.bounds() if new else {}
        strict = self._options.fail_on_data_loss
        for key in [key for key in new if int(key) not in bounds]:
            if strict:
                raise _gone(key, start.get(key, 0))
            del new[key]
        # What was planned of a log that is another one now is gone; that one is read by the next micro-batch.
        anew = self._made_anew(new, {key: bounds[int(key)] for key in new})
        for key in [key for key in new if key not in anew]:
            first, _ = bounds[int(key)]
            reached = start.get(key, first)
            if new[key] < reached:
                reached = first  # as latestOffset has it for a log that was made anew
            if reached < first and strict:
                raise CoterieError(
                    f"partition {key} of the log begins at offset {first}, and was read up to"
                    f" {reached}: what was between is deleted; {_NEXT_STEP}"
                )
            yield from cut(int(key), max(first, reached), new[key])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return exact(self._read(partition), self._expected)

    def _read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, StreamPartition):
            query = self._options.log_query(tuple(self._expected.names))
            yield from read_log(self._options.source, query, partition.slices)


def _ends(bounds: Bounds) -> Offsets:
    return {key: end for key, (_, end) in bounds.items()}


def _check_decided(starts: Offsets, bounds: Bounds) -> None:
    """Raise if a start is after an open transaction: before Spark 4.2 the next offset would be before it."""
    for key, start in starts.items():
        _, end = bounds[key]
        if start > end:
            raise CoterieError(
                f"partition {key} of the log has an open transaction at offset {end}, and a stream"
                f" cannot start after it, at {start}, before Spark 4.2; this is Spark"
                f" {pyspark.__version__}. Start again when the transaction has ended, start"
                " earlier, or update Spark"
            )


def _gone(partition: str, reached: int) -> CoterieError:
    return CoterieError(
        f"there is no partition {partition} of the log any more, and it was read up to {reached};"
        f" {_NEXT_STEP}"
    )


def exact(batches: Iterator[pa.RecordBatch], expected: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches with the very schema that Spark compares them with; columns are not copied."""
    try:
        for batch in batches:
            yield pa.RecordBatch.from_arrays(batch.columns, schema=expected)
        settle()
    except CoterieError as error:
        raise error.with_traceback(None) from None


def _limited(start: Mapping[str, int], ends: Mapping[str, int], most: int | None) -> Offsets:
    """How far to go: each partition by its share of what there is; what is left, in turns."""
    new = {key: max(0, end - start.get(key, 0)) for key, end in ends.items()}
    total = sum(new.values())
    steps = dict(new)
    if most is not None and total > most:
        steps = {key: count * most // total for key, count in new.items()}
        waiting = [key for key in _in_turn(start, sorted(new), most) if steps[key] < new[key]]
        # First those whose share is less than a record: there is always one left for them.
        waiting.sort(key=lambda key: steps[key] > 0)
        for key in waiting[: most - sum(steps.values())]:
            steps[key] += 1
    return dict(start) | {key: start.get(key, 0) + step for key, step in steps.items()}


def _in_turn(start: Mapping[str, int], keys: list[str], most: int) -> list[str]:
    """The partitions, each time with another one in front, so that all come to be first.

    A limited micro-batch has exactly `most` offsets, so their sum tells how many there have been.
    """
    turn = sum(start.values()) // most % len(keys)
    return keys[turn:] + keys[:turn]
