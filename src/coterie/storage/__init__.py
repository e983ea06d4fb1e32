"""Durable partition logs in Kafka's own segment format.

What this is: bytes, batches and offsets on a disk, with one fdatasync for all that is appended at the same
time. What this is not: groups, sockets, asyncio or clocks. Called by the server, which runs
`DataDirectory.write` in an executor thread; start reading at coterie.storage.data_directory.
"""

from __future__ import annotations

from coterie.storage.config import Durability, LogConfig
from coterie.storage.data_directory import DataDirectory, SealedRound, repair
from coterie.storage.errors import (
    OffsetOutOfRange,
    StorageBroken,
    StorageDamaged,
    StorageError,
    StorageFull,
    StorageLocked,
    StorageUnwritable,
    TornTail,
    UnknownPartition,
    UnsupportedFormat,
)
from coterie.storage.files import FileSystem, MemoryFileSystem, OsFileSystem
from coterie.storage.partition_log import PartitionLog, TimestampOffset, TopicPartition

__all__ = [
    "DataDirectory",
    "Durability",
    "FileSystem",
    "LogConfig",
    "MemoryFileSystem",
    "OffsetOutOfRange",
    "OsFileSystem",
    "PartitionLog",
    "SealedRound",
    "StorageBroken",
    "StorageDamaged",
    "StorageError",
    "StorageFull",
    "StorageLocked",
    "StorageUnwritable",
    "TimestampOffset",
    "TopicPartition",
    "TornTail",
    "UnknownPartition",
    "UnsupportedFormat",
    "repair",
]
