"""Files that are replaced as a whole: the old content or the new, at whatever step the process ends."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.files import UNFINISHED, replace_file

OLD, NEW = b"old\n" * 1000, b"new\n" * 2000
PROGRAM = """
import sys
from pathlib import Path
from coterie.files import replace_file
replace_file(Path(sys.argv[1]), b"new\\n" * 2000)
"""


def replace_and_die(path: Path, point: str) -> int:
    """Replace the file in a process that ends at a crash point; its exit code."""
    environment = {**os.environ, "COTERIE_CRASH_AT": point}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)], env=environment, check=False
    ).returncode


@pytest.mark.parametrize(
    ("point", "content"),
    [("file.mid_write", OLD), ("file.before_rename", OLD), ("file.after_rename", NEW)],
)
def test_a_process_that_is_killed_leaves_one_of_both(
    tmp_path: Path, point: str, content: bytes
) -> None:
    path = tmp_path / "catalog.json"
    path.write_bytes(OLD)
    assert replace_and_die(path, point) == 137
    assert path.read_bytes() == content
    left = {each.name for each in tmp_path.iterdir()} - {path.name}
    assert all(re.fullmatch(rf"catalog\.json{UNFINISHED}", name) for name in left)
    replace_file(path, NEW)  # what is left is not in the way
    assert path.read_bytes() == NEW


def test_the_content_is_synced_before_the_rename_and_the_name_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power loss between two steps then leaves the old content or the new."""
    steps: list[str] = []
    path = tmp_path / "plan.json"
    replace, fsync, fdatasync = Path.replace, os.fsync, os.fdatasync

    def named(self: Path, target: Path) -> Path:
        steps.append(f"rename {self.read_bytes() == NEW}")
        return replace(self, target)

    def synced(descriptor: int) -> None:
        kind = "directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        steps.append(f"sync {kind} {os.fstat(descriptor).st_size >= len(NEW)}")
        (fsync if kind == "directory" else fdatasync)(descriptor)

    monkeypatch.setattr(Path, "replace", named)
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "fdatasync", synced)
    replace_file(path, NEW)
    assert [step.rpartition(" ")[0] for step in steps] == ["sync file", "rename", "sync directory"]
    assert steps[:2] == ["sync file True", "rename True"]


@pytest.mark.parametrize(("mode", "expected"), [(0o600, 0o600), (0o640, 0o640), (0o666, 0o644)])
def test_a_new_file_has_the_mode_from_its_creation_on(
    tmp_path: Path, mode: int, expected: int
) -> None:
    """Also where a file that everyone could read is replaced."""
    path = tmp_path / "secret"
    path.write_bytes(OLD)
    path.chmod(0o666)
    before = os.umask(0o022)
    try:
        replace_file(path, NEW, mode=mode)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == expected
