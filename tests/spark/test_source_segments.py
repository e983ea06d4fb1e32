"""The source on segment files: the same rows as the core, fewer where filters and columns say so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from coterie.datasets.log import LogQuery, SegmentSource, read_log
from coterie.datasets.schemas import DATASETS, LOG, schema
from coterie.spark.errors import sentence
from coterie.spark.session import PUSHDOWN, SETTINGS
from tests.kit.offsets_log import batch_of, commit, golden_disk, write_segment


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(golden_disk(tmp_path_factory.mktemp("disk")))


def load(spark: SparkSession, dataset: str, **options: str) -> DataFrame:
    return spark.read.format("coterie").options(**options).load(dataset)


def plain(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


@pytest.mark.parametrize("dataset", LOG)
def test_rows_are_those_of_the_core(spark: SparkSession, disk: str, dataset: str) -> None:
    frame = load(spark, dataset, segments=disk)
    core = pa.Table.from_batches(
        read_log(SegmentSource.at(disk), LogQuery(dataset)), schema=schema(dataset)
    )
    assert frame.columns == core.schema.names
    assert plain(frame.toArrow()) == plain(core)


def test_filters_are_pushed_and_none_changes_the_answer(spark: SparkSession, disk: str) -> None:
    frame = load(spark, "commits", segments=disk)
    frame.cache()
    pushed = {
        "group_id = 'life-classic'": "EqualTo(group_id",
        "group_id IN ('life-classic', 'life-simple', NULL)": "In(group_id",
        "group_id LIKE 'life-%'": "StringStartsWith(group_id",
        "partition IN (1, 3) AND topic = 'orders'": "In(partition",
    }
    left = [
        "group_id RLIKE 'simple$'",
        "group_id = 'life-classic' OR topic = 'payments'",
        "timestamp >= '2026-11-15 20:37:44' AND timestamp < '2026-11-15 20:38:00'",
        "NOT (topic <=> 'orders') AND offset > 3",
    ]
    for condition, name in {**pushed, **dict.fromkeys(left, "")}.items():
        fresh = load(spark, "commits", segments=disk).where(condition)
        if name:
            assert name in formatted(fresh), condition
        rows = plain(fresh.toArrow())
        assert rows == plain(frame.where(condition).toArrow()), condition
        assert rows, condition
    frame.unpersist()


def formatted(frame: DataFrame) -> str:
    explained = frame._jdf.queryExecution().explainString(
        frame.sparkSession._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")  # type: ignore[union-attr]
    )
    return str(explained)


@pytest.fixture
def not_pushing(spark: SparkSession) -> Iterator[SparkSession]:
    """A session with the settings that ours have."""
    spark.conf.set(PUSHDOWN, SETTINGS[PUSHDOWN])
    yield spark
    spark.conf.set(PUSHDOWN, "true")


def test_it_works_in_a_session_that_does_not_push_filters(
    not_pushing: SparkSession, disk: str
) -> None:
    """Spark's default: a reader that wants filters would fail every query."""
    frame = load(not_pushing, "commits", segments=disk).where("group_id LIKE 'life-%'")
    assert "PushedFilters" not in formatted(frame)
    count = frame.count()
    not_pushing.conf.set(PUSHDOWN, "true")
    again = load(not_pushing, "commits", segments=disk).where("group_id LIKE 'life-%'")
    assert count == again.count()


def answers(frame: DataFrame) -> list[int]:
    """How many rows: with one filter, without any, and with two in one query."""
    one, other = "group_id = 'life-classic'", "group_id = 'life-simple'"
    both = frame.where(one).unionAll(frame.where(other))
    return [frame.where(one).count(), frame.count(), both.count()]


def test_a_frame_answers_more_than_one_question(not_pushing: SparkSession, disk: str) -> None:
    rows = load(not_pushing, "commits", segments=disk).toArrow().to_pylist()
    one, other = (
        sum(row["group_id"] == f"life-{name}" for row in rows) for name in ("classic", "simple")
    )
    assert one
    assert other
    frame = load(not_pushing, "commits", segments=disk)
    assert answers(frame) == [one, len(rows), one + other]


