"""Schemas change: what of an older table can still be read, and what is refused in a sentence.

New columns are no trouble: they are null in older files. A table whose columns were renamed or retyped since
is refused, as is one from a newer Coterie. Marts of another version are not read: `build` makes them anew.
"""

from __future__ import annotations

from coterie.errors import CoterieError
from coterie.spark.pipeline.store import TableStore
from coterie.spark.pipeline.tables import MART_VERSION, RawTable

__all__ = ["check_mart", "check_version"]


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
                f" {table.version} it {changed}. Read the cluster anew into another --out"
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
