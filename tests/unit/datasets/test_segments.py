"""Segment files: damage, copies, indexes and ranges. A bad batch costs itself, nothing else."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from struct import pack
from typing import Any

import pyarrow as pa
import pytest

from coterie.datasets import chunks, segments
from coterie.datasets.chunks import parse
from coterie.datasets.log import LogQuery, LogRange, LogSlice, SegmentSource, packed, read_log
from coterie.datasets.schemas import pruned
from coterie.datasets.selection import Selection
from coterie.errors import CoterieError, InvalidArgument
from coterie.protocol.records import RecordBatch
from coterie.protocol.records.columns import read_columns
from coterie.protocol.records.compression import CompressionType
from tests.kit.offsets_log import batch_of, commit, golden_disk, write_segment

pytestmark = pytest.mark.usefixtures("readers")

Rows = list[dict[str, Any]]


def read(
    root: Path, dataset: str = "commits", wanted: LogRange | None = None, **query: Any
) -> Rows:
    source = SegmentSource.at(str(root))
    chosen = LogQuery(dataset, **query)
    batches = read_log(source, chosen, source.slices(wanted or LogRange()))
    table = pa.Table.from_batches(batches, schema=pruned(dataset, chosen.columns))
    rows: Rows = table.to_pylist()
    return rows


def many(count: int, start: int = 0) -> bytes:
    return b"".join(
        batch_of([commit(partition=offset)], offset, 1_700_000_000_000 + offset)
        for offset in range(start, start + count)
    )


def lost(root: Path) -> list[tuple[int, str]]:
    """Offsets and reasons of what cannot be read."""
    return [(row["offset"], row["reason"]) for row in read(root, "log") if row["reason"]]


#: How many pages the second reading of some segments needed that the first had not.
_FRESH_PAGES = """
import resource, sys
from coterie.datasets.log import LogQuery, SegmentSource, read_log

def pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in read_log(SegmentSource.at(sys.argv[1]), LogQuery("commits")):
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print([pages() for _ in range(3)][-1])
"""


def test_what_is_read_again_lies_in_memory_that_was_used_before(tmp_path: Path) -> None:
    records = [commit(partition=number) for number in range(20_000)]
    one = batch_of(records, 0, 1_700_000_000_000)
    for partition in range(4):
        write_segment(tmp_path, partition, one)
    command = [sys.executable, "-c", _FRESH_PAGES, str(tmp_path)]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    assert int(run.stdout) < 4 * len(one) / 4096 / 2


def test_a_damaged_batch_is_quarantined_and_the_rest_is_read(tmp_path: Path) -> None:
    data = bytearray(many(5))
    size = len(data) // 5
    data[2 * size + 70] ^= 0xFF
    write_segment(tmp_path, 0, bytes(data))
    assert [row["offset"] for row in read(tmp_path)] == [0, 1, 3, 4]
    log = read(tmp_path, "log")
    assert [row["offset"] for row in log] == [0, 1, 2, 3, 4]
    assert [row["offset"] for row in log if row["reason"]] == [2]
    assert "checksum" in log[2]["reason"]
    assert log[2]["key"] is None


def test_from_a_length_that_lies_on_the_file_is_lost_but_not_the_next(tmp_path: Path) -> None:
    data = bytearray(many(3))
    size = len(data) // 3
    data[size + 8 : size + 12] = pack(">i", 5)
    write_segment(tmp_path, 0, bytes(data))
    write_segment(tmp_path, 0, many(2, start=3), base_offset=3)
    assert [row["offset"] for row in read(tmp_path)] == [0, 3, 4]
    [(offset, reason)] = lost(tmp_path)
    assert offset == 1
    assert "cannot be read" in reason


@pytest.mark.parametrize("chunk", [300, 1000, 1 << 20])
def test_a_file_ends_with_one_reason_for_all_that_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(segments, "_CHUNK", chunk)
    data = bytearray(many(50))
    size = len(data) // 50
    data[4 * size + 8 : 4 * size + 12] = pack(">i", 5)
    write_segment(tmp_path, 0, bytes(data))
    write_segment(tmp_path, 0, many(2, start=50), base_offset=50)
    assert [row["offset"] for row in read(tmp_path)] == [0, 1, 2, 3, 50, 51]
    [(offset, reason)] = lost(tmp_path)
    assert offset == 4
    assert f"{46 * size} bytes from here on cannot be read" in reason


def test_what_is_lost_is_told_at_an_offset_of_its_file(tmp_path: Path) -> None:
    """Bytes that are no batch claim no offset that could be believed."""
    write_segment(tmp_path, 0, bytes(200), base_offset=20)
    write_segment(tmp_path, 0, many(2, start=30) + bytes(200), base_offset=30)
    write_segment(tmp_path, 0, many(1, start=32), base_offset=32)
    assert [offset for offset, _ in lost(tmp_path)] == [20, 31]
    assert [row["offset"] for row in read(tmp_path)] == [30, 31, 32]


@pytest.mark.parametrize("length", [1 << 28, 1 << 15])
def test_a_length_that_points_behind_the_newest_segment_is_no_cut_end(
    tmp_path: Path, length: int
) -> None:
    data = bytearray(many(100))
    size = len(data) // 100
    data[10 * size + 8 : 10 * size + 12] = pack(">i", length)
    write_segment(tmp_path, 0, bytes(data) + many(1, start=100)[:-7])
    assert [row["offset"] for row in read(tmp_path)] == list(range(10))
    [(offset, reason)] = lost(tmp_path)
    assert offset == 10
    assert f"{91 * size - 7} bytes from here on cannot be read" in reason


def test_a_cut_end_of_records_that_look_like_batches_is_ordinary(tmp_path: Path) -> None:
    """Magic, length and offset are not enough: there is no batch without its checksum."""
    head = bytearray(many(1, start=5)[:61])
    head[17:21] = bytes(4)
    big = batch_of([(None, bytes(head) * 20), commit()], 2)
    write_segment(tmp_path, 0, many(2) + big[:-7])
    assert [row["offset"] for row in read(tmp_path)] == [0, 1]
    assert lost(tmp_path) == []


def test_a_cut_end_longer_than_a_batch_can_be_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "_LARGEST_BATCH", 100)
    big = batch_of([(None, bytes(300))], 2)
    write_segment(tmp_path, 0, many(2) + big[:-7])
    assert [offset for offset, _ in lost(tmp_path)] == [2]


def test_a_cut_end_is_told_by_the_slice_that_has_its_offset(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, many(10) + many(1)[:50])
    write_segment(tmp_path, 0, many(1, start=20), base_offset=20)
    source = SegmentSource.at(str(tmp_path))
    found = []
    for start, stop in ((0, 3), (3, 6), (6, 9), (9, 21)):
        slices = [LogSlice(0, start, stop)]
        for batch in read_log(source, LogQuery("log", ("offset", "reason")), slices):
            found += [(start, row["offset"]) for row in batch.to_pylist() if row["reason"]]
    assert found == [(9, 10)]


@pytest.mark.parametrize(
    ("limit", "bound", "reader"),
    [
        ("MAX_TOTAL_DECOMPRESSED", 1000, partial(read_columns, total_limit=1000)),
        ("MAX_RECORDS", 12, partial(read_columns, most_records=12)),
    ],
    ids=["bytes", "records"],
)
def test_batches_that_unpack_to_much_together_are_read_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, bound: int, reader: Any
) -> None:
    monkeypatch.setattr(chunks, limit, bound)
    monkeypatch.setattr(chunks, "read_columns", reader)
    packed_ = RecordBatch(attributes=CompressionType.ZSTD)
    data = b"".join(
        batch_of([commit(partition=number) for number in range(5)], offset, like=packed_)
        for offset in range(0, 50, 5)
    )
    write_segment(tmp_path, 0, data)
    assert [row["offset"] for row in read(tmp_path)] == list(range(50))
    assert lost(tmp_path) == []
    # What is fetched comes once: the excess is told.
    chunk = parse(0, data, 0, None)
    assert 0 < len(chunk.records) < 50
    assert [each.offset for each in chunk.damages] == [len(chunk.records)]
    assert "cannot be read" in chunk.damages[0].reason


def test_a_cut_end_is_ordinary_in_the_newest_segment_alone(tmp_path: Path) -> None:
    size = len(many(1))
    for cut in range(1, size):
        write_segment(tmp_path, 0, many(3)[:-cut])
        assert [row["offset"] for row in read(tmp_path)] == [0, 1]
        assert lost(tmp_path) == []
    write_segment(tmp_path, 0, many(2, start=3), base_offset=3)
    assert [row["offset"] for row in read(tmp_path)] == [0, 1, 3, 4]
    assert [row["reason"] is not None for row in read(tmp_path, "log")] == [
        False,
        False,
        True,
        False,
        False,
    ]


def test_of_several_copies_the_one_that_reaches_furthest_is_read(tmp_path: Path) -> None:
    write_segment(tmp_path / "broker-1", 0, many(2))
    write_segment(tmp_path / "broker-2", 0, many(3))
    write_segment(tmp_path / "broker-2" / "disk", 1, many(1))
    assert [(row["partition"], row["offset"]) for row in read(tmp_path)] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
    ]
    alone = SegmentSource.at(str(tmp_path / "broker-2" / "disk" / "__consumer_offsets-1"))
    assert alone.bounds() == {1: (0, 1)}


def test_copies_are_compared_by_their_ends_not_by_their_files(tmp_path: Path) -> None:
    write_segment(tmp_path / "broker-1", 0, many(5))
    write_segment(tmp_path / "broker-1", 0, many(1, start=5), base_offset=5)
    write_segment(tmp_path / "broker-2", 0, many(10))
    assert [row["offset"] for row in read(tmp_path)] == list(range(10))


def test_a_log_ends_where_its_newest_segment_begins_if_that_is_empty(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, many(10))
    write_segment(tmp_path, 0, b"", base_offset=5000)
    write_segment(tmp_path, 1, b"")
    assert SegmentSource.at(str(tmp_path)).bounds() == {0: (0, 5000), 1: (0, 0)}


def test_a_file_that_vanished_is_named(tmp_path: Path) -> None:
    path = write_segment(tmp_path, 0, many(1))
    source = SegmentSource.at(str(tmp_path))
    path.unlink()
    with pytest.raises(CoterieError, match=rf"{path.name}.*No such file"):
        list(read_log(source, LogQuery("commits")))
    with pytest.raises(CoterieError, match=rf"{path.name}.*No such file"):
        source.bounds()


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = write_segment(tmp_path, 0, many(1))
    path.with_name(f"{7:020d}.log").mkdir()
    with pytest.raises(CoterieError, match=rf"{7:020d}\.log.*directory"):
        SegmentSource.at(str(tmp_path)).bounds()


def test_a_directory_that_cannot_be_listed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_segment(tmp_path, 0, many(1))

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(CoterieError, match=r"__consumer_offsets-0.*Permission denied"):
        SegmentSource.at(str(tmp_path))


def test_a_file_that_became_shorter_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = write_segment(tmp_path, 0, many(3))
    source = SegmentSource.at(str(tmp_path))
    path.write_bytes(many(3)[:-7])
    batches = read_log(source, LogQuery("commits", ("offset",)))
    assert [row["offset"] for batch in batches for row in batch.to_pylist()] == [0, 1]


def test_files_that_are_no_segments_are_left_alone(tmp_path: Path) -> None:
    path = write_segment(tmp_path, 0, many(1))
    for name in ("00000000000000000000.log.deleted", "00000000000000000000.timeindex", "x.log"):
        (path.parent / name).write_bytes(b"not a log")
    assert len(read(tmp_path)) == 1


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_no_segments_is_one_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidArgument, match=name):
        SegmentSource.at(str(tmp_path / name))


def test_ranges_by_offset_time_partition_and_name(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, many(10))
    write_segment(tmp_path, 0, many(10, start=10), base_offset=10)
    write_segment(tmp_path, 3, batch_of([commit("other", "elsewhere")]))
    wanted = LogRange(starting={0: 4}, ending={0: 13}, partitions=frozenset({0}))
    assert [row["offset"] for row in read(tmp_path, wanted=wanted)] == list(range(4, 13))
    late = read(tmp_path, start_ms=1_700_000_000_003, end_ms=1_700_000_000_006)
    assert [row["offset"] for row in late] == [3, 4, 5]
    for chosen in (
        Selection(groups=frozenset({"other", "nobody"})),
        Selection(group_prefixes=("oth",)),
        Selection(group_regex="o[t]h.*"),
        Selection(topics=frozenset({"elsewhere"})),
    ):
        rows = read(tmp_path, selection=chosen, columns=("offset",))
        assert rows == [{"offset": 0}], chosen


@pytest.mark.parametrize("damaged", [False, True], ids=["sound index", "index of another log"])
def test_a_brokers_index_saves_reading_and_is_not_believed_blindly(
    tmp_path: Path, damaged: bool
) -> None:
    data = many(50)
    path = write_segment(tmp_path, 0, data)
    size = len(data) // 50
    entries = [(20, 20 * size + (5 if damaged else 0)), (40, 40 * size + (5 if damaged else 0))]
    # Kafka allocates an open index in full: zeros follow.
    raw = b"".join(pack(">ii", *entry) for entry in entries) + bytes(160)
    path.with_suffix(".index").write_bytes(raw)
    wanted = LogRange(starting={0: 45})
    assert [row["offset"] for row in read(tmp_path, wanted=wanted)] == [45, 46, 47, 48, 49]
    assert SegmentSource.at(str(tmp_path)).bounds() == {0: (0, 50)}


def test_an_index_older_than_its_log_skips_nothing(tmp_path: Path) -> None:
    """Compaction has moved the batches, and one begins where the index has an earlier one."""
    left = [0, 1, *range(6, 12)]
    data = b"".join(many(1, start=offset) for offset in left)
    size = len(data) // len(left)
    path = write_segment(tmp_path, 0, data)
    path.with_suffix(".index").write_bytes(pack(">ii", 4, 4 * size))
    wanted = LogRange(starting={0: 5})
    assert [row["offset"] for row in read(tmp_path, wanted=wanted)] == list(range(6, 12))


def test_an_index_that_points_at_what_only_looks_like_a_batch(tmp_path: Path) -> None:
    inner = bytearray(many(1, start=3))
    inner[17:21] = bytes(4)
    outer = batch_of([(None, bytes(inner))], 1)
    path = write_segment(tmp_path, 0, many(1) + outer + many(10, start=2))
    position = len(many(1)) + outer.index(inner)
    path.with_suffix(".index").write_bytes(pack(">ii", 4, position))
    wanted = LogRange(starting={0: 5})
    assert [row["offset"] for row in read(tmp_path, wanted=wanted)] == list(range(5, 12))


def test_a_batch_larger_than_what_is_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "_CHUNK", 100)
    big = batch_of([commit(partition=number) for number in range(100)], 2)
    write_segment(tmp_path, 0, many(2) + big + many(2, start=102))
    assert [row["offset"] for row in read(tmp_path)] == list(range(104))


def test_slices_are_packed_by_weight(tmp_path: Path) -> None:
    slices = SegmentSource.at(str(golden_disk(tmp_path))).slices(LogRange())
    assert len(packed(slices, 1)) == 4
    assert len(packed(slices, 1 << 30)) == 1
    assert [each for pack_ in packed(slices, 12_000) for each in pack_] == slices
