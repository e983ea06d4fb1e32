"""The file systems behind storage behave alike: the operating system's, the one in memory, the faulty one."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from coterie.storage import FileSystem, MemoryFileSystem, OsFileSystem, StorageLocked
from tests.kit.fault_fs import FaultFS, PowerCut


@pytest.fixture(params=["os", "memory", "fault"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileSystem, Path]:
    if request.param == "os":
        return OsFileSystem(), tmp_path / "data"
    return (MemoryFileSystem() if request.param == "memory" else FaultFS()), Path("/data")


def test_reads_what_was_written(place: tuple[FileSystem, Path]) -> None:
    fs, root = place
    fs.mkdir(root / "a")
    fs.mkdir(root / "a")
    file = fs.open(root / "a" / "f", create=True)
    file.pwrite(b"hello", 3)
    file.pwrite(memoryview(b"xyz"), 1)
    assert file.size() == 8
    assert file.pread(100, 0) == b"\0xyzello"
    assert file.pread(2, 3) == b"ze"
    assert file.pread(2, 100) == b""
    file.truncate(4)
    file.truncate(6)
    file.sync()
    fs.sync_files([file, fs.open(root / "a" / "g", create=True)])
    assert fs.open(root / "a" / "f").pread(100, 0) == b"\0xyz\0\0"
    file.close()
    file.close()


def test_names(place: tuple[FileSystem, Path]) -> None:
    fs, root = place
    fs.mkdir(root / "d")
    for name in ("b", "a"):
        fs.open(root / "d" / name, create=True).pwrite(name.encode(), 0)
    assert fs.listdir(root / "d") == ["a", "b"]
    fs.rename(root / "d" / "a", root / "d" / "b")
    assert fs.listdir(root / "d") == ["b"]
    assert fs.open(root / "d" / "b").pread(9, 0) == b"a"
    fs.rename(root / "d", root / "e")
    fs.sync_directory(root)
    assert fs.listdir(root) == ["e"]
    assert fs.open(root / "e" / "b").pread(9, 0) == b"a"
    with pytest.raises(OSError, match="not empty"):
        fs.rmdir(root / "e")
    fs.unlink(root / "e" / "b")
    fs.rmdir(root / "e")
    assert not fs.exists(root / "e")


def test_what_is_missing_is_said_so(place: tuple[FileSystem, Path]) -> None:
    fs, root = place
    fs.mkdir(root)
    missing = root / "none"
    for call in (
        lambda: fs.open(missing),
        lambda: fs.open(missing / "f", create=True),
        lambda: fs.listdir(missing),
        lambda: fs.rename(missing, root / "other"),
        lambda: fs.unlink(missing),
    ):
        with pytest.raises(FileNotFoundError):
            call()
    assert not fs.exists(missing / "f")


def test_a_lock_is_held_once(place: tuple[FileSystem, Path]) -> None:
    fs, root = place
    fs.mkdir(root)
    lock = fs.lock(root / ".lock")
    with pytest.raises(StorageLocked) as caught:
        fs.lock(root / ".lock")
    assert caught.value.pid == os.getpid()
    lock.release()
    lock.release()
    fs.lock(root / ".lock").release()


def test_a_lock_file_without_a_pid(tmp_path: Path) -> None:
    fs = OsFileSystem()
    lock = fs.lock(tmp_path / ".lock")
    (tmp_path / ".lock").write_bytes(b"")
    with pytest.raises(StorageLocked, match="another process") as caught:
        fs.lock(tmp_path / ".lock")
    assert caught.value.pid is None
    lock.release()


def test_short_reads_and_writes_are_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pread, pwrite = os.pread, os.pwrite
    monkeypatch.setattr(os, "pread", lambda fd, size, at: pread(fd, min(size, 3), at))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:3], at))
    file = OsFileSystem().open(tmp_path / "f", create=True)
    file.pwrite(b"0123456789", 0)
    assert file.pread(10, 0) == b"0123456789"
    assert file.pread(100, 5) == b"56789"
    file.close()


def test_a_failed_sync_among_many_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = OsFileSystem()
    files = [fs.open(tmp_path / str(n), create=True) for n in range(9)]
    left = iter(range(9))

    def fail_once(descriptor: int) -> None:
        if next(left) == 5:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fdatasync", fail_once)
    with pytest.raises(OSError, match="Input/output"):
        fs.sync_files(files)
    for file in files:
        file.close()


class TestFaultFS:
    """The kit's own promises."""

    def disk(self) -> FaultFS:
        fs = FaultFS()
        fs.mkdir(Path("/d"))
        fs.sync_directory(Path("/"))
        return fs

    def test_only_what_is_synced_is_sure_to_stay(self) -> None:
        fs = self.disk()
        file = fs.open(Path("/d/f"), create=True)
        file.pwrite(b"x" * 1500, 0)
        names, contents = set(), set()
        for seed in range(200):
            after = fs.crash(seed)
            names.add(after.exists(Path("/d/f")))
        assert names == {True, False}
        fs.sync_directory(Path("/d"))
        for seed in range(200):
            content = fs.crash(seed).open(Path("/d/f")).pread(2000, 0)
            contents.add(content)
            sectors = {content[:512], content[512:1024], content[1024:]}
            assert sectors <= {b"", b"x" * 512, b"x" * 476, bytes(512)}
        assert {b"", b"x" * 1500} < contents
        assert len(contents) == 8  # each of three sectors, or not
        file.sync()
        assert {fs.crash(s).open(Path("/d/f")).size() for s in range(50)} == {1500}

    def test_renames_are_whole(self) -> None:
        fs = self.disk()
        fs.open(Path("/d/a"), create=True)
        fs.sync_directory(Path("/d"))
        fs.rename(Path("/d/a"), Path("/d/b"))
        seen = {tuple(fs.crash(seed).listdir(Path("/d"))) for seed in range(50)}
        assert seen == {("a",), ("b",)}

    def test_failures_come_when_asked_for(self) -> None:
        fs = self.disk()
        file = fs.open(Path("/d/f"), create=True)
        fs.fail("pwrite", errno.ENOSPC, at=2, times=1)
        file.pwrite(b"1234", 0)
        with pytest.raises(OSError, match="No space"):
            file.pwrite(b"5678", 4)
        assert file.pread(10, 0) == b"123456"
        file.pwrite(b"5678", 4)
        assert fs.calls["pwrite"] == 3

    def test_power_stays_off(self) -> None:
        fs = self.disk()
        file = fs.open(Path("/d/f"), create=True)
        fs.cut_power_at(2)
        file.pwrite(b"1234", 0)
        for _ in range(2):
            with pytest.raises(PowerCut):
                file.sync()
        assert fs.kill().open(Path("/d/f")).pread(9, 0) == b"1234"
