"""compact: the same rows in fewer files, old days gone, and nothing to do the second time."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from coterie.spark.pipeline import compaction
from coterie.spark.pipeline.catalog import TAIL
from coterie.spark.pipeline.compaction import Compacted, compact, write_day
from coterie.spark.pipeline.store import TableStore
from coterie.spark.pipeline.tables import raw_table
from tests.unit.spark.tables import START, append, append_log, end_offsets, rows_of


def test_small_files_of_a_day_become_one(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    for _ in range(3):
        append(store, day=0, rows=10)
        append(store, day=1, rows=1)
    before = rows_of(store)
    assert compact(store) == [Compacted("end_offsets", 6, 2, 0, 0)]
    assert rows_of(store) == before
    assert len(list(tmp_path.rglob("*.parquet"))) <= 2 + 6
    assert compact(store) == []
    append(store, day=1, rows=1)
    assert len(rows_of(store)) == len(before) + 1


def test_replaced_files_go_with_the_next_commit_but_one(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    for _ in range(4):
        append(store, day=0, rows=10)
    compact(store)
    append(store, day=2, rows=1)
    append(store, day=2, rows=1)
    assert {str(path) for path in tmp_path.rglob("*.parquet")} == set(store.paths("end_offsets"))


def test_retention_drops_whole_days(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    for day in range(5):
        append(store, day=day, rows=2)
    now = START + timedelta(days=4, hours=12)
    assert compact(store, retention=timedelta(days=2), now=now) == [
        Compacted("end_offsets", 5, 3, 4, 2)
    ]
    assert min(row["taken_at"] for row in rows_of(store)) == START + timedelta(days=2)


def test_large_files_are_left_alone(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    for _ in range(2):
        append(store, day=0, rows=1000)
    assert compact(store, target_bytes=100) == []


@pytest.mark.parametrize("days", [500_000, 730_000, 999_999_999])
def test_a_retention_of_ages_keeps_everything(tmp_path: Path, days: int) -> None:
    store = TableStore(tmp_path)
    append(store, day=0, rows=2)
    assert compact(store, retention=timedelta(days=days), now=START) == []
    assert len(rows_of(store)) == 2


def test_rows_of_many_files_are_one_row_group(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    for _ in range(8):
        append(store, day=0, rows=40)
    compact(store)
    [path] = store.paths("end_offsets")
    assert pq.read_metadata(path).num_row_groups == 1


@pytest.mark.parametrize(
    ("limit", "value", "groups"),
    [("_ROWS_PER_GROUP", 30, [30, 30, 5]), ("_BYTES_PER_GROUP", 1, [13] * 5)],
)
def test_row_groups_are_as_large_as_memory_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, groups: list[int]
) -> None:
    monkeypatch.setattr(compaction, limit, value)
    table = raw_table("end_offsets")
    batches = end_offsets(day=0, rows=65).to_batches(max_chunksize=13)
    assert write_day(tmp_path, "2026-03-01", table, batches) == 1
    [path] = tmp_path.rglob("*.parquet")
    footer = pq.read_metadata(path)
    assert [footer.row_group(n).num_rows for n in range(footer.num_row_groups)] == groups
    assert pq.read_table(path, schema=table.schema) == end_offsets(day=0, rows=65)


def test_rows_beyond_a_file_go_into_the_next(tmp_path: Path) -> None:
    table = raw_table("end_offsets")
    batches = end_offsets(day=0, rows=65).to_batches()
    assert write_day(tmp_path, "", table, batches, rows_each=30) == 3
    found = [pq.read_metadata(path).num_rows for path in sorted(tmp_path.glob("*.parquet"))]
    assert found == [30, 30, 5]


# -- days that go, and what of them still holds -----------------------------------------------------------


def _commit(day: int, offset: int, group: str, **values: Any) -> dict[str, Any]:
    place = {"group_id": group, "topic": "orders", "topic_partition": 0}
    return {"day": day, "offset": offset, **place, "committed_offset": offset, **values}


def _event(day: int, offset: int, record: str, **values: Any) -> dict[str, Any]:
    return {"day": day, "offset": offset, "group_id": "g", "record": record, **values}


def _drop(store: TableStore, now: int) -> list[Compacted]:
    """Compact as on a day, with all days before it too old."""
    return compact(store, retention=timedelta(0), now=START + timedelta(days=now, hours=12))


def _offsets(store: TableStore, table: str = "commits") -> list[int]:
    return sorted(row["offset"] for row in rows_of(store, table))


def test_the_last_commit_of_an_idle_group_outlives_its_day(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    append_log(store, "commits", [_commit(0, n, "idle") for n in range(3)])
    append_log(store, "commits", [_commit(0, 3, "busy"), _commit(1, 4, "busy")])
    append_log(store, "commits", [_commit(1, 5, "idle", topic_partition=1), _commit(2, 6, "busy")])
    assert _drop(store, now=2) == [Compacted("commits", 5, 3, 3, 1)]
    assert _offsets(store) == [2, 4, 5, 6]
    manifest = store.manifest("commits")
    assert manifest is not None
    assert [file.day for file in manifest.files] == ["2026-03-03", "2026-03-01", "2026-03-02"]
    assert _drop(store, now=2) == []
    append_log(store, "commits", [_commit(3, 7, "idle")])
    assert _drop(store, now=3) == [Compacted("commits", 4, 4, 1, 1)]
    assert _offsets(store) == [2, 5, 6, 7]


def test_what_days_that_stay_have_replaced_or_removed_was_there_when_they_began(
    tmp_path: Path,
) -> None:
    store = TableStore(tmp_path)
    member = "ConsumerGroupMemberMetadata"
    append_log(
        store,
        "group_events",
        [
            _event(0, 0, member, member_id="a", client_id="old"),
            _event(0, 1, member, member_id="a"),
            _event(0, 2, member, member_id="b"),
            _event(0, 3, member, member_id="c"),
            _event(1, 4, member, member_id="c", tombstone=True),
            _event(2, 5, member, member_id="a", tombstone=True),
            _event(3, 6, member, member_id="a"),
        ],
    )
    append_log(store, "commits", [_commit(0, 7, "g"), _commit(0, 8, "g"), _commit(2, 9, "g")])
    append_log(store, "commits", [_commit(2, 10, "g", tombstone=True)])
    _drop(store, now=2)
    assert _offsets(store, "group_events") == [1, 2, 5, 6]
    assert _offsets(store) == [8, 9, 10]
    # What was kept for the days that are gone now is as old as they are.
    _drop(store, now=3)
    assert _offsets(store, "group_events") == [2, 6]
    assert _offsets(store) == []


def test_an_offset_that_was_removed_is_not_carried_over(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    append_log(store, "commits", [_commit(0, 0, "gone"), _commit(1, 1, "gone", tombstone=True)])
    append_log(store, "commits", [_commit(0, 2, "back", tombstone=True), _commit(0, 3, "back")])
    _drop(store, now=2)
    assert _offsets(store) == [3]


def test_an_aborted_commit_has_replaced_nothing(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    append_log(store, "commits", [_commit(0, 0, "g"), _commit(0, 1, "g", outcome="committed")])
    append_log(store, "commits", [_commit(0, 2, "g", outcome="aborted")])
    append_log(store, "commits", [_commit(2, 3, "g", outcome="aborted")])
    _drop(store, now=2)
    assert _offsets(store) == [1, 3]


def test_records_of_a_group_that_is_stable_outlive_their_day(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    member = [{"member_id": "m", "subscription": ["orders"], "assignment": []}]
    classic = _event(0, 1, "GroupMetadata", group_id="c", group_type="classic", members=member)
    pattern = "ConsumerGroupRegularExpression"
    append_log(
        store,
        "group_events",
        [
            {**classic, "offset": 0, "members": None},
            classic,
            _event(0, 2, "ConsumerGroupMetadata", generation=1),
            _event(0, 3, "ConsumerGroupMetadata", generation=2),
            _event(0, 4, "ConsumerGroupMemberMetadata", member_id="a", subscription_regex="o.*"),
            _event(0, 5, "ConsumerGroupMemberMetadata", member_id="b"),
            # The pattern is a part of this key, and only of this one: the member has another one now.
            _event(0, 6, "ConsumerGroupMemberMetadata", member_id="a", subscription_regex="p.*"),
            _event(0, 7, pattern, subscription_regex="o.*"),
            _event(0, 8, pattern, subscription_regex="p.*"),
            _event(0, 9, pattern, subscription_regex="o.*", tombstone=True),
        ],
    )
    append_log(store, "group_events", [_event(2, 10, "ConsumerGroupMetadata", generation=3)])
    before = {row["offset"]: row for row in rows_of(store, "group_events")}
    _drop(store, now=2)
    assert rows_of(store, "group_events") == [before[n] for n in (1, 10, 3, 5, 6, 8)]
    assert _drop(store, now=2) == []


def test_when_the_last_member_of_a_group_went_is_not_forgotten(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    member = "ShareGroupMemberMetadata"
    rows = [
        _event(0, 0, "ShareGroupMetadata"),
        _event(0, 1, member, member_id="a"),
        _event(0, 2, member, member_id="a", tombstone=True),
        _event(1, 3, member, member_id="b", tombstone=True),
    ]
    gone = [{**row, "group_id": "gone", "offset": row["offset"] + 10} for row in rows]
    gone.append(_event(1, 14, "ShareGroupMetadata", group_id="gone", tombstone=True))
    append_log(store, "group_events", [*rows, *gone])
    _drop(store, now=2)
    assert _offsets(store, "group_events") == [0, 3]


def test_the_newest_of_many_rows_is_found_a_part_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "_ROWS_HELD", 7)
    store = TableStore(tmp_path)
    for part in range(6):
        rows = [_commit(part, 100 * part + n, f"group {n % (5 + part)}") for n in range(60)]
        append_log(store, "commits", rows)
    expected: dict[str, int] = {}
    for row in sorted(rows_of(store, "commits"), key=lambda row: int(row["offset"])):
        expected[row["group_id"]] = row["offset"]
    _drop(store, now=9)
    assert _offsets(store) == sorted(expected.values())


def test_quarantine_has_no_current_rows(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    append_log(store, "quarantine", [{"day": 0, "offset": 0, "group_id": "g", "reason": "broken"}])
    assert _drop(store, now=2) == [Compacted("quarantine", 1, 0, 1, 1)]
    assert rows_of(store, "quarantine") == []


def test_rows_that_are_read_again_stay_by_themselves(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    for below in ("", "", TAIL, TAIL):
        append_log(store, "commits", [_commit(0, 0, "g")], below=below)
    before = store.manifest("commits")
    assert before is not None
    tails = [file for file in before.files if file.is_tail]
    assert len(tails) == 2
    for now, rows in ((0, 2), (2, 1)):
        _drop(store, now)
        manifest = store.manifest("commits")
        assert manifest is not None
        assert [file for file in manifest.files if file.is_tail] == tails
        assert [file.rows for file in manifest.files if not file.is_tail] == [rows]
