"""The table store: Parquet files under one directory, changed only by whole transactions.

    OUT/catalog.json                        which manifests count (coterie.spark.pipeline.catalog)
    OUT/<table>/manifest-<version>.json     the files of one version of a table
    OUT/<table>/<run id>/[day=.../]*.parquet

One writer at a time holds the lock; readers need none. A run that was killed leaves files that no manifest
names: no reader uses them, and the next writer removes them. It removes what has a name that the store gives,
in directories of tables, and nothing else: users keep files of their own here. No function here needs Spark.

In tables of older versions, columns that were added later are null. A table whose columns were renamed or
retyped is refused, and so are a table of a newer Coterie and a mart of another version; `build` replaces it.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.errors import CoterieError
from coterie.files import UNFINISHED, sync
from coterie.spark.pipeline.catalog import (
    CATALOG,
    Catalog,
    DataFile,
    Manifest,
    ManifestGone,
    load_catalog,
    load_manifest,
    save,
)
from coterie.spark.pipeline.tables import BESIDE, MART_VERSION, RAW, RawTable
from coterie.vocabulary.marts import MARTS

__all__ = [
    "OWN_DIRECTORIES",
    "TableStore",
    "Transaction",
    "check_mart",
    "check_version",
    "is_run_id",
    "lock_of",
    "new_run_id",
]

_LOCK: Final = ".lock"
_DAY: Final = re.compile(r"day=(\d{4}-\d{2}-\d{2})")
_RUN: Final = re.compile(r"\d{8}T\d{6}-[0-9a-f]{8}")
_MANIFEST: Final = re.compile(r"manifest-\d{8,}\.json")
#: Of a manifest or a catalog that a killed run has begun.
_UNFINISHED: Final = re.compile(rf"(manifest-\d{{8,}}|catalog)\.json{UNFINISHED}")
#: Where runs write, also before a catalog names it: raw tables, marts, and the files that tasks write for the
#: driver.
OWN_DIRECTORIES: Final = frozenset({*RAW, *MARTS, BESIDE})


def new_run_id() -> str:
    """Names that sort by time and never meet."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


def is_run_id(name: str) -> bool:
    """Whether a name is of that form."""
    return _RUN.fullmatch(name) is not None


def lock_of(root: Path) -> Path:
    """The file that a writer locks; the number of its process is in it."""
    return root / _LOCK


