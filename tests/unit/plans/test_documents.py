"""Files for people: in directories where others write, too."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.errors import CoterieError
from coterie.plans.documents import save_bytes


def names(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


def test_a_neighbour_of_any_name_stays_as_it_is(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep me")
    (tmp_path / "linked.json.new").symlink_to(precious)
    (tmp_path / "plan.json.new").write_text("me too")
    for name in ("linked.json", "plan.json"):
        save_bytes(tmp_path / name, b"{}\n")
        assert (tmp_path / name).read_bytes() == b"{}\n"
        assert not (tmp_path / name).is_symlink()
    assert precious.read_text() == "keep me"
    assert (tmp_path / "linked.json.new").is_symlink()
    assert (tmp_path / "plan.json.new").read_text() == "me too"
    assert len(names(tmp_path)) == 5


def test_a_full_disk_leaves_nothing_behind_and_the_old_file_in_place(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("before")
    program = (
        "import sys; from pathlib import Path; from coterie.plans.documents import save_bytes; "
    )
    program += "save_bytes(Path(sys.argv[1]), bytes(100_000))"
    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 10; "$@"', "-", sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.endswith("plan.json cannot be written: File too large\n")
    assert names(tmp_path) == ["plan.json"]
    assert path.read_text() == "before"


def test_a_name_that_cannot_be_taken_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(CoterieError, match="taken cannot be written: Is a directory"):
        save_bytes(tmp_path / "taken", b"{}")
    assert names(tmp_path) == ["taken"]
    with pytest.raises(CoterieError, match="No such file or directory"):
        save_bytes(tmp_path / "nowhere" / "plan.json", b"{}")


@pytest.mark.parametrize(("private", "mode"), [(False, 0o640), (True, 0o600)])
def test_who_may_read_it(tmp_path: Path, private: bool, mode: int) -> None:
    before = os.umask(0o022)
    try:
        save_bytes(tmp_path / "f", b"", private=private)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == mode
