"""The Spark source beside what a user would write today, and the datasets without Spark.

With an Apache Kafka: its offsets topic is filled with commits, six a batch, and read by our source and by
Spark's own Kafka connector, with a Python UDF, with mapInArrow, and bare; beside the transfer into Spark of
batches that were made beforehand, by a source that Spark has wait at each task, and by one that waits as
little as ours; and without Spark beside confluent-kafka. From segment files: how many records a second one
process decodes by numpy alone, how much sooner compiled code does, and how the time grows with the log.

COTERIE_BENCH_RECORDS is how many records Kafka gets (4,440,000); COTERIE_BENCH_GROWTH how many the larger
log of the growth has (20,000,000, two gigabytes), the smaller a tenth of it. What the pipeline itself takes
is in bench.spark_cold and bench.spark_build.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from struct import unpack_from
from time import perf_counter
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from bench import spark_build, spark_cold
from bench.commit_log import TOPIC, fill_kafka, write_disk
from bench.connector import connector_jars
from bench.harness import Disagreement, Measurement, must_equal
from bench.servers import Server, Unavailable, kafka
from coterie import compiled
from coterie.client import AdminClient
from coterie.datasets.cluster import ClusterSource
from coterie.datasets.log import LogQuery, LogRange, LogSource, SegmentSource, read_log
from tests.kit.processes import tethered

__all__ = ["measurements"]

UDF_GOAL: Final = 6.0
MAP_IN_ARROW_GOAL: Final = 3.0
BARE_GOAL: Final = 1.8
CEILING_GOAL: Final = 0.85
#: Nobody's goal: what fetching and decoding cost beside the transfer, so that it is seen when that grows.
EQUAL_TERMS_GOAL: Final = 0.7
FIVE_COLUMNS_GOAL: Final = 1.3
CONFLUENT_GOAL: Final = 8.0
#: Millions of records a second from segment files, by records a batch: by numpy alone.
SEGMENT_GOALS: Final = {1: 0.8, 6: 2.0, 50: 2.0}
#: How many times as fast compiled code is to be.
COMPILED_GOAL: Final = 1.5
GROWTH_GOAL: Final = 11.0
_TWELVE: Final = (
    "partition", "offset", "timestamp", "group_id", "topic", "topic_partition", "committed_offset",
    "leader_epoch", "metadata", "commit_timestamp", "topic_id", "tombstone",
)  # fmt: skip
_ROUNDS: Final = 4
#: Of rows that take two seconds a round: a JVM goes on compiling for some of them.
_SHORT_ROUNDS: Final = 15


def measurements(*, tiny: bool = False) -> Iterator[Measurement]:
    """All of this part; tiny ones are without Kafka and Spark, whose start would be most of the time."""
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as home:
        yield from segments(Path(home), 20_000 if tiny else 1_000_000)
        yield growth(Path(home), 200_000 if tiny else int(_setting("GROWTH", 20_000_000)))
        if not tiny:
            yield from on_kafka(Path(home), int(_setting("RECORDS", 4_440_000)))
            yield from spark_cold.measurements()
            yield from spark_build.measurements()


def _setting(name: str, default: int) -> str:
    return os.environ.get(f"COTERIE_BENCH_{name}", str(default))


# -- without Spark ----------------------------------------------------------------------------------------


def segments(home: Path, records: int) -> Iterator[Measurement]:
    """Twelve columns of all commits on a disk, in millions of records a second."""
    for per_batch, goal in SEGMENT_GOALS.items():
        root = home / f"disk-{per_batch}"
        count = write_disk(root, records, per_batch)
        source = SegmentSource.at(str(root))

        def rate(source: SegmentSource = source, count: int = count) -> float:
            return count / _seconds_by_numpy(source) / 1e6

        def agree(source: SegmentSource = source, count: int = count) -> None:
            must_equal("commits on the disk", _count(source), count)

        yield Measurement(
            name=f"spark.segments_{per_batch}_per_batch",
            ours=rate,
            peers={"goal": lambda goal=goal: goal},  # type: ignore[misc]
            goal=1.0,
            agree=agree,
            unit="M/s",
            is_rate=True,
            max_rounds=_ROUNDS,
        )
        if compiled.native is None:
            print("NOT MEASURED: compiled code: there is none", file=sys.stderr)
            continue
        yield Measurement(
            name=f"spark.compiled_{per_batch}_per_batch",
            ours=lambda source=source: _seconds(source),  # type: ignore[misc]
            peers={"numpy": lambda source=source: _seconds_by_numpy(source)},  # type: ignore[misc]
            goal=COMPILED_GOAL,
            agree=agree,
            unit="s",
            max_rounds=_ROUNDS,
        )


def growth(home: Path, most: int) -> Measurement:
    """How many times the time of a tenth of the records: eleven at most."""
    small, large = (home / "growth-1", home / "growth-10")
    counts = [write_disk(small, most // 10, 6), write_disk(large, most, 6)]
    sources = [SegmentSource.at(str(each)) for each in (small, large)]

    def ratio() -> float:
        # As many seconds of the one as of the other, around each other: the machine is not always as fast.
        before = sum(_seconds(sources[0]) for _ in range(5))
        much = _seconds(sources[1])
        little = (before + sum(_seconds(sources[0]) for _ in range(5))) / 10
        return much / little * 10 * counts[0] / counts[1]

    def agree() -> None:
        must_equal("commits of the larger log", _count(sources[1]), counts[1])

    return Measurement(
        name="spark.growth_tenfold",
        ours=ratio,
        peers={"goal": lambda: GROWTH_GOAL},
        goal=1.0,
        agree=agree,
        unit="x",
        max_rounds=3,
    )


def _seconds(source: LogSource) -> float:
    begin = perf_counter()
    for _ in read_log(source, LogQuery("commits", _TWELVE)):
        pass
    return perf_counter() - begin


def _seconds_by_numpy(source: LogSource) -> float:
    native, compiled.native = compiled.native, None
    try:
        return _seconds(source)
    finally:
        compiled.native = native


def _count(source: LogSource) -> int:
    return sum(batch.num_rows for batch in read_log(source, LogQuery("commits", ("offset",))))


# -- on Kafka ---------------------------------------------------------------------------------------------


def on_kafka(home: Path, records: int) -> Iterator[Measurement]:
    """Everything that reads from a broker; one that cannot be had is said so."""
    try:
        server = kafka(home / "kafka")
    except Unavailable as error:
        print(f"NOT MEASURED: spark on kafka: {error}", file=sys.stderr)
        return
    with ExitStack() as all_of_it:
        all_of_it.callback(server.stop)
        server.start()
        bootstrap = _filled(server, records)
        source = ClusterSource({"bootstrap.servers": bootstrap})
        yield beside_confluent(source, bootstrap)
        jars: list[Path] = []
        try:
            jars = connector_jars()
        except Unavailable as error:
            print(f"NOT MEASURED: Spark's Kafka connector: {error}", file=sys.stderr)
        engine = Engine(bootstrap, home, jars)
        all_of_it.callback(engine.stop)
        yield from on_spark(engine, connector=bool(jars))


def _filled(server: Server, records: int) -> str:
    bootstrap = f"127.0.0.1:{server.port}"
    with AdminClient.connect(bootstrap_servers=bootstrap) as admin:
        # The first use of a group makes the topic.
        admin.create_topics({"orders": 1}).unwrap()
        from coterie.client import TopicPartition as Place  # noqa: PLC0415  (not confluent's)

        admin.alter_offsets({"first": {Place("orders", 0): 0}}, timeout=60).unwrap()
    fill_kafka(bootstrap, records, per_batch=6)
    return bootstrap


def beside_confluent(source: ClusterSource, bootstrap: str) -> Measurement:
    """One process, all commits: numpy alone beside confluent-kafka and struct, seconds for all of them."""
    ends = {slice_.partition: slice_.stop for slice_ in source.slices(LogRange())}

    def theirs() -> int:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "nobody",
                "enable.auto.commit": False,
                "enable.partition.eof": False,
                "fetch.wait.max.ms": 10,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(TOPIC, number, 0) for number in ends])
        left = sum(ends.values())  # type: ignore[arg-type]
        rows: list[tuple[Any, ...]] = []
        found = 0
        while left > 0:
            for message in consumer.consume(10_000, 1.0):
                left -= 1
                row = _struct_decode(message.key() or b"", message.value())
                if row is not None:
                    rows.append((message.partition(), message.offset(), message.timestamp(), *row))
                    found += 1
            rows.clear()
        consumer.close()
        return found

    def their_time() -> float:
        begin = perf_counter()
        theirs()
        return perf_counter() - begin

    return Measurement(
        name="spark.live_without_spark",
        ours=lambda: _seconds_by_numpy(source),
        peers={"confluent-kafka": their_time},
        goal=CONFLUENT_GOAL,
        agree=lambda: must_equal("commits", _count(source), theirs()),
        unit="s",
        max_rounds=2,
    )


def _struct_decode(key: bytes, value: bytes | None) -> tuple[Any, ...] | None:
    if unpack_from(">h", key)[0] != 1:
        return None
    size = unpack_from(">h", key, 2)[0]
    group = key[4 : 4 + size].decode()
    topic_size = unpack_from(">h", key, 4 + size)[0]
    topic = key[6 + size : 6 + size + topic_size].decode()
    partition = unpack_from(">i", key, 6 + size + topic_size)[0]
    if value is None:
        return group, topic, partition
    offset, epoch = unpack_from(">qi", value, 2)
    length = value[14] - 1
    metadata = value[15 : 15 + length].decode()
    time = unpack_from(">q", value, 15 + length)[0]
    return group, topic, partition, offset, epoch, metadata, time, value[-16:]


# -- on Spark ---------------------------------------------------------------------------------------------


class Engine:
    """The process with Spark in it; see bench.spark_engine."""

    def __init__(self, bootstrap: str, home: Path, jars: list[Path]) -> None:
        names = ",".join(map(str, jars))
        command = [sys.executable, "-m", "bench.spark_engine", bootstrap, str(home), names]
        self._process = subprocess.Popen(
            tethered(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(home / "spark.log").open("wb"),
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path)},
        )
        self._log = home / "spark.log"
        self._answer()

    def _answer(self) -> dict[str, Any]:
        if self._process.stdout is None:
            raise RuntimeError("the engine has no output")
        for line in self._process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                if "error" in answer:
                    raise Disagreement(answer["error"])
                return answer
        raise RuntimeError(f"Spark ended: {self._log.read_text(errors='replace')[-2000:]}")

    def ask(self, line: str) -> dict[str, Any]:
        if self._process.stdin is None:
            raise RuntimeError("the engine has no input")
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._answer()

    def seconds(self, way: str) -> float:
        return float(self.ask(way)["seconds"])

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


def on_spark(engine: Engine, *, connector: bool) -> Iterator[Measurement]:
    """Seconds to have all records in Spark."""

    def beside(
        name: str, peer: str, goal: float, ours: str = "source", rounds: int = _ROUNDS
    ) -> Measurement:
        def agree() -> None:
            if peer != "bare":
                must_equal(peer, engine.ask(f"{ours} count"), engine.ask(f"{peer} count"))

        return Measurement(
            name=f"spark.{name}",
            ours=lambda: engine.seconds(ours),
            peers={peer: lambda: engine.seconds(peer)},
            goal=goal,
            agree=agree,
            unit="s",
            max_rounds=rounds,
        )

    if connector:
        yield beside("connector_and_udf", "udf", UDF_GOAL)
        yield beside("connector_and_map_in_arrow", "map_in_arrow", MAP_IN_ARROW_GOAL)
        yield beside("connector_bare", "bare", BARE_GOAL)
    yield beside("transfer_ceiling", "ceiling", CEILING_GOAL, rounds=_SHORT_ROUNDS)
    yield beside("transfer_on_equal_terms", "equal", EQUAL_TERMS_GOAL, rounds=_SHORT_ROUNDS)
    yield beside("five_columns", "source", FIVE_COLUMNS_GOAL, "source_five", _SHORT_ROUNDS)