class TableStore:
    """The tables under a directory, as the last commit left them when the store was opened or refreshed."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root).absolute()
        self.catalog = Catalog()
        #: All that the catalog names: what is read later, later commits may have removed.
        self._manifests: dict[str, Manifest] = {}
        self.refresh()

    def refresh(self) -> None:
        """See what has been committed since."""
        try:
            self._read()
        except ManifestGone:  # two commits came after the catalog had been read
            self._read()

    def _read(self) -> None:
        catalog = self._find_catalog()
        self._manifests = {where: self._load(where) for where in catalog.tables.values()}
        self.catalog = catalog

    def _find_catalog(self) -> Catalog:
        """The catalog; an empty one if nothing was ever committed, and an error if it was lost."""
        found = load_catalog(self.root)
        if found is not None:
            return found
        manifests = [
            entry
            for table in sorted(OWN_DIRECTORIES)
            for entry in _entries(self.root / table)
            if _MANIFEST.fullmatch(entry.name)
        ]
        found = load_catalog(self.root)  # a first commit may have come meanwhile
        if found is None and manifests:
            raise CoterieError(
                f"{self.root / CATALOG} is gone, but {manifests[0]} shows that there were tables;"
                " bring the catalog back from a copy, or choose another --out"
            )
        return found or Catalog()

    @property
    def tables(self) -> list[str]:
        return sorted(self.catalog.tables)

    def must_exist(self) -> None:
        """Raise unless something was committed here."""
        if not self.catalog.version:
            raise CoterieError(
                f"there are no tables in {self.root}; fill it with `coterie pipeline run --out`"
            )

    def manifest(self, table: str) -> Manifest | None:
        """The version of a table that counts; None if it was never written."""
        where = self.catalog.tables.get(table)
        return None if where is None else self._manifests[where]

    def state(self, step: str) -> Mapping[str, Any]:
        """What a step remembered at its last commit."""
        found = self.catalog.state.get(step, {})
        return found if isinstance(found, Mapping) else {}

    def paths(self, table: str) -> list[str]:
        """The Parquet files of a table."""
        manifest = self.manifest(table)
        if manifest is None:
            return []
        return [str(self.root / table / file.path) for file in manifest.files]

    def _load(self, where: str) -> Manifest:
        known = self._manifests.get(where)
        return load_manifest(self.root, where) if known is None else known

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """A transaction: what `commit` was not called for has never happened."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(lock_of(self.root), os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise CoterieError(f"cannot write to {self.root}: {error.strerror}") from None
        try:
            self._lock(descriptor)
            self.refresh()
            self._remove_leftovers()
            yield Transaction(self, new_run_id())
        finally:
            os.close(descriptor)  # gives the lock back, as the end of the process would
            self.refresh()

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            raise CoterieError(
                f"another run (process {holder or 'unknown'}) is writing to {self.root};"
                " wait for its end, or choose another --out"
            ) from None
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)

    def _remove_leftovers(self) -> None:
        """Remove what neither this version names nor the one before, which may still be read.

        After kill -9 Spark's JVM lives a moment longer, and clears up too: what is gone is not missed.
        """
        named = {*self.catalog.tables.values(), *self.catalog.previous.values()}
        files = {
            self.root / manifest.table / file.path
            for manifest in (self._load(where) for where in named)
            for file in manifest.files
        }
        runs = {path.relative_to(self.root).parts[:2] for path in files}
        for table in OWN_DIRECTORIES | self.catalog.tables.keys() | self.catalog.previous.keys():
            for entry in _entries(self.root / table):
                if is_run_id(entry.name) and (table, entry.name) not in runs:
                    shutil.rmtree(entry, ignore_errors=True)
                elif _is_manifest(entry.name) and f"{table}/{entry.name}" not in named:
                    with suppress(OSError):
                        entry.unlink()
        for entry in _entries(self.root):
            if _UNFINISHED.fullmatch(entry.name):
                entry.unlink(missing_ok=True)
        self._remove_files_of_kept_runs(runs, files)

    def _remove_files_of_kept_runs(self, runs: set[tuple[str, ...]], files: set[Path]) -> None:
        for run in runs:
            for file in self.root.joinpath(*run).rglob("*.parquet"):
                if file not in files:
                    file.unlink(missing_ok=True)


def _is_manifest(name: str) -> bool:
    """Whether it is a manifest, or one that a killed run has begun."""
    return bool(_MANIFEST.fullmatch(name) or _UNFINISHED.fullmatch(name))


def _entries(directory: Path) -> list[Path]:
    """What is in a directory; nothing if it is not there, or not ours to look into."""
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


