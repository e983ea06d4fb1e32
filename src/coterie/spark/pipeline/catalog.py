"""What is written beside the data: one manifest per table, and the catalog that says which manifests count.

A commit writes new data files, then new manifests, each synced, and at last renames a new catalog over the
old one. That rename is the commit, of all tables at once and of the checkpoints with them: before it
nothing has happened, after it everything has. The first commit of all writes a catalog of version 0 before
its manifests: where there are manifests and no catalog, it was lost. Called by coterie.spark.pipeline.store.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec

from coterie.errors import CoterieError
from coterie.files import replace_file

__all__ = [
    "CATALOG",
    "TAIL",
    "Catalog",
    "DataFile",
    "Manifest",
    "ManifestGone",
    "Step",
    "load_catalog",
    "load_manifest",
    "save",
]

CATALOG: Final = "catalog.json"
#: The directory, inside that of a run, with files that the next ingest may replace.
TAIL: Final = "tail"

#: How catalog and manifests themselves are written; grows when an older Coterie could not read them.
FORMAT: Final = 1


class ManifestGone(CoterieError):
    """A manifest is not there: commits have come since the catalog was read that named it."""


class DataFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """One Parquet file: where it is below the table's directory, and what is in it."""

    path: str
    rows: int
    bytes: int
    #: The day (UTC) that all its rows are of, or empty for a table without days.
    day: str = ""

    @property
    def is_tail(self) -> bool:
        """Whether its rows are to be read again (coterie.spark.pipeline.ingest), and stay by themselves."""
        return TAIL in self.path.split("/")[1:2]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a table. Never changed once it is written."""

    table: str
    schema_version: int
    #: Column names and Arrow types, in order.
    columns: tuple[tuple[str, str], ...]
    files: tuple[DataFile, ...]
    run_id: str
    written_at: str

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


class Step(StrEnum):
    """A step that stores its own state with a commit."""

    #: Source, topic id, offsets and gaps of `__consumer_offsets`.
    LOG = "log"
    #: Ids of the snapshots that were taken, and the cluster.
    SNAPSHOTS = "snapshots"
    #: Files of end offsets that were imported.
    END_OFFSETS = "end_offsets"
    #: The moment that the marts describe, and their rows.
    BUILD = "build"


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """Which manifest of each table counts, and how far the sources have been read."""

    format: int = FORMAT
    version: int = 0
    #: Table name -> its manifest, below the store's directory.
    tables: dict[str, str] = {}
    #: The same one version earlier: a reader that began then may still be reading.
    previous: dict[str, str] = {}
    #: The state of each step by its name.
    state: dict[str, Any] = {}


def load_catalog(root: Path) -> Catalog | None:
    """The catalog of a store; None if there is none."""
    path = root / CATALOG
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CoterieError(f"{path} cannot be read: {error.strerror}") from None
    try:
        # The format first, alone: what else stands in a newer file is not ours to judge.
        found = msgspec.json.decode(content)
        written = found.get("format")
        if isinstance(written, int) and written > FORMAT:
            raise CoterieError(
                f"{path} was written by a newer Coterie (format {written}, this one knows"
                f" {FORMAT}); update Coterie or choose another --out"
            )
        if "version" not in found:  # without it, a catalog of nothing or of somebody else would do
            raise msgspec.ValidationError("it has no version")
        return msgspec.json.decode(content, type=Catalog)
    except (msgspec.DecodeError, AttributeError) as error:
        raise CoterieError(
            f"{path} is damaged: {error}; bring it back from a copy, or choose another --out"
        ) from None


def load_manifest(root: Path, where: str) -> Manifest:
    path = root / where
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise ManifestGone(
            f"{path} is gone, though the catalog names it; bring it back from a copy,"
            " or choose another --out"
        ) from None
    except OSError as error:
        raise CoterieError(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise CoterieError(f"{path} is damaged: {error}") from None


def save(path: Path, value: Catalog | Manifest) -> None:
    """Replace the file, atomically and durably."""
    replace_file(path, msgspec.json.format(msgspec.json.encode(value), indent=1))
