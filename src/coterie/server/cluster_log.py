"""The cluster's log as the server uses it: metadata records in, metadata records out.

What this is: `__cluster_metadata-0` of the first broker's directory, in Kafka's own format. A change is one
batch with all its records, so that it happens whole, and it is on disk when `append` returns. No client sees
the log.
What this is not: what the records mean; that is coterie.server.security.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from coterie.protocol.metadata_records import (
    MetadataRecord,
    decode_metadata_record,
    encode_metadata_record,
)
from coterie.protocol.records import RecordBatch, build_batch
from coterie.protocol.versioned import Undecoded
from coterie.server.clock import Clock
from coterie.storage.cluster_log import CLUSTER_LOG, CLUSTER_LOG_CONFIG
from coterie.storage.data_directory import DataDirectory
from coterie.storage.errors import UnsupportedFormat

__all__ = ["ClusterLog"]

#: Records of a batch where it does not matter which of them go together.
_BATCH: Final = 1_000


class ClusterLog:
    """The log of one cluster. It is made with the first record: who has no users has no log of them."""

    def __init__(self, directory: DataDirectory, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock

    def records(self) -> Iterator[MetadataRecord]:
        """All that was ever appended and is not written anew, in order."""
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

    def append(self, records: Sequence[MetadataRecord]) -> None:
        """One or more records in one batch; durable when this returns, or nothing of it is kept."""
        log = self._directory.logs.get(CLUSTER_LOG)
        if log is None:
            (log,) = self._directory.create([CLUSTER_LOG], CLUSTER_LOG_CONFIG)
        header = self._batch(records)
        self._directory.append(log, header.encode(), header)

    def write_anew(self, records: Iterable[MetadataRecord]) -> None:
        """Put records in place of all that there are, atomically."""
        log = self._directory.log(CLUSTER_LOG)
        every = list(records)
        parts = (every[at : at + _BATCH] for at in range(0, len(every), _BATCH))
        # Of nothing an empty batch is left, as compaction leaves one: it keeps the end offset.
        batches = [self._batch(each).encode() for each in parts] or [RecordBatch().encode()]
        self._directory.write_anew(log, batches)

    def _batch(self, records: Sequence[MetadataRecord]) -> RecordBatch:
        now = self._clock.now_ms()
        return build_batch([(None, encode_metadata_record(each), now, ()) for each in records])
