"""ingest: every record of the log once, whatever happens in between; what cannot be read is kept apart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from coterie.datasets.log import LogSource
from coterie.datasets.schemas import schema
from coterie.errors import CoterieError
from coterie.protocol.records import RecordBatch
from coterie.protocol.records.batch import TRANSACTIONAL_FLAG_MASK
from coterie.protocol.records.control import ControlRecordType, control_batch
from coterie.spark.pipeline.build import inputs_of
from coterie.spark.pipeline.compaction import compact
from coterie.spark.pipeline.end_offsets import import_end_offsets
from coterie.spark.pipeline.frames import read_table
from coterie.spark.pipeline.gaps import known_gaps
from coterie.spark.pipeline.ingest import ingest
from coterie.spark.pipeline.origin import Bounds, SegmentOrigin
from coterie.spark.pipeline.query import run_query
from coterie.spark.pipeline.store import TableStore
from tests.kit.offsets_log import batch_of, commit, golden_disk, write_segment
from tests.spark.pipeline_kit import pipeline
from tests.unit.spark.tables import rows_of


@dataclass
class Cut:
    """Segment files of which only a part is there yet, or of which a partition fails."""

    whole: SegmentOrigin
    ends: Mapping[int, int] = field(default_factory=dict)
    failing: Mapping[int, str] = field(default_factory=dict)
    identity: str = "segment files"

    def bounds(self) -> Bounds:
        known = self.whole.bounds().partitions
        return Bounds(
            {
                n: (a, min(z, self.ends.get(n, z)))
                for n, (a, z) in known.items()
                if n not in self.failing
            },
            self.failing,
        )

    @property
    def source(self) -> LogSource:
        return self.whole.source


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three partitions with commits; one of them has a record that nobody can read."""
    root = tmp_path / "segments"
    for partition in range(3):
        batches = [batch_of([commit(), commit()], offset) for offset in (0, 2, 4)]
        write_segment(root, partition, b"".join(batches))
    bad = (b"\x00\x01garbage", b"\x00\x09=cmd()")
    write_segment(root, 1, batch_of([bad], 6), base_offset=6)
    return root


def places(store: TableStore, table: str = "commits") -> list[tuple[int, int]]:
    return sorted((row["partition"], row["offset"]) for row in rows_of(store, table))


EVERYTHING = [(partition, offset) for partition in range(3) for offset in range(6)]


def test_every_record_once_and_the_rest_in_quarantine(
    spark: SparkSession, log: Path, tmp_path: Path
) -> None:
    store = TableStore(tmp_path / "out")
    done = ingest(spark, store, SegmentOrigin(log))
    assert (done.rows["commits"], done.rows["quarantine"], done.partitions) == (18, 1, 3)
    assert places(store) == EVERYTHING
    [bad] = rows_of(store, "quarantine")
    assert (bad["partition"], bad["offset"], bad["value"]) == (1, 6, b"\x00\x09=cmd()")
    assert bad["reason"]
    again = ingest(spark, store, SegmentOrigin(log))
    assert (again.records, again.rows) == (0, {})
    assert places(store) == EVERYTHING


def test_in_pieces_with_a_partition_that_fails(
    spark: SparkSession, log: Path, tmp_path: Path
) -> None:
    """What could not be read is told and read the next time; nothing is lost, nothing is there twice."""
    store = TableStore(tmp_path / "out")
    whole = SegmentOrigin(log)
    first = ingest(spark, store, Cut(whole, {0: 2}, {2: "leader not available"}))
    assert first.failures == {2: "leader not available"}
    assert places(store) == EVERYTHING[:2] + EVERYTHING[6:12]
    ingest(spark, store, whole)
    assert places(store) == EVERYTHING
    assert len(rows_of(store, "quarantine")) == 1
    # A file per day and run, however many partitions and tasks there were.
    manifest = store.manifest("commits")
    assert manifest is not None
    assert len(manifest.files) == 2