def test_spark_keeps_what_was_pushed_so_it_is_not_pushed_unless_asked_for(
    spark: SparkSession, disk: str
) -> None:
    """The reason for the setting. Where this fails, Spark has learnt better, and filters can be pushed."""
    right = answers(load(spark, "commits", segments=disk, pushdown="false"))
    wrong = answers(load(spark, "commits", segments=disk))
    assert wrong[0] == right[0]
    assert wrong[1] < right[1]


def test_columns_are_pruned_by_option_and_by_schema(spark: SparkSession, disk: str) -> None:
    by_option = load(spark, "commits", segments=disk, columns="group_id, committed_offset")
    by_schema = (
        spark.read.format("coterie")
        .schema("group_id string, committed_offset bigint")
        .option("segments", disk)
        .load("commits")
    )
    assert by_option.columns == by_schema.columns == ["group_id", "committed_offset"]
    assert sorted(map(str, by_option.collect())) == sorted(map(str, by_schema.collect()))
    # A filter on a column that Spark then drops.
    found = by_option.where("group_id = 'life-simple'").select("committed_offset").count()
    assert found == load(spark, "commits", segments=disk).where("group_id = 'life-simple'").count()


def test_options_say_what_filters_cannot(spark: SparkSession, disk: str) -> None:
    whole = load(spark, "commits", segments=disk)
    by_regex = load(spark, "commits", segments=disk, **{"group.regex": "life-(classic|simple)"})
    assert plain(by_regex.toArrow()) == plain(
        whole.where("group_id IN ('life-classic', 'life-simple')").toArrow()
    )
    ranged = load(
        spark,
        "log",
        segments=disk,
        startingOffsets='{"1": 5}',
        endingOffsets='{"__consumer_offsets": {"1": 9}}',
        partitions="1",
    )
    assert [row.offset for row in ranged.orderBy("offset").collect()] == [5, 6, 7, 8]
    timed = load(
        spark, "log", segments=disk, startingTimestamp="2026-11-15T20:38:00", partitions="0,1,2,3"
    )
    late = load(spark, "log", segments=disk).where("timestamp >= '2026-11-15 20:38:00'")
    assert timed.count() == late.count() > 0


def test_a_view_in_sql(spark: SparkSession, disk: str) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW golden USING coterie OPTIONS (path 'commits', segments '{disk}')"
    )
    total = spark.sql("SELECT count(*) AS n FROM golden WHERE NOT tombstone").first()
    assert total is not None
    assert total.n > 0


@pytest.mark.parametrize(
    ("dataset", "options", "said"),
    [
        ("grups", {"segments": "x"}, "there is no dataset 'grups'; did you mean 'groups'?"),
        ("commits", {"segment": "x"}, "there is no option 'segment'; did you mean 'segments'?"),
        ("commits", {}, "bootstrap.servers is missing"),
        ("commits", {"segments": "/not/there"}, "there is no directory '/not/there'"),
        ("groups", {"segments": "x"}, "give bootstrap.servers instead of segments"),
        ("commits", {"segments": "x", "columns": "grup_id"}, "did you mean 'group_id'?"),
        ("commits", {"segments": "x", "startingOffsets": "soon"}, "startingOffsets is earliest"),
        ("commits", {"segments": "x", "startingTimestamp": "soon"}, "'soon' is not a time"),
        ("commits", {"segments": "x", "group.regex": "("}, "is not a pattern"),
        ("groups", {"bootstrap.servers": "h:1", "states": "Stabel"}, "there is no 'Stabel'"),
        ("groups", {"bootstrap.servers": "h:1", "partial": "maybe"}, "partial is allow or fail"),
        (
            "groups",
            {"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": "300"},
            "no broker can be reached",
        ),
    ],
    ids=str,
)
def test_mistakes_are_told_in_one_sentence(
    spark: SparkSession, dataset: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PySparkException) as caught:
        load(spark, dataset, **options).collect()
    found = sentence(caught.value)
    assert found is not None
    assert said in found
    assert "\n" not in found
    # Nothing of ours, and nothing of Java, stands around it.
    assert str(caught.value).count("File ") == 1
    assert "at org.apache" not in str(caught.value)


