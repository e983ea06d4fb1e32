"""What of the log is not in the tables: which partition, why, and up to when it was read.

The catalog has it, beside the offsets that were read, as the last ingest found it: whoever looks at tables
can know how much of the log they are. Groups of a partition that waits or has failed may live on unseen.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from coterie.datasets.schemas import arrow_schema
from coterie.spark.pipeline.catalog import Step
from coterie.spark.pipeline.store import TableStore, Transaction
from coterie.spark.pipeline.tables import LOG_TABLES, RawTable
from coterie.vocabulary.datasets import GAPS as DECLARED

__all__ = ["GAPS", "Gap", "known_gaps", "read_until", "renewed", "table_of_gaps"]

GAPS: Final = DECLARED.name


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of the log that is not whole in the tables."""

    partition: int
    #: waiting (for the end of a transaction), failed (could not be read), lost (for good), or open (all is
    #: there, but how transactions ended is not).
    kind: str
    reason: str
    #: The first offset that is missing, or open; None if nothing was ever read.
    read_to: int | None = None
    #: The time of the newest record before it.
    read_until: datetime | None = None
    #: The ingest that first met it.
    since: datetime | None = None

    @property
    def sentence(self) -> str:
        """For people."""
        known = ""
        if self.kind in {"waiting", "failed"}:
            until = self.read_until
            known = (
                "; nothing of it was read so far"
                if until is None
                else f"; its groups are known up to {until:%Y-%m-%d %H:%M:%S} UTC"
            )
        return f"partition {self.partition} of the log {self.reason}{known}"

    def is_like(self, other: Gap) -> bool:
        """Whether it is the same one, met again."""
        mine, theirs = (
            (each.partition, each.kind, each.read_to, each.read_until) for each in (self, other)
        )
        return mine == theirs


def known_gaps(store: TableStore) -> list[Gap]:
    """Those that the last ingest left."""
    return msgspec.convert(list(store.state(Step.LOG).get(GAPS, [])), list[Gap])


def renewed(found: Iterable[Gap], known: Iterable[Gap]) -> list[Gap]:
    """What was found, each since it was first met; and what was lost before, for it is lost for good."""
    now = datetime.now(UTC).replace(microsecond=0)
    before = list(known)
    gaps = []
    for gap in found:
        since = next((each.since for each in before if each.is_like(gap)), None)
        gaps.append(msgspec.structs.replace(gap, since=since or now))
    lost_again = {gap.partition for gap in gaps if gap.kind == "lost"}
    gaps += [gap for gap in before if gap.kind == "lost" and gap.partition not in lost_again]
    return sorted(gaps, key=lambda gap: (gap.partition, gap.kind))


def read_until(transaction: Transaction, partitions: Iterable[int]) -> dict[int, datetime]:
    """Partition -> the time of its newest record in the tables."""
    wanted = sorted(partitions)
    found: dict[int, datetime] = {}
    for table in LOG_TABLES if wanted else ():
        for partition, newest in _newest_times(table, transaction.paths(table.name), wanted):
            found[partition] = max(newest, found.get(partition, newest))
    return found


def _newest_times(
    table: RawTable, paths: list[str], partitions: list[int]
) -> Iterable[tuple[int, datetime]]:
    if not paths:
        return
    rows = ds.dataset(paths, schema=table.schema, format="parquet")
    chosen = pc.field("partition").isin(partitions)
    for batch in rows.to_batches(columns=["partition", "timestamp"], filter=chosen):
        newest = pa.table(batch).group_by("partition").aggregate([("timestamp", "max")])
        for row in newest.to_pylist():
            yield row["partition"], row["timestamp_max"]


def table_of_gaps(store: TableStore) -> pa.Table:
    """The same as a table."""
    rows = [msgspec.structs.asdict(gap) for gap in known_gaps(store)]
    return pa.Table.from_pylist(rows, schema=arrow_schema(DECLARED.columns))
