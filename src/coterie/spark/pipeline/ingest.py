"""`ingest`: the log of `__consumer_offsets` into tables, from where the last ingest ended, every record once.

The offsets that have been read are in the catalog and are committed together with the rows: a run that was
killed leaves no trace. A transaction that has not ended holds its partition back, as Kafka holds back readers
of committed data: the next ingest reads it, with its outcome. The catalog also records what is missing
(coterie.spark.pipeline.gaps).

Segment files do not grow, so a transaction that is open at their end would hold back what follows for ever.
That tail is in the tables in files of its own, and the checkpoint stays before the transaction. An ingest
that finds more of the partition reads the tail again, with the outcomes that are known by then, and leaves
out the earlier files in the same commit: every record is there once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession

from coterie.console.progress import StepProgress
from coterie.errors import CoterieError
from coterie.spark.pipeline.catalog import TAIL, Step
from coterie.spark.pipeline.end_offsets import write_days
from coterie.spark.pipeline.frames import append_raw, literal, must_be_shared, spark_schema
from coterie.spark.pipeline.gaps import GAPS, Gap, known_gaps, read_until, renewed
from coterie.spark.pipeline.origin import Bounds, Origin, check_cluster
from coterie.spark.pipeline.reading import read_commits
from coterie.spark.pipeline.store import TableStore, Transaction, check_version
from coterie.spark.pipeline.tables import BESIDE, LOG_TABLES, RawTable

__all__ = ["Ingested", "ingest"]

_COMMITS = LOG_TABLES[0]
_DELETED = "which were deleted before they were read; ingest more often"
#: Partition -> first offset to read, and the one to stop before.
Ranges = dict[int, tuple[int, int]]


@dataclass(frozen=True)
class Ingested:
    """What an ingest did."""

    #: Table -> new rows.
    rows: Mapping[str, int] = field(default_factory=dict)
    partitions: int = 0
    records: int = 0
    #: Partitions with a transaction that has not ended, and the offset that waits for it.
    waiting: Mapping[int, int] = field(default_factory=dict)
    #: Partitions that could not be read, and why; the next ingest begins where they were left.
    failures: Mapping[int, str] = field(default_factory=dict)
    #: Partitions whose log begins behind where the last ingest ended: the first offset missed, and the next.
    lost: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    #: All of that, as it stands in the catalog now; what was lost earlier, too.
    gaps: tuple[Gap, ...] = ()


def ingest(
    spark: SparkSession,
    store: TableStore,
    origin: Origin,
    progress: StepProgress | None = None,
    *,
    strict: bool = False,
) -> Ingested:
    """Read what is new in the log. With `strict`, all of it or nothing."""
    progress = progress or StepProgress(quiet=True)
    with store.write() as transaction:
        for table in LOG_TABLES:
            check_version(store, table)
        with progress.step("Looking where the log ends"):
            bounds = origin.bounds()
            check_cluster(store, origin.identity)
            ranges = _new_ranges(store, bounds)
        lost = _lost(store, ranges)
        if strict and (bounds.failures or lost):
            _refuse(bounds.failures, lost)
        asked = dict(ranges)
        rows = {}
        if ranges:
            must_be_shared(spark, store.root)
            with progress.step("Reading the log"):
                rows = _read_log(spark, transaction, origin, ranges, is_final=bounds.is_final)
        held = {each: end for each, (_, end) in ranges.items() if end < asked[each][1]}
        tails = {each: asked[each] for each in held} if bounds.is_final else {}
        checkpoint = _checkpoint(store, origin, bounds, ranges, tails)
        gaps = _gaps(transaction, checkpoint, bounds, held, lost)
        if ranges or gaps != known_gaps(store):
            transaction.remember(Step.LOG, {**checkpoint, GAPS: msgspec.to_builtins(gaps)})
            with progress.step("Committing"):
                transaction.commit()
    records = sum(end - start for start, end in {**ranges, **tails}.values())
    waiting = {**bounds.waiting, **held}
    return Ingested(rows, len(ranges), records, waiting, bounds.failures, lost, tuple(gaps))


def _new_ranges(store: TableStore, bounds: Bounds) -> Ranges:
    """What the log has beyond the last ingest; refused if it cannot be the same log."""
    known = store.state(Step.LOG)
    topic_id = known.get("topic_id")
    if bounds.topic_id is not None and topic_id not in {None, bounds.topic_id}:
        raise CoterieError(
            f"{store.root} holds the log of a topic with the id {topic_id}, this one has"
            f" {bounds.topic_id}: it was made anew; choose another --out for it"
        )
    done: Mapping[str, int] = known.get("offsets", {})
    # A cluster may tell less of a log than a copy of its files did: what is decided, and no more.
    tails = _known_tails(store) if bounds.is_final else {}
    ranges = {}
    for partition, (first, end) in bounds.partitions.items():
        begun = int(done.get(str(partition), first))
        read = tails.get(partition, begun)
        if end < read:
            raise CoterieError(
                f"partition {partition} of the log ends at offset {end}, but was read up to"
                f" {read}: the topic was made anew, or this is an older copy;"
                " choose another --out for it"
            )
        start = max(first, begun)
        if end > max(start, read):
            ranges[partition] = (start, end)
    return ranges


def _lost(store: TableStore, ranges: Ranges) -> dict[int, tuple[int, int]]:
    """What was deleted before anybody read it: compaction never moves the beginning of a log."""
    done: Mapping[str, int] = store.state(Step.LOG).get("offsets", {})
    return {
        partition: (int(done[str(partition)]), start)
        for partition, (start, _) in ranges.items()
        if int(done.get(str(partition), start)) < start
    }


def _refuse(failures: Mapping[int, str], lost: Mapping[int, tuple[int, int]]) -> NoReturn:
    """Say why nothing was read at all."""
    sentences = [f"partition {each} could not be asked: {why}" for each, why in failures.items()]
    sentences += [
        f"offsets {first} to {behind - 1} of partition {each} were deleted before they were read"
        for each, (first, behind) in lost.items()
    ]
    raise CoterieError(f"the log is not whole, and nothing was read: {'; '.join(sentences)}")


def _gaps(
    transaction: Transaction,
    checkpoint: Mapping[str, Any],
    bounds: Bounds,
    held: Mapping[int, int],
    lost: Mapping[int, tuple[int, int]],
) -> list[Gap]:
    """What is missing, with the time up to which the log is there."""
    offsets: Mapping[str, int] = checkpoint["offsets"]
    tails = {int(each): offsets[each] for each in checkpoint["tails"]}
    waiting = {each: at for each, at in held.items() if each not in tails} | dict(bounds.waiting)
    until = read_until(transaction, {*bounds.failures, *waiting})
    found = [
        (each, "failed", offsets.get(str(each)), f"could not be read, and is read next time: {why}")
        for each, why in bounds.failures.items()
    ]
    found += [
        (each, "waiting", at, f"waits at offset {at} for the end of a transaction")
        for each, at in waiting.items()
    ]
    found += [
        (
            each,
            "open",
            at,
            f"ends in a transaction, open since offset {at}: its commits do not count",
        )
        for each, at in tails.items()
        if each not in waiting
    ]
    found += [
        (each, "lost", first, f"lacks offsets {first} to {behind - 1}, {_DELETED}")
        for each, (first, behind) in lost.items()
    ]
    gaps = [
        Gap(partition=each, kind=kind, reason=why, read_to=at, read_until=until.get(each))
        for each, kind, at, why in found
    ]
    return renewed(gaps, known_gaps(transaction.store))


def _checkpoint(
    store: TableStore, origin: Origin, bounds: Bounds, ranges: Ranges, new_tails: Ranges
) -> dict[str, Any]:
    known = store.state(Step.LOG)
    offsets = dict(known.get("offsets", {}))
    offsets.update({str(partition): end for partition, (_, end) in ranges.items()})
    tails = {each: end for each, end in _known_tails(store).items() if each not in ranges}
    tails.update({partition: end for partition, (_, end) in new_tails.items()})
    return {
        "source": origin.identity,
        "topic_id": bounds.topic_id or known.get("topic_id"),
        "offsets": offsets,
        "tails": {str(partition): end for partition, end in tails.items()},
    }


def _read_log(
    spark: SparkSession,
    transaction: Transaction,
    origin: Origin,
    ranges: Ranges,
    *,
    is_final: bool,
) -> dict[str, int]:
    """Write what is new. `ranges` is cut where a transaction has not ended, and all before it read anew.

    What is behind the cut is written apart if the log is final, and else left for the next time.
    """
    _leave_out_tails(transaction, ranges)
    rows = _read_once(spark, transaction, origin, ranges)
    held = _undecided(transaction, _COMMITS)
    if held:
        tails = {each: (offset, ranges[each][1]) for each, offset in held.items()}
        ranges.update({each: (ranges[each][0], offset) for each, offset in held.items()})
        for table in LOG_TABLES:
            transaction.discard(table.name)
        rows = _read_once(spark, transaction, origin, ranges)
        if is_final:
            rows = _read_once(spark, transaction, origin, tails, TAIL)
    _carry_over_tails(transaction, ranges)
    return rows


def _read_once(
    spark: SparkSession,
    transaction: Transaction,
    origin: Origin,
    ranges: Ranges,
    below: str = "",
) -> dict[str, int]:
    """Write a part of the log; the rows that there are by now."""
    beside = transaction.directory(BESIDE)
    rows = {}
    try:
        commits = read_commits(spark, origin.source, ranges, beside)
        for table in LOG_TABLES:
            frame = commits if table is _COMMITS else _read_beside(spark, table, beside)
            if frame is None:
                rows[table.name] = transaction.append(table.name, table.schema, table.version)
            else:
                rows[table.name] = append_raw(transaction, table, frame, below)
    finally:
        transaction.discard(BESIDE)
        with suppress(OSError):  # what a killed run has left there, the next writer removes
            beside.parent.rmdir()
    return rows


def _read_beside(spark: SparkSession, table: RawTable, beside: Path) -> DataFrame | None:
    """What tasks have written while they read commits; None if there was nothing."""
    paths = [literal(path) for path in (beside / table.name).glob("*.parquet")]
    return spark.read.schema(spark_schema(table.schema)).parquet(*paths) if paths else None


def _undecided(transaction: Transaction, table: RawTable) -> dict[int, int]:
    """Partition -> its first record of a transaction without an end, among the rows just written."""
    paths = [str(path) for path in transaction.directory(table.name).rglob("*.parquet")]
    if not paths:
        return {}
    rows = ds.dataset(paths, schema=table.schema, format="parquet")
    found = rows.to_table(columns=["partition", "offset"], filter=pc.field("outcome") == "open")
    least = found.group_by("partition").aggregate([("offset", "min")]).to_pylist()
    return {row["partition"]: row["offset_min"] for row in least}


# Tails: what follows a transaction that is open where segment files end


def _known_tails(store: TableStore) -> dict[int, int]:
    """Partition -> the offset after its tail, which begins at the offset of the checkpoint."""
    found: Mapping[str, int] = store.state(Step.LOG).get("tails", {})
    return {int(partition): end for partition, end in found.items()}


def _leave_out_tails(transaction: Transaction, partitions: Collection[int]) -> None:
    """Leave out the files of tails if one of these partitions, which are read now, has a tail."""
    if _known_tails(transaction.store).keys().isdisjoint(partitions):
        return
    for table in LOG_TABLES:
        manifest = transaction.store.manifest(table.name)
        if manifest is not None:
            transaction.leave_out(table.name, [file for file in manifest.files if file.is_tail])


def _carry_over_tails(transaction: Transaction, partitions: Collection[int]) -> None:
    """Keep the rows of other partitions in the files that were left out: their tails stay."""
    for table in LOG_TABLES:
        paths = transaction.left_out(table.name)
        if not paths:
            continue
        rows = ds.dataset(paths, schema=table.schema, format="parquet")
        others = rows.to_table(filter=~pc.field("partition").isin(sorted(partitions)))
        write_days(transaction.directory(table.name) / TAIL, others, table.name)
        transaction.append(table.name, table.schema, table.version)
