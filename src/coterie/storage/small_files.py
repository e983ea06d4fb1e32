"""Small files of the data directory that are replaced as a whole: settings, and Kafka's offset checkpoints.

The new content is written to a file of its own, synced and renamed, and the directory is synced. Called by
coterie.storage.data_directory and group_commit; files elsewhere are replaced by coterie.files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from coterie.crash_points import crash_point
from coterie.files import write_durably
from coterie.storage.errors import StorageDamaged
from coterie.storage.files import FileSystem
from coterie.storage.partition_log import TopicPartition

__all__ = [
    "LOG_START_OFFSETS",
    "NEW_SUFFIX",
    "RECOVERY_POINTS",
    "load_file",
    "load_offsets",
    "remove_file",
    "save_file",
    "save_offsets",
]

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
NEW_SUFFIX = ".new"

_CHECKPOINT_VERSION = "0"


def save_file(fs: FileSystem, path: Path, content: bytes, *, private: bool = False) -> None:
    """Replace a file, atomically and durably; only its owner may read a private one.

    Its new content has a fixed name, so the next call overwrites what a crash left.
    """
    new = path.with_name(path.name + NEW_SUFFIX)
    write_durably(fs.open(new, create=True, private=private), content)
    fs.rename(new, path)
    fs.sync_directory(path.parent)
    crash_point("file.after_rename")


def load_file(fs: FileSystem, path: Path, *, private: bool = False) -> bytes | None:
    """The content, or None if there is no such file."""
    if not fs.exists(path):
        return None
    file = fs.open(path, private=private)
    try:
        return file.pread(file.size(), 0)
    finally:
        file.close()


def remove_file(fs: FileSystem, path: Path) -> None:
    fs.unlink(path)
    fs.sync_directory(path.parent)


def save_offsets(fs: FileSystem, path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    lines = [_CHECKPOINT_VERSION, str(len(offsets))]
    lines += (f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())
    save_file(fs, path, ("\n".join(lines) + "\n").encode())


def load_offsets(fs: FileSystem, path: Path) -> dict[TopicPartition, int]:
    """What was saved, or nothing if nothing was; StorageDamaged if it cannot be read."""
    content = load_file(fs, path)
    if content is None:
        return {}
    try:
        version, count, *lines = content.decode().splitlines()
        offsets = {}
        for line in lines:
            topic, partition, offset = line.split(" ")
            offsets[TopicPartition(topic, int(partition))] = int(offset)
    except ValueError:
        raise StorageDamaged(path, 0, "it is not a list of offsets", root=path.parent) from None
    if version != _CHECKPOINT_VERSION or int(count) != len(offsets):
        raise StorageDamaged(path, 0, f"version {version}, {count} offsets", root=path.parent)
    return offsets
