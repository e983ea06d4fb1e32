"""Offsets in a file: what `export` and every undo write, and what `import` reads.

JSON keeps all of an offset (docs/schemas/offsets-file.json). CSV is that of Kafka's own tool: group, topic,
partition and offset, or without the group for one group (KIP-379); what it cannot say is lost.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from coterie.errors import CoterieError
from coterie.plans.documents import (
    decode_document,
    document_bytes,
    read_bytes,
    save_bytes,
    save_document,
)
from coterie.plans.model import LeaderEpoch, Moment, Offset, PartitionNumber

__all__ = ["SavedGroup", "SavedOffset", "SavedOffsets", "load_offsets", "to_csv", "to_json"]

_WITH_GROUP = 4
_WITHOUT_GROUP = 3
_DIGITS = re.compile("[0-9]+")
#: Python refuses to read numbers of some thousand digits; an offset has 19 at most.
_LONG = 100


class SavedOffset(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One committed offset."""

    topic: str
    partition: PartitionNumber
    offset: Offset
    leader_epoch: LeaderEpoch | None = None
    metadata: str = ""


class SavedGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one group had committed."""

    group: str
    offsets: tuple[SavedOffset, ...]


class SavedOffsets(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What some groups had committed, at a time, in a cluster."""

    format: Literal["coterie-offsets"] = "coterie-offsets"
    version: Literal[1] = 1
    created_at: Moment
    cluster_id: str | None = None
    #: Why it was written, such as "before delete_groups".
    reason: str = ""
    groups: tuple[SavedGroup, ...]

    @classmethod
    def of(
        cls, groups: tuple[SavedGroup, ...], *, cluster_id: str | None, reason: str = ""
    ) -> SavedOffsets:
        now = datetime.now(UTC).replace(microsecond=0)
        return cls(created_at=now, cluster_id=cluster_id, reason=reason, groups=groups)

    def renamed(self, group: str) -> SavedOffsets:
        """The same offsets for another group; there must be one group in it."""
        (only,) = self.groups
        return msgspec.structs.replace(self, groups=(SavedGroup(group, only.offsets),))

    def only(self, names: Collection[str]) -> SavedOffsets:
        """The part of some groups; all of them must be in it."""
        there = {each.group for each in self.groups}
        for name in names:
            if name not in there:
                raise CoterieError(f"the file has no group {name!r}")
        kept = tuple(each for each in self.groups if each.group in names)
        return msgspec.structs.replace(self, groups=kept)

    def save(self, path: Path) -> None:
        """Write the document, whole or not at all."""
        save_document(path, self)

    def save_csv(self, path: Path) -> None:
        save_bytes(path, to_csv(self).encode())


def to_json(saved: SavedOffsets) -> str:
    """The document."""
    return document_bytes(saved).decode()


def to_csv(saved: SavedOffsets) -> str:
    """Kafka's CSV, always with the group."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group in saved.groups:
        for each in group.offsets:
            writer.writerow((group.group, each.topic, each.partition, each.offset))
    return text.getvalue()


def load_offsets(path: Path, group: str | None = None) -> SavedOffsets:
    """A file of either format. A CSV without groups is for `group`."""
    if read_bytes(path).lstrip().startswith(b"{"):
        return decode_document(path, SavedOffsets, "a file of offsets")
    rows: dict[str, list[SavedOffset]] = {}
    for name, offset in _csv_rows(path, group):
        rows.setdefault(name, []).append(offset)
    groups = tuple(SavedGroup(name, tuple(offsets)) for name, offsets in rows.items())
    return SavedOffsets.of(groups, cluster_id=None)


def _csv_rows(path: Path, group: str | None) -> Iterator[tuple[str, SavedOffset]]:
    try:
        text = read_bytes(path).decode()
    except UnicodeDecodeError:
        raise CoterieError(f"{path} is neither JSON nor CSV in UTF-8") from None
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row:
            continue
        name = row[0] if len(row) == _WITH_GROUP else group
        if len(row) not in (_WITH_GROUP, _WITHOUT_GROUP) or not _DIGITS.fullmatch(row[-1]):
            raise CoterieError(f"{path}, line {number}: this is not group,topic,partition,offset")
        if name is None:
            raise CoterieError(f"{path}, line {number} names no group; say which one it is for")
        topic, partition, offset = row[-3:]
        if not _fits(partition, 2**31):
            raise CoterieError(f"{path}, line {number}: {partition!r} is not a partition")
        if not _fits(offset, 2**63):
            raise CoterieError(f"{path}, line {number}: the offset is above {2**63 - 1}")
        yield name, SavedOffset(topic, int(partition), int(offset))


def _fits(text: str, limit: int) -> bool:
    """Whether it is a number below the limit."""
    return _DIGITS.fullmatch(text) is not None and len(text) < _LONG and int(text) < limit
