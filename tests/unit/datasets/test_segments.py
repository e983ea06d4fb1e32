"""Segment files: damage, copies, indexes and ranges. A bad batch costs itself, nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from struct import pack
from typing import Any

import pyarrow as pa
import pytest

from coterie.datasets import segments
from coterie.datasets.log import LogQuery, LogRange, SegmentSource, packed, read_log
from coterie.datasets.schemas import pruned
from coterie.datasets.selection import Selection
from coterie.errors import InvalidArgument
from tests.kit.offsets_log import batch_of, commit, golden_disk, write_segment

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
    lost = [row for row in read(tmp_path, "log") if row["reason"]]
    assert [row["offset"] for row in lost] == [1]
    assert "cannot be read" in lost[0]["reason"]


def test_a_cut_end_is_ordinary_in_the_newest_segment_alone(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, many(3)[:-7])
    assert [row["offset"] for row in read(tmp_path)] == [0, 1]
    assert not any(row["reason"] for row in read(tmp_path, "log"))
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
