"""Options of the source: what cannot be meant, or would be ignored, is refused in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.datasource import EqualTo
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from coterie.datasets.schemas import schema
from coterie.errors import CoterieError, InvalidArgument
from coterie.spark import streaming
from coterie.spark.filters import push
from coterie.spark.options import SourceOptions
from coterie.spark.source import CoterieSource
from coterie.spark.streaming import CoterieStreamReader
from coterie.testing import EmbeddedCluster
from tests.kit.offsets_log import batch_of, commit, write_segment

PLACES = [
    {"partitions": "0,99"},
    {"startingOffsets": '{"99": 5}'},
    {"endingOffsets": '{"99": 5}'},
]
CLUSTER = {"bootstrap.servers": "127.0.0.1:1"}


def options(dataset: str, **given: str) -> SourceOptions:
    return SourceOptions.of({**CLUSTER, "path": dataset, **given})


def source(dataset: str, **given: str) -> tuple[CoterieSource, StructType]:
    made = CoterieSource({**CLUSTER, "path": dataset, **given})
    return made, made.schema()


@pytest.mark.parametrize(
    ("dataset", "option", "value"),
    [
        ("commits", "states", "Stable"),
        ("group_events", "types", "classic"),
        ("log", "states", "Stable"),
        ("group_events", "topics", "orders"),
        ("log", "topics", "orders"),
        ("groups", "topics", "orders"),
        ("members", "topics", "orders"),
        ("end_offsets", "groups", "billing"),
        ("end_offsets", "group.prefix", "bill"),
        ("end_offsets", "group.regex", "bill.*"),
        ("end_offsets", "states", "Stable"),
        ("end_offsets", "types", "classic"),
        ("offsets", "startingTimestamp", "2026-01-01"),
        ("offsets", "endingTimestamp", "2026-01-01"),
        ("errors", "partitions", "1"),
    ],
)
def test_an_option_that_chooses_nothing_of_a_dataset_is_refused(
    dataset: str, option: str, value: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        options(dataset, **{option: value})
    said = str(caught.value)
    assert said.startswith(f"{option} ")
    assert repr(dataset) in said
    assert "leave it out" in said


@pytest.mark.parametrize(
    ("dataset", "option", "value"),
    [
        ("commits", "topics", "orders"),
        ("errors", "topics", "orders"),
        ("end_offsets", "topics", "orders"),
        ("members", "states", "Stable"),
        ("errors", "types", "classic"),
        ("log", "groups", "billing"),
        ("commits", "endingTimestamp", "2026-01-01"),
    ],
)
def test_an_option_that_chooses_something_is_taken(dataset: str, option: str, value: str) -> None:
    options(dataset, **{option: value})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"partial": "allow"}, "partial=allow is not for a stream of 'commits': "),
        ({"endingOffsets": '{"0": 5}'}, "endingOffsets is not for a stream of 'commits': "),
    ],
)
def test_what_a_stream_cannot_keep_is_refused(given: dict[str, str], said: str) -> None:
    made, schema = source("commits", **given)
    with pytest.raises(InvalidArgument) as caught:
        made.streamReader(schema)
    assert str(caught.value).startswith(said)
    made.reader(schema)


def test_a_batch_does_not_begin_at_the_end() -> None:
    made, schema = source("commits", startingOffsets="latest")
    made.streamReader(schema)
    with pytest.raises(InvalidArgument, match=r"startingOffsets=latest is for streams.*'commits'"):
        made.reader(schema)


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": "70"}, ReadMaxRows(70)),
        ({"maxBytesPerTrigger": "5k"}, ReadMaxRows(51)),
        ({"maxBytesPerTrigger": "1"}, ReadMaxRows(1)),
        ({"maxOffsetsPerTrigger": "70", "maxBytesPerTrigger": "5k"}, ReadMaxRows(51)),
        ({"maxOffsetsPerTrigger": "7", "maxBytesPerTrigger": "5k"}, ReadMaxRows(7)),
    ],
)
def test_of_two_limits_the_narrower_one_counts(given: dict[str, str], limit: ReadLimit) -> None:
    chosen = options("commits", **given)
    assert CoterieStreamReader(chosen, schema("commits")).getDefaultReadLimit() == limit


@pytest.mark.parametrize("option", ["maxOffsetsPerTrigger", "maxBytesPerTrigger"])
def test_a_limit_that_an_older_spark_would_ignore_is_refused(
    option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "ADMISSION_CONTROL", False)
    made, schema = source("commits", **{option: "70"})
    with pytest.raises(InvalidArgument, match=rf"{option}.* no effect before Spark 4\.2"):
        made.streamReader(schema)
    made.reader(schema)


@pytest.mark.parametrize("given", PLACES, ids=str)
def test_a_batch_names_partitions_that_the_log_has(given: dict[str, str], tmp_path: Path) -> None:
    write_segment(tmp_path, 0, batch_of([commit()]))
    option = next(iter(given))
    said = rf"^{option}: there is no partition 99 of the log, which has 1 "
    made = CoterieSource({"path": "commits", "segments": str(tmp_path), **given})
    with pytest.raises(InvalidArgument, match=said):
        made.reader(made.schema()).partitions()
    with EmbeddedCluster() as cluster:
        where = {"bootstrap.servers": cluster.bootstrap_servers}
        made = CoterieSource({"path": "commits", **where, **given})
        # A log that is not there lacks none.
        assert made.reader(made.schema()).partitions() == []
        cluster.create_topic("orders", partitions=1)
        cluster.scene("empty_group", "idle", topic="orders", offset=0)
        with pytest.raises(InvalidArgument, match=said.replace("1 ", r"\d+ ")):
            made.reader(made.schema()).partitions()


def test_a_filter_may_ask_for_a_partition_that_there_is_not(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, batch_of([commit()]))
    given = SourceOptions.of({"path": "commits", "segments": str(tmp_path), "partitions": "0"})
    narrowed, _ = push(given, [EqualTo(("partition",), 99)])
    narrowed.check_partitions()


@pytest.mark.parametrize(
    "given",
    [
        {"startingOffsets": '{"0": Infinity}'},
        {"startingOffsets": '{"0": NaN}'},
        {"startingOffsets": '{"0": 1.5}'},
        {"startingOffsets": '{"0": true}'},
        {"startingOffsets": '{"²": 5}'},
        {"startingOffsets": '{"0": -1}'},
        {"startingOffsets": '{"-1": 5}'},
        {"startingOffsets": f'{{"0": {2**63}}}'},
        {"startingOffsets": "[" * 100_000},
        {"endingOffsets": '{"0": Infinity}'},
        {"maxOffsetsPerTrigger": "²"},
        {"maxOffsetsPerTrigger": "9" * 5000},
        {"bytesPerTask": "m"},
        {"partitions": "²"},
        {"partitions": "9" * 5000},
        {"startingTimestamp": "²"},
    ],
    ids=lambda given: str(given)[:40],
)
def test_what_is_no_number_is_told_in_a_sentence(given: dict[str, str]) -> None:
    with pytest.raises(CoterieError) as caught:
        options("commits", **given)
    assert next(iter(given)) in str(caught.value)
    assert "\n" not in str(caught.value)