def test_a_killed_ingest_is_as_if_it_had_never_begun(
    spark: SparkSession, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = TableStore(tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr("coterie.spark.pipeline.store.save", _killed)
        with pytest.raises(SystemExit):
            ingest(spark, store, SegmentOrigin(log))
    assert store.tables == []
    assert list((tmp_path / "out").rglob("*.parquet"))
    ingest(spark, store, SegmentOrigin(log))
    assert places(store) == EVERYTHING
    named = {path for table in store.tables for path in store.paths(table)}
    assert {str(path) for path in (tmp_path / "out").rglob("*.parquet")} == named


def _killed(*_: object) -> None:
    raise SystemExit(137)


IN_TRANSACTION = RecordBatch(attributes=TRANSACTIONAL_FLAG_MASK, producer_id=7, producer_epoch=0)


def marker(kind: ControlRecordType, offset: int) -> bytes:
    """The end of the transaction."""
    whole = control_batch(
        kind, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=1
    ).encode()
    return offset.to_bytes(8, "big") + whole[8:]


def outcomes(store: TableStore) -> list[tuple[int, int, str | None]]:
    return sorted(
        (row["partition"], row["offset"], row["outcome"]) for row in rows_of(store, "commits")
    )


def test_an_open_transaction_holds_its_partition_back(spark: SparkSession, tmp_path: Path) -> None:
    """Where more is to come."""
    root = tmp_path / "segments"
    write_segment(root, 0, batch_of([commit()], 0) + batch_of([commit()], 1, like=IN_TRANSACTION))
    write_segment(root, 1, batch_of([commit()], 0))
    store = TableStore(tmp_path / "out")
    running = Cut(SegmentOrigin(root))
    done = ingest(spark, store, running)
    assert done.waiting == {0: 1}
    assert [gap[:3] for gap in _gaps(spark, store)] == [(0, "waiting", 1)]
    assert places(store) == [(0, 0), (1, 0)]
    write_segment(root, 0, marker(ControlRecordType.COMMIT, 2), base_offset=2)
    assert ingest(spark, store, running).waiting == {}
    assert outcomes(store) == [(0, 0, None), (0, 1, "committed"), (1, 0, None)]
    assert _gaps(spark, store) == []


@pytest.fixture
def open_ended(tmp_path: Path) -> Path:
    """Two partitions that end in a transaction, and one that does not."""
    root = tmp_path / "segments"
    begun = batch_of([commit()], 0) + batch_of([commit()], 1, like=IN_TRANSACTION)
    for partition in range(2):
        bad = (b"\x00\x01garbage", b"\x00\x09=cmd()")
        write_segment(root, partition, begun + batch_of([commit()], 2) + batch_of([bad], 3))
    write_segment(root, 2, batch_of([commit()], 0))
    return root


FIRST = [
    *[(partition, *row) for partition in range(2) for row in [(0, None), (1, "open"), (2, None)]],
    (2, 0, None),
]


def test_files_that_end_in_a_transaction_are_read_to_their_end(
    spark: SparkSession, open_ended: Path, tmp_path: Path
) -> None:
    """How it ended, a longer copy tells; each record is there once all the while."""
    store = TableStore(tmp_path / "out")
    assert ingest(spark, store, SegmentOrigin(open_ended)).waiting == {0: 1, 1: 1}
    assert outcomes(store) == FIRST
    assert [gap[:3] for gap in _gaps(spark, store)] == [(0, "open", 1), (1, "open", 1)]
    version = store.catalog.version
    assert ingest(spark, store, SegmentOrigin(open_ended)).records == 0
    assert store.catalog.version == version
    # The disk of another broker: it has more of one partition, and nothing of the other.
    (open_ended / "__consumer_offsets-1").rename(tmp_path / "apart")
    write_segment(open_ended, 0, marker(ControlRecordType.COMMIT, 4), base_offset=4)
    compact(store)
    ingest(spark, store, SegmentOrigin(open_ended))
    ended = [(0, 0, None), (0, 1, "committed"), (0, 2, None)]
    assert outcomes(store) == ended + FIRST[3:]
    assert places(store, "quarantine") == [(0, 3), (1, 3)]
    assert [gap[:3] for gap in _gaps(spark, store)] == [(1, "open", 1)]
    # Longer, and the transaction is open still; then it has ended.
    (tmp_path / "apart").rename(open_ended / "__consumer_offsets-1")
    write_segment(open_ended, 1, batch_of([commit()], 4), base_offset=4)
    assert ingest(spark, store, SegmentOrigin(open_ended)).records == 4
    assert outcomes(store) == [*ended, *FIRST[3:6], (1, 4, None), FIRST[6]]
    write_segment(open_ended, 1, marker(ControlRecordType.ABORT, 5), base_offset=5)
    ingest(spark, store, SegmentOrigin(open_ended))
    assert outcomes(store) == [
        *ended,
        FIRST[3],
        (1, 1, "aborted"),
        FIRST[5],
        (1, 4, None),
        FIRST[6],
    ]
    assert places(store, "quarantine") == [(0, 3), (1, 3)]
    assert _gaps(spark, store) == []


def test_files_that_end_in_a_transaction_and_then_the_cluster(
    spark: SparkSession, open_ended: Path, tmp_path: Path
) -> None:
    """Of a cluster only what is decided is read; what is behind waits there."""
    store = TableStore(tmp_path / "out")
    running = Cut(SegmentOrigin(open_ended), {1: 1})
    ingest(spark, store, SegmentOrigin(open_ended))
    write_segment(open_ended, 0, marker(ControlRecordType.ABORT, 4), base_offset=4)
    ingest(spark, store, running)
    assert outcomes(store) == [(0, 0, None), (0, 1, "aborted"), (0, 2, None), *FIRST[3:]]
    # What a cluster does not tell any more is there again when it is decided.
    write_segment(open_ended, 1, marker(ControlRecordType.COMMIT, 4), base_offset=4)
    ingest(spark, store, Cut(SegmentOrigin(open_ended), {1: 2}))
    assert outcomes(store)[3:] == [(1, 0, None), (1, 1, "committed"), (2, 0, None)]
    ingest(spark, store, Cut(SegmentOrigin(open_ended)))
    assert outcomes(store)[3:] == [(1, 0, None), (1, 1, "committed"), (1, 2, None), (2, 0, None)]
    assert places(store, "quarantine") == [(0, 3), (1, 3)]


def test_an_older_copy_of_files_that_end_in_a_transaction(
    spark: SparkSession, open_ended: Path, tmp_path: Path
) -> None:
    store = TableStore(tmp_path / "out")
    ingest(spark, store, SegmentOrigin(open_ended))
    older = batch_of([commit()], 0) + batch_of([commit()], 1, like=IN_TRANSACTION)
    write_segment(open_ended, 1, older)
    with pytest.raises(CoterieError, match=r"ends at offset 2, but was read up to 4: .*older copy"):
        ingest(spark, store, SegmentOrigin(open_ended))


def test_the_golden_log_ends_in_a_transaction(spark: SparkSession, tmp_path: Path) -> None:
    """Groups that came later are there, and what is open is told."""
    out = tmp_path / "out"
    done = pipeline("ingest", "--segments", golden_disk(tmp_path / "segments"), "--out", out)
    assert done.exit_code == 0, done.output
    groups = {row["group_id"] for row in rows_of(TableStore(out), "group_events")}
    assert groups >= {"life-migrate", "life-share", "life-streams"}
    [gap] = known_gaps(TableStore(out))
    assert gap.kind == "open"
    assert "open since offset" in gap.reason
    assert f"Warning: {gap.sentence}" in done.stderr


def test_logs_of_two_clusters_do_not_meet(spark: SparkSession, log: Path, tmp_path: Path) -> None:
    store = TableStore(tmp_path / "out")
    ingest(spark, store, SegmentOrigin(log))
    other = Cut(SegmentOrigin(log), identity="cluster abc")
    with pytest.raises(CoterieError, match="has the groups of segment files, this is cluster abc"):
        ingest(spark, store, other)
    with pytest.raises(CoterieError, match="ends at offset 2, but was read up to 6"):
        ingest(spark, store, Cut(SegmentOrigin(log), {0: 2}))


def test_a_topic_that_was_made_anew_is_another_log(
    spark: SparkSession, log: Path, tmp_path: Path
) -> None:
    store = TableStore(tmp_path / "out")
    about = log / "__consumer_offsets-1" / "partition.metadata"
    about.write_text("version: 0\ntopic_id: AAAAAAAAQACAAAAAAAAAAA\n")
    ingest(spark, store, SegmentOrigin(log))
    about.write_text("version: 0\ntopic_id: BBBBBBBBQACBBBBBBBBBBB\n")
    # It is longer than what was read, so offsets alone would not tell.
    write_segment(log, 0, batch_of([commit()], 6), base_offset=6)
    with pytest.raises(CoterieError, match="id AAAAAAAAQACAAAAAAAAAAA, this one has BBBBBBBBQACB"):
        ingest(spark, store, SegmentOrigin(log))
    assert places(store) == EVERYTHING


def test_what_was_deleted_before_it_was_read_is_told(
    spark: SparkSession, log: Path, tmp_path: Path
) -> None:
    store = TableStore(tmp_path / "out")
    ingest(spark, store, SegmentOrigin(log))
    for path in (log / "__consumer_offsets-0").iterdir():
        path.unlink()
    write_segment(log, 0, batch_of([commit()], 50), base_offset=50)
    with pytest.raises(CoterieError, match="offsets 6 to 49 of partition 0 were deleted before"):
        ingest(spark, store, SegmentOrigin(log), strict=True)
    assert places(store) == EVERYTHING
    assert ingest(spark, store, SegmentOrigin(log)).lost == {0: (6, 50)}
    assert places(store) == sorted([*EVERYTHING, (0, 50)])
    # It stays lost.
    assert ingest(spark, store, SegmentOrigin(log)).lost == {}
    [gap] = _gaps(spark, store)
    assert gap[:3] == (0, "lost", 6)


def test_what_is_missing_is_known_until_it_is_read(
    spark: SparkSession, log: Path, tmp_path: Path
) -> None:
    """Who looks at the tables sees how much of the log they are, also when an ingest finds nothing new."""
    store = TableStore(tmp_path / "out")
    whole = SegmentOrigin(log)
    ingest(spark, store, Cut(whole, {2: 2}))
    assert _gaps(spark, store) == []
    part = Cut(whole, failing={2: "leader not available"})
    ingest(spark, store, part)
    ingest(spark, store, Cut(whole, failing={1: "gone", 2: "leader not available"}))
    [row] = rows_of(store, "commits")[:1]
    assert _gaps(spark, store) == [
        (1, "failed", 7, row["timestamp"], "could not be read, and is read next time: gone"),
        (2, "failed", 2, row["timestamp"], f"{_NEXT_TIME}: leader not available"),
    ]
    with store.write() as transaction:
        found = inputs_of(spark, transaction, ("commits", "gaps"))
        assert found["gaps"].count() == 2
    version = store.catalog.version
    assert len(ingest(spark, store, part).gaps) == 1
    assert ingest(spark, store, part).gaps == tuple(known_gaps(store))
    assert store.catalog.version == version + 1
    ingest(spark, store, whole)
    assert _gaps(spark, store) == []
    never = TableStore(tmp_path / "never")
    ingest(spark, never, Cut(whole, failing=dict.fromkeys(range(3), "gone")))
    assert {(row[2], row[3]) for row in _gaps(spark, never)} == {(None, None)}


_NEXT_TIME = "could not be read, and is read next time"


def _gaps(spark: SparkSession, store: TableStore) -> list[tuple[object, ...]]:
    names = "partition, kind, read_to, read_until, reason"
    _, rows = run_query(spark, store, f"SELECT {names} FROM gaps ORDER BY partition")
    return [tuple(row) for row in rows]


def test_strict_is_all_or_nothing(spark: SparkSession, log: Path, tmp_path: Path) -> None:
    store = TableStore(tmp_path / "out")
    part = Cut(SegmentOrigin(log), failing={2: "leader not available"})
    with pytest.raises(CoterieError, match="partition 2 could not be asked: leader not available"):
        ingest(spark, store, part, strict=True)
    assert store.tables == []


def test_a_log_that_is_refused_leaves_nothing(
    spark: SparkSession, log: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert pipeline("ingest", "--segments", log, "--out", out).exit_code == 0
    write_history(log, [1])
    (log / "meta.properties").write_text("cluster.id=another\n")
    with pytest.raises(CoterieError, match="this is cluster another"):
        pipeline("ingest", "--segments", log, "--out", out)
    assert "end_offsets" not in TableStore(out).tables
    with pytest.raises(CoterieError, match="--out and --segments are both"):
        pipeline("ingest", "--segments", log, "--out", log)


def test_a_table_of_another_schema_is_refused_before_anything_is_read(
    spark: SparkSession, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = TableStore(tmp_path / "out")
    ingest(spark, store, SegmentOrigin(log))
    path = store.root / store.catalog.tables["commits"]
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 2'))
    with pytest.raises(CoterieError, match="has schema version 2, this Coterie knows 1"):
        ingest(spark, TableStore(store.root), SegmentOrigin(log))


def test_a_column_that_came_since_is_null_in_older_files(
    spark: SparkSession, log: Path, tmp_path: Path
) -> None:
    store = TableStore(tmp_path / "out")
    whole = SegmentOrigin(log)
    ingest(spark, store, Cut(whole, {0: 2, 1: 0, 2: 0}))
    [path] = store.paths("commits")
    pq.write_table(pq.ParquetFile(path).read().drop_columns("key_version"), path)
    manifest = store.root / store.catalog.tables["commits"]
    document = json.loads(manifest.read_text())
    document["columns"] = [each for each in document["columns"] if each[0] != "key_version"]
    manifest.write_text(json.dumps(document))
    ingest(spark, TableStore(store.root), whole)
    rows = read_table(spark, TableStore(store.root), "commits").collect()
    known = {(row.partition, row.offset): row.key_version for row in rows}
    assert sorted(known) == EVERYTHING
    assert {place for place, version in known.items() if version is None} == {(0, 0), (0, 1)}


def test_a_day_is_one_file_however_many_tasks_read_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are made by day and size, not by task: a day of 10,000 groups is a handful of them."""
    root, day = tmp_path / "segments", 86_400_000
    for partition in range(12):
        records = [commit(f"group-{partition}-{number}") for number in range(20)]
        batches = [
            batch_of([each], offset, timestamp=1_700_000_000_000 + offset % 3 * day)
            for offset, each in enumerate(records)
        ]
        write_segment(root, partition, b"".join(batches))
    monkeypatch.setattr("coterie.spark.pipeline.reading._BYTES_PER_TASK", 1)
    store = TableStore(tmp_path / "out")
    assert ingest(spark, store, SegmentOrigin(root)).rows["commits"] == 240
    manifest = store.manifest("commits")
    assert manifest is not None
    assert len({file.day for file in manifest.files}) == len(manifest.files) == 3


def write_history(root: Path, days: list[int | None]) -> Path:
    rows = [
        {"taken_at": None if day is None else datetime(2026, 3, day, tzinfo=UTC), "topic": "t",
         "partition": 0, "log_start": 0, "log_end": day or 0}
        for day in days
    ]  # fmt: skip
    history = root / "end_offsets"
    history.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema("end_offsets")), history / "a.parquet")
    return history


def test_histories_of_end_offsets_are_taken_once(tmp_path: Path) -> None:
    history = write_history(tmp_path / "segments", [1, 1, 2])
    store = TableStore(tmp_path / "out")
    assert import_end_offsets(store, tmp_path / "segments") == 3
    (history / "a.parquet").rename(history / "renamed.parquet")
    assert import_end_offsets(store, tmp_path / "segments") == 0
    assert [row["log_end"] for row in rows_of(store)] == [1, 1, 2]
    pq.write_table(pa.table({"topic": ["t"]}), history / "b.parquet")
    with pytest.raises(CoterieError, match=r"b\.parquet is no history of end offsets"):
        import_end_offsets(store, tmp_path / "segments")
    (history / "b.parquet").unlink()
    write_history(tmp_path / "segments", [3, None])
    with pytest.raises(CoterieError, match="a row has no taken_at"):
        import_end_offsets(store, tmp_path / "segments")


def test_executors_that_see_another_directory_are_named(
    spark: SparkSession, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they would write there, nobody would find."""
    out = tmp_path / "out"
    store = TableStore(out)
    monkeypatch.setattr(spark.sparkContext, "master", "spark://elsewhere:7077")
    with monkeypatch.context() as patch:
        # On another machine there is nothing at this path.
        patch.setattr("coterie.spark.pipeline.frames._content_seen", lambda _: _seen_by_another)
        with pytest.raises(CoterieError, match=f"--out {out} is not the same directory on node-2"):
            ingest(spark, store, SegmentOrigin(log))
    assert store.tables == []
    assert ingest(spark, store, SegmentOrigin(log)).rows["commits"] == 18


def _seen_by_another(_: int) -> tuple[str, bytes | None]:
    return "node-2", None
