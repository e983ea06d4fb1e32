"""Where a simulation goes: whole or not at all, whatever the place is and whoever else wants it."""

from __future__ import annotations

import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.errors import CoterieError, InvalidArgument
from coterie.simulation import simulate
from coterie.simulation.destination import whole_or_nothing

ENTRIES = {"__consumer_offsets-0", "end_offsets", "meta.properties", "truth"}


def small(directory: Path) -> None:
    simulate(directory, groups=1, hours=1, seed=1, partitions=1)


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def into(directory: Path, meanwhile: Callable[[], object], *others: str) -> None:
    """Make a directory with a file or more, while something else happens."""
    with whole_or_nothing(directory) as building:
        for name in ("file", *others):
            (building / name).write_text("ours")
        meanwhile()


def existing(home: Path) -> Path:
    place = home / "empty"
    place.mkdir()
    return place


def link(home: Path) -> Path:
    place = home / "link"
    place.symlink_to(existing(home))
    return place


def dangling(home: Path) -> Path:
    place = home / "dangling"
    place.symlink_to(home / "deep" / "new")
    return place


def deep(home: Path) -> Path:
    return home / "not" / "yet" / "there"


@pytest.mark.parametrize("place", [existing, link, dangling, deep])
def test_new_and_empty_directories(tmp_path: Path, place: Callable[[Path], Path]) -> None:
    out = place(tmp_path)
    small(out)
    assert names(out) == ENTRIES
    assert not list(tmp_path.rglob(".simulation*"))


def test_the_directory_that_one_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small(Path())
    assert names(Path()) == ENTRIES


def test_a_directory_that_is_there_stays_the_same(tmp_path: Path) -> None:
    """As one must that is a mount point."""
    place = existing(tmp_path)
    before = place.stat().st_ino
    small(place)
    assert place.stat().st_ino == before


def test_a_new_directory_is_open_to_others_as_any_is(tmp_path: Path) -> None:
    into(tmp_path / "sim", lambda: None)
    (tmp_path / "other").mkdir()
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("sim", "other")]
    assert modes[0] == modes[1]


def test_places_that_cannot_be_are_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for name, said in {
        "file": "file is there already: name a directory that is new or empty",
        "circle": "circle is there already",
        "file/below": "below cannot be written: Not a directory",
        "x" * 300: "cannot be written: File name too long",
    }.items():
        with pytest.raises(CoterieError, match=said), whole_or_nothing(tmp_path / name):
            pytest.fail("this is where the work would be")
    assert names(tmp_path) == {"file", "circle"}


def test_of_two_at_once_the_second_is_told(tmp_path: Path) -> None:
    out = tmp_path / "sim"
    with pytest.raises(InvalidArgument, match="sim was made meanwhile, perhaps by another"):
        into(out, lambda: small(out))
    assert names(out) == ENTRIES
    assert names(tmp_path) == {"sim"}


def test_of_two_at_once_in_an_empty_directory_only_one_begins(tmp_path: Path) -> None:
    def second() -> None:
        with pytest.raises(InvalidArgument, match=r"another simulation .* remove .*/\.simulation$"):
            small(tmp_path)

    into(tmp_path, second)
    assert names(tmp_path) == {"file"}


def test_many_at_once_leave_one_that_is_whole(tmp_path: Path) -> None:
    """All are ready before the first one ends."""
    ready = threading.Barrier(4)
    refused = []

    def one(number: int) -> None:
        try:
            with whole_or_nothing(tmp_path / "sim") as building:
                for name in "abc":
                    (building / name).write_text(str(number))
                ready.wait()
        except InvalidArgument as error:
            refused.append(error)

    threads = [threading.Thread(target=one, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 3
    assert names(tmp_path) == {"sim"}
    assert len({(tmp_path / "sim" / name).read_text() for name in "abc"}) == 1


def test_what_others_put_there_meanwhile_is_left_alone(tmp_path: Path) -> None:
    def other() -> None:
        (tmp_path / "file").write_text("theirs")

    with pytest.raises(InvalidArgument, match="holds 'file': name a directory"):
        into(tmp_path, other)
    assert names(tmp_path) == {"file"}
    assert (tmp_path / "file").read_text() == "theirs"


def test_entries_that_were_moved_go_back_if_one_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def fails(path: Path, to: Path) -> Path:
        if path.name == "second" and to.parent == tmp_path:
            raise OSError(28, "No space left on device")
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(CoterieError, match="No space left"):
        into(tmp_path, lambda: None, "second")
    assert not names(tmp_path)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("disk full")])
@pytest.mark.parametrize("place", [existing, deep])
def test_after_an_error_nothing_is_left(
    tmp_path: Path, place: Callable[[Path], Path], error: BaseException
) -> None:
    out = place(tmp_path)
    before = set(tmp_path.rglob("*"))

    def fail() -> None:
        raise error

    with pytest.raises((KeyboardInterrupt, CoterieError)):
        into(out, fail)
    assert set(tmp_path.rglob("*")) == before


def test_ctrl_c_while_processes_work_leaves_nothing(tmp_path: Path) -> None:
    """They have ended before what they wrote is removed."""

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(tmp_path / "sim", groups=40, hours=2, seed=1, workers=2, progress=interrupt)
    assert not names(tmp_path)
