"""Small files that are replaced as a whole: settings, and Kafka's offset checkpoints.

What this is: write beside, sync, rename over, sync the directory; and the text format of Kafka's
OffsetCheckpointFile. Called by coterie.storage.data_directory and group_commit; save_among_others by
coterie.plans.documents.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping
from pathlib import Path

from coterie.storage.crash_points import crash_point, write_with_crash_point
from coterie.storage.errors import StorageDamaged
from coterie.storage.files import File, FileSystem, OsFileSystem
from coterie.storage.partition_log import TopicPartition

__all__ = [
    "LOG_START_OFFSETS",
    "NEW_SUFFIX",
    "RECOVERY_POINTS",
    "load_file",
    "load_offsets",
    "remove_file",
    "save_among_others",
    "save_file",
    "save_offsets",
]

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
NEW_SUFFIX = ".new"

_CHECKPOINT_VERSION = "0"


def save_file(fs: FileSystem, path: Path, content: bytes, *, private: bool = False) -> None:
    """Replace a file, atomically and durably; a private one is its owner's alone."""
    beside = path.with_name(path.name + NEW_SUFFIX)
    file = fs.open(beside, create=True, private=private)
    _fill(file, content)
    fs.rename(beside, path)
    fs.sync_directory(path.parent)
    crash_point("file.after_rename")


def save_among_others(path: Path, content: bytes, *, private: bool = False) -> None:
    """As `save_file`, in a directory that is not ours: no other file is touched, no part is left."""
    fs = OsFileSystem()
    beside = path.with_name(f"{path.name}.{secrets.token_hex(8)}{NEW_SUFFIX}")
    file = fs.create(beside, private=private)
    try:
        _fill(file, content)
        fs.rename(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            fs.unlink(beside)
        raise
    fs.sync_directory(path.parent)
    crash_point("file.after_rename")


def _fill(file: File, content: bytes) -> None:
    """All that is to be done before the file gets its name."""
    try:
        file.truncate(0)
        write_with_crash_point("file.mid_write", file, content, 0)
        file.sync()
    finally:
        file.close()
    crash_point("file.before_rename")


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
        raise StorageDamaged(path, 0, "it is no list of offsets", root=path.parent) from None
    if version != _CHECKPOINT_VERSION or int(count) != len(offsets):
        raise StorageDamaged(path, 0, f"version {version}, {count} offsets", root=path.parent)
    return offsets
