"""Where a simulation goes: a directory of its own while it is made, and its place when it is whole.

A new directory is made beside its place and renamed. One that is there and empty stays the directory it is,
since it may be a mount point, or where the user's shell stands; what was made inside it moves up.

Who is killed leaves what was made so far: `.simulation-*` beside the place, or `.simulation` in it, which the
next simulation is told. It stays: nobody can know whether somebody still writes there.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from coterie.errors import CoterieError, InvalidArgument

__all__ = ["whole_or_nothing"]

#: To make it is to claim the directory: of two simulations at once only one can.
_CLAIM: Final = ".simulation"
_TAKEN: Final = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)


@contextmanager
def whole_or_nothing(directory: Path) -> Iterator[Path]:
    """A directory to write to; at the end all of it is in `directory`, and after an error nothing is.

    What can be refused is refused at the beginning, before there is any work to lose.
    """
    place = Path(os.path.realpath(directory))
    try:
        with _inside(place) if place.is_dir() else _beside(place) as building:
            yield building
    except OSError as error:
        cause = error.strerror or error
        raise CoterieError(f"{directory} cannot be written: {cause}; name another place") from error


@contextmanager
def _inside(place: Path) -> Iterator[Path]:
    """For a directory that is there."""
    _must_be_empty(place)
    building = place / _CLAIM
    try:
        building.mkdir()
    except FileExistsError:
        raise _occupied(place) from None
    try:
        _must_be_empty(place)  # another simulation may have ended before we had the claim
        yield building
        _must_be_empty(place)
        _move_up(building, place)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _must_be_empty(place: Path) -> None:
    """Except for our claim, which is not there before we make it."""
    found = sorted({each.name for each in place.iterdir()} - {_CLAIM})
    if found:
        raise InvalidArgument(f"{place} holds {found[0]!r}: name a directory that is new or empty")


def _occupied(place: Path) -> InvalidArgument:
    return InvalidArgument(
        f"another simulation writes to {place}, or was killed there: wait for it, or remove"
        f" {place / _CLAIM}"
    )


def _move_up(building: Path, place: Path) -> None:
    names = sorted(each.name for each in building.iterdir())
    try:
        for name in names:
            (building / name).rename(place / name)
    except BaseException:
        for name in names:
            if not (building / name).exists():
                (place / name).rename(building / name)
        raise


@contextmanager
def _beside(place: Path) -> Iterator[Path]:
    """For a directory that is to be made."""
    if os.path.lexists(place):  # a file, or a link that leads in a circle
        raise InvalidArgument(f"{place} is there already: name a directory that is new or empty")
    made = _make(place.parent)
    try:
        # Only its owner may look into a temporary directory; the one inside it is like any other.
        home = Path(tempfile.mkdtemp(prefix=f"{_CLAIM}-", dir=place.parent))
        try:
            building = home / place.name
            building.mkdir()
            yield building
            _rename(building, place)
        finally:
            shutil.rmtree(home, ignore_errors=True)
    except BaseException:
        for parent in made:
            with suppress(OSError):  # not empty: somebody uses it by now
                parent.rmdir()
        raise


def _make(directory: Path) -> list[Path]:
    """Make a directory and what is above it; those that were not there, the innermost first."""
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    if missing:  # else it may be a file, of which whoever writes into it says more
        directory.mkdir(parents=True, exist_ok=True)
    return missing


def _rename(building: Path, place: Path) -> None:
    try:
        building.rename(place)
    except OSError as error:
        if error.errno not in _TAKEN:
            raise
        raise InvalidArgument(
            f"{place} was made meanwhile, perhaps by another simulation, and is left as it is:"
            " name another directory"
        ) from None
