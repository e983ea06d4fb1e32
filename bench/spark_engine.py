"""The Spark of the benchmark: a process that reads the same log in several ways and tells how long it took.

A process of its own, so that whoever measures has no Spark in it. Takes a name per line, answers a line of
JSON. All ways write to `noop`, which takes every row and does nothing with it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import unpack_from
from time import perf_counter
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own custom)
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from bench.commit_log import TOPIC
from coterie import compiled
from coterie.datasets.chunks import Chunk
from coterie.datasets.cluster import ClusterSource
from coterie.datasets.commits import commits
from coterie.datasets.log import LogQuery, LogRange, packed, read_log
from coterie.datasets.schemas import pruned
from coterie.protocol.records.columns import BatchColumns, RecordColumns, read_columns
from coterie.spark.quickstart.worker import acknowledge, settle
from coterie.spark.session import session

__all__ = ["FIVE", "TWELVE", "main"]

TWELVE: Final = (
    "partition", "offset", "timestamp", "group_id", "topic", "topic_partition", "committed_offset",
    "leader_epoch", "metadata", "commit_timestamp", "topic_id", "tombstone",
)  # fmt: skip
FIVE: Final = ("group_id", "topic", "topic_partition", "committed_offset", "commit_timestamp")
#: Decoded from key and value alone; the other four come with the connector.
_DECODED: Final = (
    "group_id string, topic string, topic_partition int, committed_offset bigint, leader_epoch int,"
    " metadata string, commit_timestamp timestamp, topic_id string, tombstone boolean"
)
_BYTES_PER_TASK: Final = 32 << 20


class Ways:
    """The same records, read in every way."""

    def __init__(self, spark: SparkSession, bootstrap: str, home: Path) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._source = ClusterSource({"bootstrap.servers": bootstrap})
        bounds = self._source.bounds()
        #: Pinned: all ways read the very same records.
        self._ends = {str(number): end for number, (_, end) in bounds.items()}
        self._prebuilt = home / "prebuilt.arrow"

    def ways(self) -> dict[str, Callable[[], DataFrame]]:
        return {
            "source": lambda: self._ours(TWELVE),
            "source_five": lambda: self._ours(FIVE),
            "ceiling": self._ceiling,
            "equal": lambda: self._ceiling(acknowledged=True),
            "bare": self._bare,
            "udf": self._udf,
            "map_in_arrow": self._map_in_arrow,
        }

    def _ours(self, columns: tuple[str, ...]) -> DataFrame:
        return (
            self._spark.read.format("coterie")
            .option("bootstrap.servers", self._bootstrap)
            .option("columns", ",".join(columns))
            .option("endingOffsets", json.dumps(self._ends))
            .load("commits")
        )

    def _ceiling(self, *, acknowledged: bool = False) -> DataFrame:
        """Batches like ours, made beforehand: what Spark takes from a Python source at best.

        Its workers are settled as ours are. What Spark has such a source wait for at the beginning of every
        task, ours does not: `acknowledged` spares it that as well.
        """
        if not self._prebuilt.exists():
            slices = self._source.slices(
                LogRange(ending={int(k): v for k, v in self._ends.items()})
            )
            tasks = packed(slices, _BYTES_PER_TASK)
            query = LogQuery("commits", TWELVE)
            batches = [list(read_log(self._source, query, task)) for task in tasks]
            for number, task in enumerate(batches):
                schema = pruned("commits", TWELVE)
                path = f"{self._prebuilt}.{number}"
                with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, schema) as writer:
                    for batch in task:
                        writer.write_batch(batch)
            self._prebuilt.write_text(str(len(tasks)))
        frame = self._spark.read.format("prebuilt").option("acknowledged", acknowledged)
        return frame.load(str(self._prebuilt))

    def _bare(self) -> DataFrame:
        return (
            self._spark.read.format("kafka")
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("assign", json.dumps({TOPIC: sorted(map(int, self._ends))}))
            .option("startingOffsets", json.dumps({TOPIC: dict.fromkeys(self._ends, 0)}))
            .option("endingOffsets", json.dumps({TOPIC: self._ends}))
            # Else the end of each partition costs half a second of waiting.
            .option("kafka.fetch.max.wait.ms", "10")
            .load()
        )

    def _udf(self) -> DataFrame:
        decode = F.udf(_decode_one, _DECODED)
        place = ["partition", "offset", "timestamp"]
        return self._bare().select(*place, decode("key", "value").alias("d")).select(*place, "d.*")

    def _map_in_arrow(self) -> DataFrame:
        columns = self._bare().select("partition", "offset", "timestamp", "key", "value")
        schema = from_arrow_schema(pruned("commits", TWELVE))
        return columns.mapInArrow(_decode_batches, schema)


def _decode_one(key: bytes, value: bytes | None) -> tuple[Any, ...] | None:
    """What one writes with the format's description at hand; commits of version 4 alone."""
    from base64 import urlsafe_b64encode  # noqa: PLC0415  (in the worker)
    from datetime import UTC, datetime  # noqa: PLC0415

    if unpack_from(">h", key)[0] != 1:
        return None
    size = unpack_from(">h", key, 2)[0]
    group = key[4 : 4 + size].decode()
    topic_size = unpack_from(">h", key, 4 + size)[0]
    topic = key[6 + size : 6 + size + topic_size].decode()
    partition = unpack_from(">i", key, 6 + size + topic_size)[0]
    if value is None:
        return group, topic, partition, None, None, None, None, None, True
    offset, epoch = unpack_from(">qi", value, 2)
    length = value[14] - 1
    metadata = value[15 : 15 + length].decode()
    time = unpack_from(">q", value, 15 + length)[0]
    topic_id = urlsafe_b64encode(value[-16:]).decode().rstrip("=")
    when = datetime.fromtimestamp(time / 1000, UTC)
    return group, topic, partition, offset, epoch, metadata, when, topic_id, False


