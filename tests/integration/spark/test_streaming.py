"""Streams of the log without Spark: where they begin and end, what they refuse, and that nobody starves."""

from __future__ import annotations

import shutil
import traceback
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from coterie.datasets.cluster import ClusterSource
from coterie.datasets.log import LogSlice
from coterie.datasets.schemas import pruned
from coterie.errors import CoterieError, InvalidArgument
from coterie.spark import streaming
from coterie.spark.options import SourceOptions
from coterie.spark.streaming import CoterieStreamReader, StreamPartition, _limited
from coterie.testing import EmbeddedCluster
from tests.kit.offsets_log import batch_of, commit, write_segment

ALL = ReadAllAvailable()


def stream(**given: str) -> CoterieStreamReader:
    options = SourceOptions.of({"path": "commits", **given})
    return CoterieStreamReader(options, pruned("commits", ("partition", "offset")))


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A log by its figures: of a partition the first offset, the last stable one, and the end."""
    figures: dict[str, Any] = {"start": 0, "stable": 10, "end": 60, "at time": 50}

    def bounds(_: ClusterSource) -> dict[int, tuple[int, int]]:
        return {0: (figures["start"], figures["stable"])}

    def slices(*_: object) -> list[LogSlice]:
        return [LogSlice(0, figures["at time"], figures["end"])]

    monkeypatch.setattr(ClusterSource, "bounds", bounds)
    monkeypatch.setattr(ClusterSource, "ends", lambda _: {0: figures["end"]})
    monkeypatch.setattr(ClusterSource, "slices", slices)
    return figures


def of_a_cluster(**given: str) -> CoterieStreamReader:
    return stream(**{"bootstrap.servers": "127.0.0.1:1", **given})


@pytest.mark.parametrize(
    "given", [{"startingTimestamp": "2026-01-01"}, {"startingOffsets": '{"0": 50}'}], ids=str
)
def test_a_start_behind_an_open_transaction_waits_for_its_end(
    log: dict[str, Any], given: dict[str, str]
) -> None:
    reader = of_a_cluster(**given)
    start = reader.initialOffset()
    assert start == {"0": 50}
    assert reader.latestOffset(start, ALL) == start
    assert reader.partitions(start, start) == []
    log["stable"] = 60
    assert reader.latestOffset(start, ALL) == {"0": 60}


def test_a_record_between_the_target_and_the_start_is_no_loss(log: dict[str, Any]) -> None:
    """Spark may ask for the end of a query that takes what there is before it asks for its start."""
    reader = of_a_cluster(startingOffsets="latest")
    reader.prepareForTriggerAvailableNow()
    log["stable"] = 12
    start = reader.initialOffset()
    assert start == {"0": 12}
    assert reader.latestOffset(start, ALL) == start


def test_a_log_that_ends_before_what_was_read_is_another_one(log: dict[str, Any]) -> None:
    log |= {"stable": 5, "end": 5}
    with pytest.raises(
        CoterieError, match=r"partition 0 .*ends at offset 5.*up to 50: it was deleted"
    ):
        of_a_cluster().latestOffset({"0": 50}, ALL)
    tolerant = of_a_cluster(failOnDataLoss="false")
    assert tolerant.latestOffset({"0": 50}, ALL) == {"0": 5}
    # Only the log's own end tells: a transaction may be open for long.
    log |= {"end": 60}
    assert tolerant.latestOffset({"0": 50}, ALL) == {"0": 50}


def test_a_start_before_the_log_is_a_loss(log: dict[str, Any]) -> None:
    log |= {"start": 8}
    wanted = {"startingOffsets": '{"0": 2}'}
    with pytest.raises(
        CoterieError, match=r"^startingOffsets: partition 0 .*begins at offset 8, not 2"
    ):
        of_a_cluster(**wanted).initialOffset()
    assert of_a_cluster(failOnDataLoss="false", **wanted).initialOffset() == {"0": 8}
    assert of_a_cluster(startingOffsets='{"0": 8}').initialOffset() == {"0": 8}


def test_a_start_behind_the_log_is_told_when_the_stream_begins(log: dict[str, Any]) -> None:
    wanted = {"startingOffsets": '{"0": 61}'}
    with pytest.raises(
        CoterieError, match=r"^startingOffsets: partition 0 .*ends at offset 60, before 61"
    ):
        of_a_cluster(**wanted).initialOffset()
    assert of_a_cluster(failOnDataLoss="false", **wanted).initialOffset() == {"0": 60}
    assert of_a_cluster(startingOffsets='{"0": 60}').initialOffset() == {"0": 60}


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"partitions": "0,99"}, "partitions"),
        ({"startingOffsets": '{"0": 1, "99": 5}'}, "startingOffsets"),
    ],
)
def test_a_partition_that_the_log_does_not_have_is_told(
    log: dict[str, Any], given: dict[str, str], option: str
) -> None:
    said = rf"^{option}: there is no partition 99 of the log, which has 1 "
    with pytest.raises(InvalidArgument, match=said):
        of_a_cluster(**given).initialOffset()


def test_a_log_that_is_not_there_lacks_no_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClusterSource, "bounds", lambda _: {})
    reader = of_a_cluster(partitions="7", startingOffsets='{"7": 5}')
    assert reader.initialOffset() == {}


def test_the_end_of_the_log_is_behind_open_transactions() -> None:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders", partitions=1)
        servers = {"bootstrap.servers": cluster.bootstrap_servers}
        producer = Producer(servers | {"transactional.id": "mover"})
        producer.init_transactions(20)
        producer.begin_transaction()
        consumer = Consumer(servers | {"group.id": "moved"})
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([Place("orders", 0, 7)], metadata, 20)
        source = ClusterSource(servers)
        stable = {number: end for number, (_, end) in source.bounds().items()}
        ends = source.ends()
        producer.abort_transaction(20)
        consumer.close()
    assert set(ends) == set(stable)
    assert [ends[each] - stable[each] for each in ends if ends[each] != stable[each]] == [1]


def read(reader: CoterieStreamReader, start: dict[str, int], end: dict[str, int]) -> list[int]:
    batches = [each for part in reader.partitions(start, end) for each in reader.read(part)]
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_segments_whose_beginning_is_gone_are_a_loss(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, batch_of([commit()], base_offset=50), base_offset=50)
    start, end = {"0": 2}, {"0": 51}
    strict = stream(segments=str(tmp_path))
    # Also for a batch that was planned before the stream was stopped: Spark only asks for its parts.
    with pytest.raises(
        CoterieError, match=r"partition 0 .*begins at offset 50.*read up to 2.*failOnDataLoss"
    ):
        strict.partitions(start, end)
    assert read(stream(segments=str(tmp_path), failOnDataLoss="false"), start, end) == [50]
    assert read(strict, {"0": 50}, end) == [50]


def anew(directory: Path, records: int, *, first: int = 0) -> None:
    """The log of partition 0, written anew."""
    shutil.rmtree(directory / "__consumer_offsets-0", ignore_errors=True)
    write_segment(
        directory, 0, batch_of([commit()] * records, base_offset=first), base_offset=first
    )


def test_a_log_that_was_made_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    anew(tmp_path, 5, first=2)
    reader = stream(segments=str(tmp_path), failOnDataLoss="false")
    start = {"0": 50}
    end = reader.latestOffset(start, ALL)
    assert end == {"0": 7}
    assert read(reader, start, end) == [2, 3, 4, 5, 6]
    # Planned before the stream was stopped, it is the same when it goes on.
    anew(tmp_path, 9, first=2)
    assert read(stream(segments=str(tmp_path), failOnDataLoss="false"), start, end) == [
        2,
        3,
        4,
        5,
        6,
    ]
    assert reader.latestOffset(end, ALL) == {"0": 11}
    assert read(reader, end, {"0": 11}) == [7, 8, 9, 10]


def test_a_log_that_was_made_anew_is_read_within_the_limit_and_up_to_the_target(
    tmp_path: Path,
) -> None:
    anew(tmp_path, 5)
    write_segment(tmp_path, 1, batch_of([commit()] * 4))
    reader = stream(segments=str(tmp_path), failOnDataLoss="false")
    reader.prepareForTriggerAvailableNow()
    at = {"0": 50, "1": 1}
    found: list[int] = []
    while (end := reader.latestOffset(at, ReadMaxRows(2))) != at:
        rows = read(reader, at, end)
        assert len(rows) <= 2
        found += rows
        at = end
    assert at == {"0": 5, "1": 4}
    assert sorted(found) == [0, 1, 1, 2, 2, 3, 3, 4]


def test_what_was_planned_of_a_log_that_is_another_now_is_a_loss(tmp_path: Path) -> None:
    """Its offsets mean other records: those from 50 on are read when the new log is, from its beginning."""
    anew(tmp_path, 55)
    start, end = {"0": 50}, {"0": 60}
    with pytest.raises(
        CoterieError, match=r"partition 0 .*ends at offset 55.*up to 60: it was del"
    ):
        stream(segments=str(tmp_path)).partitions(start, end)
    tolerant = stream(segments=str(tmp_path), failOnDataLoss="false")
    assert read(tolerant, start, end) == []
    assert tolerant.latestOffset(end, ALL) == {"0": 55}
    assert read(tolerant, end, {"0": 55}) == list(range(55))


def test_a_partition_that_is_gone_is_a_loss(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, batch_of([commit(), commit()]))
    start, end = {"0": 0, "1": 3}, {"0": 2, "1": 9}
    with pytest.raises(
        CoterieError, match=r"there is no partition 1 of the log any more.*read up to 3"
    ):
        stream(segments=str(tmp_path)).partitions(start, end)
    assert read(stream(segments=str(tmp_path), failOnDataLoss="false"), start, end) == [0, 1]


def test_a_partition_that_is_new_is_read_from_its_beginning(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, batch_of([commit()]))
    write_segment(tmp_path, 1, batch_of([commit()] * 3, base_offset=50), base_offset=50)
    reader = stream(segments=str(tmp_path))
    end = reader.latestOffset({"0": 1}, ALL)
    assert end == {"0": 1, "1": 53}
    assert read(reader, {"0": 1}, end) == [50, 51, 52]


def test_partitions_that_are_no_longer_wanted_are_no_loss(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, batch_of([commit()]))
    write_segment(tmp_path, 1, batch_of([commit()]))
    narrowed = stream(segments=str(tmp_path), partitions="0")
    assert narrowed.latestOffset({"0": 0, "1": 1}, ALL) == {"0": 1, "1": 1}


def test_segments_that_are_gone_when_a_task_reads_are_told_in_one_sentence(tmp_path: Path) -> None:
    reader = stream(segments=str(tmp_path / "gone"))
    with pytest.raises(CoterieError, match="there is no directory") as caught:
        list(reader.read(StreamPartition([LogSlice(0, 0, 1)])))
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [Path(each.filename).name for each in frames][1:] == ["streaming.py"]


def test_a_limit_gives_each_partition_its_share() -> None:
    start = {"0": 0, "1": 100, "2": 7}
    assert _limited(start, {"0": 10, "1": 130, "2": 7}, None) == {"0": 10, "1": 130, "2": 7}
    assert _limited(start, {"0": 10, "1": 130, "2": 7}, 40) == {"0": 10, "1": 130, "2": 7}
    assert _limited(start, {"0": 10, "1": 130, "2": 7}, 20) == {"0": 5, "1": 115, "2": 7}
    # Ends that were pinned before the start was known move nothing back.
    assert _limited(start, {"0": 10, "1": 90, "2": 7}, 20) == {"0": 10, "1": 100, "2": 7}


@pytest.mark.parametrize("most", [1, 7, 10, 25, 50])
def test_a_limit_starves_nobody(most: int) -> None:
    """One partition far behind, and others that always have something new."""
    ends = {str(number): 1 for number in range(49)} | {"49": 1_000_000}
    at = dict.fromkeys(ends, 0)
    served = dict.fromkeys(ends, 0)
    for _ in range(100):
        reached = _limited(at, ends, most)
        assert sum(reached.values()) - sum(at.values()) == most
        for key, offset in reached.items():
            served[key] += offset - at[key]
            if key != "49" and offset == ends[key]:
                ends[key] += 1
        at = reached
    assert all(served.values()), served
    # The others share what is left of each turn: one record.
    assert served["49"] >= 100 * (most - 1)


# -- Spark 4.0 and 4.1: latestOffset() without start and limit ----------------------------------------------


@pytest.fixture
def older_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "ADMISSION_CONTROL", False)


@pytest.mark.usefixtures("older_spark")
def test_an_older_spark_reads_to_the_end(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, batch_of([commit()]))
    reader = stream(segments=str(tmp_path))
    start = reader.initialOffset()
    write_segment(tmp_path, 1, batch_of([commit()] * 3, base_offset=50), base_offset=50)
    end = reader.latestOffset()
    assert end == {"0": 1, "1": 53}
    assert sorted(read(reader, start, end)) == [0, 50, 51, 52]
    assert reader.partitions(end, reader.latestOffset()) == []


@pytest.mark.usefixtures("older_spark")
def test_an_older_spark_cannot_start_after_an_open_transaction(log: dict[str, Any]) -> None:
    """Its next offset would be before the start, and the stream would read what it was to skip."""
    with pytest.raises(
        CoterieError, match=r"open transaction at offset 10.*after it, at 50, before Spark 4\.2"
    ):
        of_a_cluster(startingTimestamp="2026-01-01").initialOffset()
    log["stable"] = 60
    assert of_a_cluster(startingTimestamp="2026-01-01").initialOffset() == {"0": 50}


@pytest.mark.usefixtures("older_spark")
def test_a_loss_is_found_when_an_older_spark_plans_a_batch(tmp_path: Path) -> None:
    anew(tmp_path, 5)
    strict, tolerant = (
        stream(segments=str(tmp_path), failOnDataLoss=each) for each in ("true", "false")
    )
    with pytest.raises(CoterieError, match=r"partition 0 .*ends at offset 5.*up to 50: it was del"):
        strict.partitions({"0": 50}, strict.latestOffset())
    assert read(tolerant, {"0": 50}, tolerant.latestOffset()) == [0, 1, 2, 3, 4]
    with pytest.raises(CoterieError, match="there is no partition 1 of the log any more"):
        strict.partitions({"0": 5, "1": 3}, strict.latestOffset())
