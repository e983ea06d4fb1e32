"""`compact`: many small files of a day become one, and days that are too old go. No Spark, no JVM.

Rows are not changed. Old files stay until the next writer, because a reader may have them open. Of old days
of the log those rows stay that held at their end: like Kafka's log cleaner, which keeps the newest record of
every key in what it cleaned, however old it is. Days that stay begin with what was there, and what was
ingested once is not read again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from coterie.protocol.records.columns import Int64s
from coterie.spark.pipeline.catalog import DataFile
from coterie.spark.pipeline.store import TableStore, Transaction, check_version
from coterie.spark.pipeline.tables import RAW, RawTable

__all__ = ["TARGET_BYTES", "Compacted", "compact", "write_day"]

#: Files are joined until they are about this large.
TARGET_BYTES = 256 * 1024 * 1024
#: A row group is written when there are so many rows, or so many bytes: rows with members in them are long.
_ROWS_PER_GROUP = 1 << 19
_BYTES_PER_GROUP = 128 * 1024 * 1024
#: Rows of the log that are looked through at a time.
_ROWS_HELD = 1 << 20
#: What a record of the log is about. A newer record with the same key replaces it, as in Kafka's compaction.
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "commits": ("group_id", "topic", "topic_partition"),
    "group_events": ("group_id", "record", "member_id", "subscription_regex"),
}
_PATTERN: Final = "ConsumerGroupRegularExpression"


@dataclass(frozen=True)
class Compacted:
    """What became of a table."""

    table: str
    files_before: int
    files_after: int
    rows_dropped: int
    days_dropped: int


def compact(
    store: TableStore,
    *,
    retention: timedelta | None = None,
    target_bytes: int = TARGET_BYTES,
    now: datetime | None = None,
) -> list[Compacted]:
    """Join small files, drop days older than `retention`; nothing is written where nothing changes."""
    oldest = _oldest_day(now or datetime.now(UTC), retention)
    done = []
    with store.write() as transaction:
        for table in RAW.values():
            check_version(store, table)
            result = _compact_table(transaction, table, oldest, target_bytes)
            if result is not None:
                done.append(result)
        if done:
            transaction.commit()
    return done


def _oldest_day(now: datetime, retention: timedelta | None) -> str:
    """The first day that is kept, written as days of files are; empty if all are kept."""
    if retention is None:
        return ""
    try:
        return (now - retention).date().isoformat()
    except OverflowError:  # before the year 1
        return ""


def _is_old(file: DataFile, oldest: str) -> bool:
    return bool(file.day) and file.day < oldest


def _compact_table(
    transaction: Transaction, table: RawTable, oldest: str, target_bytes: int
) -> Compacted | None:
    manifest = transaction.store.manifest(table.name)
    if manifest is None:
        return None
    root, directory = transaction.store.root / table.name, transaction.directory(table.name)
    # What is going to be read again is not to meet other rows: nobody could tell them apart any more.
    stay = [file for file in manifest.files if file.is_tail]
    lasting = [file for file in manifest.files if not file.is_tail]
    current = _current_rows(root, table, lasting, oldest)
    written = 0
    dropped: dict[str, int] = {}
    for day, files in _by_day(lasting):
        if _is_old(files[0], oldest):
            rows = sum(file.rows for file in files)
            holding = sum(len(current.get(file.path, ())) for file in files)
            if not holding or holding < rows:
                dropped[day] = rows - holding
                kept = (batch for file in files for batch in _chosen(root, table, file, current))
                written += write_day(directory, day, table, kept, _rows_each(files, target_bytes))
                continue
        small = [file for file in files if file.bytes < target_bytes // 2]
        if len(small) < 2:  # noqa: PLR2004  (one file is as joined as can be)
            stay += files
            continue
        stay += [file for file in files if file not in small]
        joined = (batch for file in small for batch in _batches(root, table, file))
        written += write_day(directory, day, table, joined, _rows_each(small, target_bytes))
    if not written and not dropped:
        return None
    transaction.keep_only(table.name, tuple(stay))
    counts = (len(manifest.files), len(stay) + written, sum(dropped.values()), len(dropped))
    return Compacted(table.name, *counts)


def _by_day(files: Iterable[DataFile]) -> list[tuple[str, list[DataFile]]]:
    found: defaultdict[str, list[DataFile]] = defaultdict(list)
    for file in files:
        found[file.day].append(file)
    return sorted(found.items())


def _rows_each(files: Sequence[DataFile], target_bytes: int) -> int:
    """How many rows of these make a file that is as large as it shall be."""
    number = max(1, round(sum(file.bytes for file in files) / target_bytes))
    return max(1, -(-sum(file.rows for file in files) // number))


def _batches(
    root: Path, table: RawTable, file: DataFile, columns: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a file, in its order; columns that came later than it are null."""
    rows = ds.dataset([str(root / file.path)], schema=table.schema, format="parquet")
    found: Iterator[pa.RecordBatch] = rows.to_batches(columns=columns)
    return found


def _chosen(
    root: Path, table: RawTable, file: DataFile, chosen: Mapping[str, Int64s]
) -> Iterator[pa.RecordBatch]:
    """Those rows of a file that were chosen."""
    rows = chosen.get(file.path)
    if rows is None or not len(rows):
        return
    begin = 0
    for batch in _batches(root, table, file):
        end = begin + batch.num_rows
        low, high = np.searchsorted(rows, [begin, end])
        if low < high:
            yield batch.take(pa.array(rows[low:high] - begin))
        begin = end


