"""The Spark data source `coterie`: a thin shell around coterie.datasets.

The driver plans (which groups, which part of the log), executors read; both through the core. Only record
batches of Arrow pass to Spark, never rows. Registered by pyspark_coterie, or by
`spark.dataSource.register(CoterieSource)`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from coterie.datasets.log import LogSlice, packed, read_log
from coterie.datasets.schemas import LIVE, pruned
from coterie.errors import InvalidArgument, PartialAnswer
from coterie.spark.errors import in_one_line
from coterie.spark.options import SourceOptions
from coterie.spark.quickstart.worker import acknowledge, settle
from coterie.spark.streaming import CoterieStreamReader, exact

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

    from coterie.datasets.live import LiveTask

__all__ = ["CoterieSource"]

#: The program that Spark's driver runs to push filters; another one plans where there are none to push.
_PUSHING: Final = "pyspark.sql.worker.data_source_pushdown_filters"


class CoterieSource(DataSource):
    """`spark.read.format("coterie").option("bootstrap.servers", ...).load("groups")`; docs/datasets.md."""

    @classmethod
    def name(cls) -> str:
        return "coterie"

    @in_one_line
    def schema(self) -> StructType:
        options = SourceOptions.of(self.options)
        found = from_arrow_schema(pruned(options.dataset.name, options.columns))
        settle()
        return found

    @in_one_line
    def reader(self, schema: StructType) -> DataSourceReader:
        options = SourceOptions.of(self.options)
        options.check_batch()
        expected = _expected(options, schema)
        if options.pushdown and _pushes():
            return PushingReader(options, expected)
        return CoterieReader(options, expected)

    @in_one_line
    def streamReader(self, schema: StructType) -> CoterieStreamReader:  # noqa: N802 - Spark's name
        options = SourceOptions.of(self.options)
        options.check_stream()
        return CoterieStreamReader(options, _expected(options, schema))


def _pushes() -> bool:
    """Whether filters are going to be pushed.

    A reader that can push them fails every query while spark.sql.python.filterPushdown.enabled is false,
    which is Spark's default, so one that can is made only where Spark asks for it.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHING in sys.modules or getattr(main, "name", None) == _PUSHING


def _expected(options: SourceOptions, schema: StructType) -> pa.Schema:
    """The schema of batches that Spark expects: all columns, or those of the user's `.schema(...)`."""
    wanted = pruned(options.dataset.name, schema.names)
    types = {field.name: field.dataType for field in from_arrow_schema(wanted)}
    for field in schema:
        if schema.names.count(field.name) > 1:
            raise InvalidArgument(
                f"column {field.name!r} of {options.dataset.name!r} is named twice in .schema(...);"
                " name it once"
            )
        if not field.nullable:
            # Spark would rely on it and fail at the first null with a Java stack trace.
            raise InvalidArgument(
                f"column {field.name!r} of {options.dataset.name!r} may be null for a reader;"
                " leave NOT NULL out of .schema(...)"
            )
        if field.dataType != types[field.name]:
            raise InvalidArgument(
                f"column {field.name!r} of {options.dataset.name!r} is"
                f" {types[field.name].simpleString()};"
                " give its own type to .schema(...), or use the option columns"
            )
    return wanted


@contextmanager
def _offering_less() -> Iterator[None]:
    """Whoever reads a log once may have less than the whole of it, which a stream may not: say so."""
    try:
        yield
    except PartialAnswer as error:
        from coterie.datasets.live import with_next_step

        raise with_next_step(error) from None


class LogPartition(InputPartition):
    """A part of the log for one task."""

    def __init__(self, slices: Sequence[LogSlice]) -> None:
        super().__init__(None)
        self.slices = tuple(slices)


class LivePartition(InputPartition):
    """Groups of one coordinator for one task."""

    def __init__(self, task: LiveTask) -> None:
        super().__init__(None)
        self.task = task


class CoterieReader(DataSourceReader):
    """Reads a dataset once."""

    def __init__(self, options: SourceOptions, expected: pa.Schema) -> None:
        self._options = options
        self._expected = expected

    def __setstate__(self, state: dict[str, Any]) -> None:
        # The first that a worker has of us, when it waits for the rest of its task.
        self.__dict__.update(state)
        acknowledge()

    @in_one_line
    def partitions(self) -> Sequence[InputPartition]:
        found = self._plan()
        settle()
        return found

    def _plan(self) -> Sequence[InputPartition]:
        options = self._options
        if options.selection.impossible:
            return []
        if options.dataset.name in LIVE:
            # A client is imported where there is a cluster: each of Spark's processes would wait for it.
            from coterie.client import AdminClient
            from coterie.datasets.live import plan_live

            with AdminClient.connect(dict(options.properties)) as admin:
                tasks = plan_live(admin, options.live_query(tuple(self._expected.names)))
            return [LivePartition(task) for task in tasks]
        options.check_partitions()
        with _offering_less():
            slices = options.source.slices(options.range)
        return [LogPartition(each) for each in packed(slices, options.bytes_per_task)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return exact(self._read(partition), self._expected)

    def _read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        options = self._options
        columns = tuple(self._expected.names)
        if isinstance(partition, LogPartition):
            with _offering_less():
                yield from read_log(options.source, options.log_query(columns), partition.slices)
        elif isinstance(partition, LivePartition):
            from coterie.client import AdminClient
            from coterie.datasets.live import read_task

            with AdminClient.connect(dict(options.properties)) as admin:
                yield from read_task(admin, options.live_query(columns), partition.task)


class PushingReader(CoterieReader):
    """Reads a dataset once, narrowed by the filters that Spark pushes (4.1 and later)."""

    @in_one_line
    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark's name
        from coterie.spark.filters import push

        self._options, left = push(self._options, filters)
        return iter(left)
