"""The cluster's log: what is not about topics and must survive a restart, as Kafka's metadata records.

The log is `__cluster_metadata-0` in the first broker's directory, in Kafka's own format. A change is one
batch with all its records, so it is applied completely or not at all, and it is on disk when `change`
returns. Clients do not see the log. What the records mean is up to the parts that attach to it: users and
ACLs are in coterie.server.security.cluster_security.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from coterie.protocol.metadata_records import (
    MetadataRecord,
    decode_metadata_record,
    encode_metadata_record,
)
from coterie.protocol.records import RecordBatch, build_batch
from coterie.protocol.versioned import Undecoded
from coterie.server.clock import Clock
from coterie.storage.data_directory import DataDirectory
from coterie.storage.errors import StorageFull, UnsupportedFormat
from coterie.storage.partition_log import CLUSTER_LOG, CLUSTER_LOG_CONFIG

__all__ = ["ClusterLog", "ClusterLogPart"]

log = logging.getLogger("coterie.server")

#: Records per batch of a rewritten log.
_BATCH: Final = 1_000
#: The log is rewritten at a start if it has this many obsolete records and they are the majority.
_MOST_OBSOLETE: Final = 500


class ClusterLogPart(Protocol):
    """One part of the cluster's state: the only code that applies records of its types."""

    @property
    def record_types(self) -> Sequence[type[MetadataRecord]]:
        """The types of records that belong to this part, and to no other."""
        ...

    def replay(self, record: Any, /) -> None:
        """Apply one record."""
        ...

    def records(self) -> Iterable[MetadataRecord]:
        """The present state, in the fewest records."""
        ...


class ClusterLog:
    """The log of one cluster. It is created with the first record."""

    def __init__(self, directory: DataDirectory, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._parts: list[ClusterLogPart] = []
        self._part_of: dict[type[MetadataRecord], ClusterLogPart] = {}

    @property
    def end_offset(self) -> int:
        """The offset after the last record: 0 before the first one, and never less than it was."""
        log = self._directory.logs.get(CLUSTER_LOG)
        return 0 if log is None else log.log_end_offset

    def attach(self, part: ClusterLogPart) -> None:
        """Send records of the part's types to it, now and in `load`."""
        self._parts.append(part)
        for record_type in part.record_types:
            self._part_of[record_type] = part

    def load(self) -> None:
        """Replay the whole log, and rewrite it if most of its records are obsolete."""
        count = 0
        for record in self._read():
            self._part_of[type(record)].replay(record)
            count += 1
        live = [record for part in self._parts for record in part.records()]
        if count - len(live) > max(len(live), _MOST_OBSOLETE):
            try:
                self._rewrite(live)
            except StorageFull as error:
                log.warning("the cluster's log could not be rewritten: %s", error)

    def change(self, records: Sequence[MetadataRecord]) -> None:
        """Append records in one batch, then replay them; they are durable when this returns."""
        if not records:
            return
        log = self._directory.logs.get(CLUSTER_LOG)
        if log is None:
            (log,) = self._directory.create([CLUSTER_LOG], CLUSTER_LOG_CONFIG)
        header = self._batch(records)
        self._directory.append(log, header.encode(), header)
        for record in records:
            self._part_of[type(record)].replay(record)

    def _read(self) -> Iterator[MetadataRecord]:
        log = self._directory.logs.get(CLUSTER_LOG)
        for batch in () if log is None else log.batches():
            for record in batch.records():
                decoded = decode_metadata_record(record.value or b"")
                if isinstance(decoded, Undecoded):
                    raise UnsupportedFormat(
                        f"{self._directory.root / CLUSTER_LOG.directory_name}, offset {record.offset}:"
                        f" {decoded.reason}; open it with the version that wrote it, or a newer one"
                    )
                yield decoded

    def _rewrite(self, records: Sequence[MetadataRecord]) -> None:
        """Replace the whole log atomically."""
        log = self._directory.log(CLUSTER_LOG)
        parts = (records[at : at + _BATCH] for at in range(0, len(records), _BATCH))
        # Without records an empty batch keeps the end offset, as after compaction.
        batches = [self._batch(each).encode() for each in parts] or [RecordBatch().encode()]
        self._directory.write_anew(log, batches)

    def _batch(self, records: Sequence[MetadataRecord]) -> RecordBatch:
        now = self._clock.now_ms()
        return build_batch([(None, encode_metadata_record(each), now, ()) for each in records])
