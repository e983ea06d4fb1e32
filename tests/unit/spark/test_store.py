"""The table store: commits are whole or not at all, also when the process ends at any moment."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coterie.errors import CoterieError
from coterie.spark.pipeline import catalog
from coterie.spark.pipeline import store as store_module
from coterie.spark.pipeline.catalog import load_catalog
from coterie.spark.pipeline.store import TableStore, check_version, new_run_id
from coterie.spark.pipeline.tables import raw_table
from tests.unit.spark.tables import append, rows_of


class Killed(BaseException):
    """The process is gone: nothing that runs on the way out may be relied upon."""


def test_what_was_committed_is_there_and_nothing_else(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    append(store, day=0, rows=3, ingest={"offsets": {"0": 3}})
    append(store, day=1, rows=2, ingest={"offsets": {"0": 5}})
    again = TableStore(tmp_path)
    assert len(rows_of(again)) == 5
    assert again.state("ingest") == {"offsets": {"0": 5}}
    manifest = again.manifest("end_offsets")
    assert manifest is not None
    assert [file.day for file in manifest.files] == ["2026-03-01", "2026-03-02"]


def test_a_transaction_without_commit_never_happened(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    append(store, day=0, rows=3)
    with store.write() as transaction:
        directory = transaction.directory("end_offsets")
        directory.mkdir(parents=True)
        (directory / "half.parquet").write_bytes(b"PAR1 and then nothing")
    assert len(rows_of(TableStore(tmp_path))) == 3
    append(store, day=1, rows=1)
    assert not directory.exists()


def _kill_at(monkeypatch: pytest.MonkeyPatch, number: int) -> Callable[[], int]:
    """Raise Killed at the n-th sync or rename; how many there were."""
    seen = 0

    def counted(call: Callable[..., object]) -> Callable[..., object]:
        def one(*arguments: object, **named: object) -> object:
            nonlocal seen
            seen += 1
            if seen == number:
                raise Killed
            return call(*arguments, **named)

        return one

    monkeypatch.setattr(os, "fsync", counted(os.fsync))
    monkeypatch.setattr(Path, "replace", counted(Path.replace))
    return lambda: seen


def test_killed_at_every_step_of_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the moment: the old rows, or the new rows; and the next run makes it the new rows."""
    append(TableStore(tmp_path / "whole"), day=0, rows=3)
    with monkeypatch.context() as patch:
        steps = _kill_at(patch, 0)
        append(TableStore(tmp_path / "whole"), day=1, rows=2)
    outcomes = set()
    for number in range(1, steps() + 1):
        root = tmp_path / str(number)
        append(TableStore(root), day=0, rows=3, step={"next": 3})
        with monkeypatch.context() as patch:
            _kill_at(patch, number)
            with pytest.raises(Killed):
                append(TableStore(root), day=1, rows=2, step={"next": 5})
        store = TableStore(root)
        rows = len(rows_of(store))
        assert (rows, store.state("step")["next"]) in {(3, 3), (5, 5)}
        outcomes.add(rows)
        if rows == 3:
            append(store, day=1, rows=2, step={"next": 5})
        append(store, day=2, rows=0)
        assert len(rows_of(store)) == 5
        assert _files(root) == set(store.paths("end_offsets"))
    assert outcomes == {3, 5}