@dataclass
class Transaction:
    """New files, on their way into the tables of a store."""

    store: TableStore
    run_id: str
    _manifests: dict[str, Manifest] = field(default_factory=dict)
    _state: dict[str, Any] = field(default_factory=dict)
    _left_out: dict[str, list[DataFile]] = field(default_factory=dict)

    def directory(self, table: str) -> Path:
        """Where to write new files of a table; not made yet."""
        return self.store.root / table / self.run_id

    def append(self, table: str, columns: pa.Schema, version: int) -> int:
        """Take the files in `directory(table)` beside those that the table has; the rows in them."""
        now = self.store.manifest(table)
        without = self._left_out.get(table, ())
        kept = () if now is None else tuple(file for file in now.files if file not in without)
        return self._put(table, columns, version, kept)

    def leave_out(self, table: str, files: Iterable[DataFile]) -> None:
        """Have `append` not keep some of the files that the table has."""
        self._left_out[table] = list(files)

    def left_out(self, table: str) -> list[str]:
        """The Parquet files that are left out."""
        return self._paths(table, self._left_out.get(table, ()))

    def paths(self, table: str) -> list[str]:
        """The Parquet files that the table is going to have."""
        manifest = self._manifests.get(table) or self.store.manifest(table)
        return [] if manifest is None else self._paths(table, manifest.files)

    def _paths(self, table: str, files: Iterable[DataFile]) -> list[str]:
        return [str(self.store.root / table / file.path) for file in files]

    def replace(self, table: str, columns: pa.Schema, version: int) -> int:
        """Take the files in `directory(table)` instead of those that the table has."""
        return self._put(table, columns, version, ())

    def keep_only(self, table: str, files: tuple[DataFile, ...]) -> None:
        """Take the files in `directory(table)` and some of those that the table has."""
        now = self.store.manifest(table)
        if now is None:
            raise CoterieError(f"there is no table {table!r}")
        files = (*files, *_found(self.store.root / table, self.directory(table)))
        self._set(table, now.columns, now.schema_version, files)

    def discard(self, table: str) -> None:
        """Forget what was written of a table so far."""
        shutil.rmtree(self.directory(table), ignore_errors=True)
        self._manifests.pop(table, None)

    def remember(self, step: str, state: Mapping[str, Any]) -> None:
        """Keep a step's own state (a checkpoint) with the commit."""
        self._state[step] = dict(state)

    def commit(self) -> None:
        """Make it all count, at once."""
        root, catalog = self.store.root, self.store.catalog
        version = catalog.version + 1
        tables = dict(catalog.tables)
        if not catalog.version:  # manifests without a catalog would be those of a lost one
            save(root / CATALOG, catalog)
        for table, manifest in self._manifests.items():
            where = f"{table}/manifest-{version:08}.json"
            (root / table).mkdir(parents=True, exist_ok=True)
            _sync_tree(self.directory(table))
            save(root / where, manifest)
            tables[table] = where
        sync(root)
        new = Catalog(
            version=version,
            tables=tables,
            previous=catalog.tables,
            state={**catalog.state, **self._state},
        )
        save(root / CATALOG, new)
        self.store.refresh()

    def _put(self, table: str, columns: pa.Schema, version: int, kept: tuple[DataFile, ...]) -> int:
        new = tuple(_found(self.store.root / table, self.directory(table)))
        names = tuple((each.name, str(each.type)) for each in columns)
        self._set(table, names, version, (*kept, *new))
        return sum(file.rows for file in new)

    def _set(
        self,
        table: str,
        columns: tuple[tuple[str, str], ...],
        version: int,
        files: tuple[DataFile, ...],
    ) -> None:
        self._manifests[table] = Manifest(
            table=table,
            schema_version=version,
            columns=columns,
            files=files,
            run_id=self.run_id,
            written_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )


def _found(table: Path, directory: Path) -> Iterator[DataFile]:
    """The Parquet files that were written under a directory; whatever else is there goes."""
    found = False
    for path in sorted(directory.rglob("*")) if directory.exists() else ():
        if path.is_dir():
            continue
        if path.suffix != ".parquet" or path.name.startswith((".", "_")):
            path.unlink()  # Hadoop's checksums and markers
            continue
        rows = pq.read_metadata(path).num_rows
        if not rows and found:  # one empty file stays: it has the schema
            path.unlink()
            continue
        found = True
        day = _DAY.search(str(path.relative_to(table)))
        where = str(path.relative_to(table))
        yield DataFile(where, rows, path.stat().st_size, day.group(1) if day else "")


def _sync_tree(directory: Path) -> None:
    if not directory.exists():
        return
    for path in (directory, *directory.rglob("*")):
        sync(path)
    sync(directory.parent)


def check_version(store: TableStore, table: RawTable) -> None:
    """Raise unless the stored table can be read with, and appended to by, this version."""
    manifest = store.manifest(table.name)
    if manifest is None:
        return
    if manifest.schema_version > table.version:
        raise CoterieError(
            f"table {table.name!r} in {store.root} has schema version {manifest.schema_version},"
            f" this Coterie knows {table.version}; update Coterie or choose another --out"
        )
    now = {column.name: str(column.type) for column in table.schema}
    for name, kind in manifest.columns:
        if now.get(name) != kind:
            changed = f"is {now[name]} now" if name in now else "is gone"
            raise CoterieError(
                f"table {table.name!r} in {store.root} has schema version"
                f" {manifest.schema_version}, in which {name!r} is {kind}; in version"
                f" {table.version} it {changed}. Read the cluster into another --out"
            )


def check_mart(store: TableStore, name: str) -> None:
    """Raise unless the mart is there, in this version."""
    manifest = store.manifest(name)
    if manifest is None:
        there = ", ".join(store.tables) or "none"
        raise CoterieError(
            f"there is no table {name!r} in {store.root}; there are {there}"
            " (`coterie pipeline build` makes the marts)"
        )
    if manifest.schema_version != MART_VERSION:
        raise CoterieError(
            f"mart {name!r} in {store.root} was made by another version of Coterie;"
            " run `coterie pipeline build`"
        )