def write_day(
    directory: Path,
    day: str,
    table: RawTable,
    batches: Iterable[pa.RecordBatch],
    rows_each: int = 1 << 62,
) -> int:
    """Write rows of one day as Parquet files; how many files."""
    place = directory / f"day={day}" if day else directory
    writer: pq.ParquetWriter | None = None
    written = number = 0
    try:
        for group in _row_groups(batches, min(rows_each, _ROWS_PER_GROUP)):
            if writer is None or written >= rows_each:
                if writer is not None:
                    writer.close()
                number += 1
                written = 0
                place.mkdir(parents=True, exist_ok=True)
                path = place / f"part-{number:05}.parquet"
                writer = pq.ParquetWriter(path, table.schema, compression="zstd")
            writer.write_table(group)
            written += group.num_rows
    finally:
        if writer is not None:
            writer.close()
    return number


def _row_groups(batches: Iterable[pa.RecordBatch], rows_each: int) -> Iterator[pa.Table]:
    """The same rows, so many at a time: small groups would be mostly footer, and pack badly."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        begin = 0
        while begin < batch.num_rows:
            part = batch.slice(begin, rows_each - rows)
            begin += part.num_rows
            held.append(part)
            rows += part.num_rows
            size += part.nbytes
            if rows == rows_each or size >= _BYTES_PER_GROUP:
                yield pa.Table.from_batches(held)
                held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


# -- rows of old days that still hold ----------------------------------------------------------------------


def _current_rows(
    root: Path, table: RawTable, files: Sequence[DataFile], oldest: str
) -> dict[str, Int64s]:
    """Old file -> its rows of the log that held when the days that stay began, in order.

    Later records do not count: a member that has left since was there when it left.
    """
    old = [file for file in files if _is_old(file, oldest)]
    key = _KEYS.get(table.name)
    if key is None or not any(file.rows for file in old):
        return {}
    newest = _newest_of_many(_records(root, table, old), key)
    rows = newest.filter(pc.invert(newest["tombstone"]))
    if table.name == "group_events":
        rows = pa.concat_tables([rows, _last_departures(newest)])
    rows = rows.sort_by([("file", "ascending"), ("row", "ascending")])
    numbers, places = rows["file"].to_numpy(), rows["row"].to_numpy()
    return {
        file.path: places[slice(*np.searchsorted(numbers, [number, number + 1]))]
        for number, file in enumerate(old)
    }


def _records(root: Path, table: RawTable, files: Sequence[DataFile]) -> Iterator[pa.Table]:
    """Of every record its key, its place in the log, and the file and the row that it is in."""
    is_commits = table.name == "commits"
    columns = [*_KEYS[table.name], "partition", "offset", "tombstone"]
    for number, file in enumerate(files):
        begin = 0
        for batch in _batches(root, table, file, [*columns, *(["outcome"] if is_commits else [])]):
            end = begin + batch.num_rows
            rows = pa.table(
                {
                    **dict(zip(batch.schema.names, batch.columns, strict=True)),
                    "file": pa.repeat(pa.scalar(number, pa.int64()), batch.num_rows),
                    "row": np.arange(begin, end, dtype=np.int64),
                }
            )
            begin = end
            yield _settled(rows) if is_commits else _with_exact_key(rows)


def _settled(commits: pa.Table) -> pa.Table:
    """Without commits of transactions that were aborted: those never replaced anything."""
    outcome = commits["outcome"]
    counts = pc.or_kleene(pc.is_null(outcome), pc.equal(outcome, "committed"))
    return commits.filter(counts).drop_columns("outcome")


def _with_exact_key(events: pa.Table) -> pa.Table:
    """A pattern is in the key of one kind of record; a member's is what its record says, not its name."""
    named = pc.if_else(pc.equal(events["record"], _PATTERN), events["subscription_regex"], None)
    place = events.schema.get_field_index("subscription_regex")
    return events.set_column(place, events.schema.field(place), named)


def _last_departures(newest: pa.Table) -> pa.Table:
    """Of groups that are there, the removal of their last member: since then they are idle."""
    kinds = newest["record"]
    alive = newest.filter(
        pc.and_(
            pc.match_substring_regex(kinds, "^(Consumer|Share|Streams)GroupMetadata$"),
            pc.invert(newest["tombstone"]),
        )
    )
    of_members = newest.filter(pc.ends_with(kinds, "GroupMemberMetadata"))
    last = _newest(of_members, ("group_id",))
    of_groups_there = pc.is_in(last["group_id"], value_set=alive["group_id"])
    return last.filter(pc.and_(last["tombstone"], of_groups_there))


def _newest_of_many(parts: Iterable[pa.Table], key: Sequence[str]) -> pa.Table:
    """The newest record of every key. In memory there is a row per key, and as many that are new."""
    held: list[pa.Table] = []
    rows, limit = 0, _ROWS_HELD
    for part in parts:
        held.append(part)
        rows += part.num_rows
        if rows >= limit:
            held = [_newest(pa.concat_tables(held), key)]
            rows = held[0].num_rows
            limit = max(_ROWS_HELD, 2 * rows)
    return _newest(pa.concat_tables(held), key)


def _newest(records: pa.Table, key: Sequence[str]) -> pa.Table:
    ordered = records.sort_by([("partition", "ascending"), ("offset", "ascending")])
    numbers = pa.array(np.arange(ordered.num_rows, dtype=np.int64))
    last = (
        ordered.select(key)
        .append_column("number", numbers)
        .group_by(key)
        .aggregate([("number", "max")])
    )
    return ordered.take(last["number_max"])