def test_killed_at_every_step_of_the_first_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Manifests that no catalog names are there, but there was no commit: the directory is used again."""
    with monkeypatch.context() as patch:
        steps = _kill_at(patch, 0)
        append(TableStore(tmp_path / "whole"), day=0, rows=3)
    manifests = 0
    for number in range(1, steps() + 1):
        root = tmp_path / str(number)
        with monkeypatch.context() as patch:
            _kill_at(patch, number)
            with pytest.raises(Killed):
                append(TableStore(root), day=0, rows=3)
        store = TableStore(root)
        if not store.tables:
            manifests += len(list(root.glob("*/manifest-*.json")))
            append(store, day=0, rows=3)
        assert len(rows_of(store)) == 3
        assert _files(root) == set(store.paths("end_offsets"))
    assert manifests


@pytest.mark.parametrize("commits", [1, 2])
def test_a_lost_catalog_is_no_empty_store(tmp_path: Path, commits: int) -> None:
    for day in range(commits):
        append(TableStore(tmp_path), day=day, rows=3)
    opened = TableStore(tmp_path)
    before = _files(tmp_path)
    (tmp_path / catalog.CATALOG).unlink()
    with pytest.raises(CoterieError, match=r"catalog\.json is gone, but .*bring .* or choose"):
        TableStore(tmp_path)
    with pytest.raises(CoterieError, match="is gone"):
        append(opened, day=9, rows=1)
    assert _files(tmp_path) == before


def test_a_catalog_that_comes_while_we_look_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(TableStore(tmp_path), day=0, rows=3)
    answers = iter([None, load_catalog(tmp_path)])
    monkeypatch.setattr(store_module, "load_catalog", lambda _: next(answers))
    assert len(rows_of(TableStore(tmp_path))) == 3


def test_a_reader_has_its_manifests_when_it_has_the_catalog(tmp_path: Path) -> None:
    writer = TableStore(tmp_path)
    append(writer, day=0, rows=3)
    reader = TableStore(tmp_path)
    for day in range(1, 4):
        append(writer, day=day, rows=1)
    assert not (tmp_path / "end_offsets" / "manifest-00000001.json").exists()
    assert len(rows_of(reader)) == 3


def test_commits_between_catalog_and_manifests_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = TableStore(tmp_path)
    append(writer, day=0, rows=3)
    old = writer.catalog
    for day in range(1, 4):
        append(writer, day=day, rows=1)
    answers = iter([old, writer.catalog])
    monkeypatch.setattr(store_module, "load_catalog", lambda _: next(answers))
    assert len(rows_of(TableStore(tmp_path))) == 6


def test_a_manifest_that_is_gone_for_good_is_a_sentence(tmp_path: Path) -> None:
    append(TableStore(tmp_path), day=0, rows=3)
    (tmp_path / "end_offsets" / "manifest-00000001.json").unlink()
    with pytest.raises(CoterieError, match="is gone, though the catalog names it; bring it back"):
        TableStore(tmp_path)


def _files(root: Path) -> set[str]:
    return {str(path) for path in root.rglob("*.parquet")}


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with (
        TableStore(tmp_path).write(),
        pytest.raises(CoterieError, match=rf"another run \(process {os.getpid()}\) is writing"),
        TableStore(tmp_path).write(),
    ):
        pass


def test_a_reader_keeps_its_version_over_one_commit(tmp_path: Path) -> None:
    writer = TableStore(tmp_path)
    append(writer, day=0, rows=3)
    reader = TableStore(tmp_path)
    table = raw_table("end_offsets")
    with writer.write() as transaction:
        transaction.replace("end_offsets", table.schema, table.version)
        transaction.commit()
    assert len(rows_of(reader)) == 3
    assert not rows_of(writer)


#: Each could be taken for a file of the store, by a part of its name or by where it is.
FILES_OF_OTHERS = (
    "notes/manifest-v3.json",
    "notes/keep.txt",
    "notes/thesis/a",
    "notes/20260301T000000-not-a-run/x.parquet",
    "commits.bak/manifest-00000001.json",
    "commits.bak/20260301T000000-0a1b2c3d/x.parquet",
    "end_offsets/part-0.parquet",
    "end_offsets/manifest.md",
    "end_offsets/.manifest-00000001.json",
    "lag/manifest-v3.json",
    "lag/thesis/a",
)


def test_what_else_lies_in_the_directory_stays(tmp_path: Path) -> None:
    for name in FILES_OF_OTHERS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"mine")
    for day in range(3):
        append(TableStore(tmp_path), day=day, rows=1)
    assert all((tmp_path / name).read_bytes() == b"mine" for name in FILES_OF_OTHERS)


@pytest.mark.parametrize("table", ["commits", "lag", ".beside"])
def test_what_a_killed_run_left_goes(tmp_path: Path, table: str) -> None:
    append(TableStore(tmp_path), day=0, rows=1)
    home = tmp_path / table
    run = home / new_run_id()
    run.mkdir(parents=True)
    (run / "x.parquet").write_bytes(b"half")
    (home / "manifest-00000002.json").write_bytes(b"{}")
    (home / "manifest-00000003.json.0123456789abcdef.new").write_bytes(b"")
    catalog = tmp_path / "catalog.json.0123456789abcdef.new"
    catalog.write_bytes(b"")
    append(TableStore(tmp_path), day=1, rows=1)
    assert list(home.iterdir()) == []
    assert not catalog.exists()


def test_a_directory_that_cannot_be_listed_is_no_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("lost+found", "lag"):
        (tmp_path / name).mkdir()
    listing = Path.iterdir

    def refused(path: Path) -> Iterator[Path]:
        if path.name in {"lost+found", "lag"}:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listing(path)

    monkeypatch.setattr(Path, "iterdir", refused)
    append(TableStore(tmp_path), day=0, rows=1)
    assert len(rows_of(TableStore(tmp_path))) == 1


def test_a_newer_store_is_refused(tmp_path: Path) -> None:
    append(TableStore(tmp_path), day=0, rows=1)
    path = tmp_path / catalog.CATALOG
    path.write_text(json.dumps({"format": 99, "tables": "differently"}))
    with pytest.raises(CoterieError, match="newer Coterie"):
        TableStore(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b'{"name": "not ours"}', b'{"version": 1, "tables": 3}', b"\xff\x00"],
)
def test_a_damaged_catalog_is_a_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / catalog.CATALOG).write_bytes(content)
    with pytest.raises(CoterieError, match=r"is damaged: .*; bring it back from a copy, or choose"):
        load_catalog(tmp_path)


def _with_manifest(store: TableStore, **changes: object) -> TableStore:
    path = store.root / store.catalog.tables["end_offsets"]
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return TableStore(store.root)


def test_schema_versions(tmp_path: Path) -> None:
    table = raw_table("end_offsets")
    store = TableStore(tmp_path)
    append(store, day=0, rows=1)
    check_version(store, table)
    fewer = [[column.name, str(column.type)] for column in table.schema][:-1]
    check_version(
        _with_manifest(store, columns=fewer), table
    )  # a column came since: null in old rows
    with pytest.raises(CoterieError, match=r"'old_name' is int32; in version 1 it is gone"):
        check_version(_with_manifest(store, columns=[*fewer, ["old_name", "int32"]]), table)
    with pytest.raises(CoterieError, match=r"'log_end' is int32; in version 1 it is int64 now"):
        check_version(_with_manifest(store, columns=[*fewer, ["log_end", "int32"]]), table)
    with pytest.raises(CoterieError, match=r"has schema version 7, this Coterie knows 1"):
        check_version(_with_manifest(store, schema_version=7), table)


def test_no_tables_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CoterieError, match="there are no tables in"):
        TableStore(tmp_path / "nothing").must_exist()