def _decode_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Our own vectors, on what the connector brings: no user would write a faster decoder in numpy."""
    compiled.native = None  # in this process, which Spark has for functions like this one
    schema = pruned("commits", TWELVE)
    for batch in batches:
        chunk = _chunk(batch)
        found = commits(chunk, np.arange(batch.num_rows), schema, None)
        arrays = dict(zip(schema.names, found.columns, strict=True))
        for name in ("partition", "offset", "timestamp"):
            arrays[name] = batch.column(name).cast(schema.field(name).type)
        yield pa.RecordBatch.from_arrays(list(arrays.values()), schema=schema)


def _chunk(batch: pa.RecordBatch) -> Chunk:
    """Keys and values of a batch as the columnar reader would give them."""
    starts, lengths, data, at = [], [], [], 0
    for name in ("key", "value"):
        column = batch.column(name)
        _, offsets, content = column.buffers()
        places = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
        starts.append(places[:-1].astype(np.int64) + at)
        sizes = np.diff(places).astype(np.int64)
        if column.null_count:
            sizes[column.is_null().to_numpy(zero_copy_only=False)] = -1
        lengths.append(sizes)
        data.append(content)
        at += content.size
    count = batch.num_rows
    zeros = np.zeros(count, np.int64)
    fields = len(read_columns(b"").batches.header)
    records = RecordColumns(
        buffer=b"".join(data),
        timestamp=zeros,
        offset=zeros,
        key_start=starts[0],
        key_length=lengths[0],
        value_start=starts[1],
        value_length=lengths[1],
        counts=np.array([count]),
        batches=BatchColumns(np.zeros((fields, 1), np.int64)),
        trailing_bytes=0,
    )
    return Chunk(0, records, 0, 1 << 62, (), 0)


class Prebuilt(DataSource):
    """Yields batches from files."""

    @classmethod
    def name(cls) -> str:
        return "prebuilt"

    def schema(self) -> Any:
        return from_arrow_schema(pruned("commits", TWELVE))

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002  (Spark's signature)
        return PrebuiltReader(self.options["path"], self.options["acknowledged"] == "true")


class PrebuiltReader(DataSourceReader):
    def __init__(self, path: str, acknowledged: bool) -> None:  # noqa: FBT001  (as the option says)
        self._path = path
        self._acknowledged = acknowledged

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._acknowledged:
            acknowledge()

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(int(Path(self._path).read_text()))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(f"{self._path}.{partition.value}") as file:
            reader = pa.ipc.open_file(file)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)
        settle()


def main() -> int:
    """Arguments: bootstrap servers, a directory for files, jars with commas or nothing."""
    bootstrap, home, jars = sys.argv[1:4]
    settings = {
        "spark.driver.memory": "3g",
        # On defaults the connector says of this topic that it is empty: it is an internal one.
        "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
        **({"spark.jars": jars} if jars else {}),
    }
    spark = session("local[2]", settings=settings)
    spark.dataSource.register(Prebuilt)
    ways = Ways(spark, bootstrap, Path(home)).ways()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        name, _, what = line.strip().partition(" ")
        answer: dict[str, Any]
        try:
            frame = ways[name]()
            if what == "count":
                column = "committed_offset" if "committed_offset" in frame.columns else "offset"
                row = frame.agg(F.count("*"), F.sum(column)).first()
                answer = {"rows": row[0], "sum": str(row[1])} if row is not None else {}
            else:
                begin = perf_counter()
                frame.write.format("noop").mode("overwrite").save()
                answer = {"seconds": perf_counter() - begin}
        except Exception as error:  # noqa: BLE001  (told to whoever asked)
            answer = {"error": str(error)[:500]}
        print(json.dumps(answer), flush=True)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