def test_a_type_that_is_not_the_columns_own(spark: SparkSession, disk: str) -> None:
    with pytest.raises(PySparkException, match="is bigint"):
        (
            spark.read.format("coterie")
            .schema("committed_offset string")
            .option("segments", disk)
            .load("commits")
            .collect()
        )


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("topic string, topic string", "column 'topic' of 'commits' is named twice"),
        ("topic string not null", "column 'topic' of 'commits' may be null for a reader"),
        ("committed_offset bigint not null", "column 'committed_offset' of 'commits' may be null"),
    ],
)
def test_columns_that_cannot_be_given_are_told_in_one_sentence(
    spark: SparkSession, disk: str, columns: str, said: str
) -> None:
    reader = spark.read.format("coterie").schema(columns).option("segments", disk)
    with pytest.raises(PySparkException) as caught:
        reader.load("commits").collect()
    assert said in str(sentence(caught.value))
    assert "at org.apache" not in str(caught.value)


def test_hostile_names_arrive_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    names = ['=1+1"', "<script>alert(1)</script>", "a,b\n'c'", "ẞ\u202e\u0000x", "--", "' OR 1=1"]
    records = [commit(name, name, metadata=name) for name in names]
    bad = (b"\x00\x01\x00\x05\xff\xfe", b"\x00")
    write_segment(tmp_path, 0, batch_of([*records, bad]))
    found = load(spark, "commits", segments=str(tmp_path)).orderBy("offset").collect()
    assert [(row.group_id, row.topic, row.metadata) for row in found] == [
        (name, name, name) for name in names
    ]
    for row in found:
        again = load(spark, "commits", segments=str(tmp_path)).where(
            found_by := "group_id = " + repr_sql(row.group_id)
        )
        assert again.count() == 1, found_by
    quarantined = load(spark, "log", segments=str(tmp_path)).where("reason IS NOT NULL")
    assert [row.offset for row in quarantined.collect()] == [len(names)]


def repr_sql(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


def test_settings_are_in_no_plan(spark: SparkSession, disk: str) -> None:
    """What is an option may be a secret: client.id stands in for a password here."""
    options = {"bootstrap.servers": "127.0.0.1:1", "client.id": "hush-hush"}
    frame = load(spark, "groups", **options).where("state = 'Stable'")
    execution = frame._jdf.queryExecution()
    for text in (execution.logical().toString(), execution.analyzed().toString(), repr(frame)):
        assert "hush-hush" not in text
    with pytest.raises(PySparkException) as caught:
        frame.collect()
    assert "hush-hush" not in str(caught.value)


def test_every_dataset_has_a_schema_that_spark_takes(spark: SparkSession) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema  # noqa: PLC0415

    for name in DATASETS:
        assert to_arrow_schema(from_arrow_schema(schema(name)), timezone="UTC") == schema(name)


def test_a_stream_of_a_log_that_was_made_anew_begins_again_with_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    disk, checkpoint, rows = tmp_path / "disk", tmp_path / "checkpoint", tmp_path / "rows"

    def drained() -> list[tuple[str, int]]:
        query = (
            spark.readStream.format("coterie")
            .options(segments=str(disk), failOnDataLoss="false", maxOffsetsPerTrigger="4")
            .load("commits")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start(str(rows))
        )
        query.awaitTermination()
        assert query.exception() is None
        found = spark.read.parquet(str(rows)).orderBy("group_id", "offset").collect()
        return [(row.group_id, row.offset) for row in found]

    write_segment(disk, 0, batch_of([commit("a")] * 9))
    old = [("a", offset) for offset in range(9)]
    assert drained() == old
    write_segment(disk, 0, batch_of([commit("b")] * 7))
    assert drained() == old + [("b", offset) for offset in range(7)]
    assert len(drained()) == 16
