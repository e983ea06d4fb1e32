"""The journal: rounds come back whole and in order, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.storage import MemoryFileSystem, StorageDamaged
from coterie.storage.journal import JOURNAL_NAME, SECTOR, Journal

ROOT = Path("/data")
SIZE = 8 * SECTOR


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.mkdir(ROOT)
    return fs


def reopen(fs: MemoryFileSystem) -> tuple[Journal, list[tuple[bytes, bytes]]]:
    journal, entries = Journal.open(fs, ROOT, SIZE)
    return journal, [(entry.name, bytes(entry.batch)) for entry in entries]


def test_entries_come_back_in_order(fs: MemoryFileSystem) -> None:
    journal, entries = reopen(fs)
    assert entries == []
    assert journal.is_empty
    rounds = [[(b"a-0", b"x" * 600), (b"b-1", b"")], [(b"a-0", b"y")], []]
    for one in rounds:
        journal.append(one)
        journal.sync()
    journal, entries = reopen(fs)
    assert entries == [entry for one in rounds for entry in one]
    assert not journal.is_empty
    journal.append([(b"c-2", b"z")])
    assert reopen(fs)[1][-1] == (b"c-2", b"z")


def test_a_restart_forgets_all_of_it(fs: MemoryFileSystem) -> None:
    journal, _ = reopen(fs)
    for n in range(5):
        journal.append([(b"a-0", b"%d" % n)])
    journal.restart()
    assert reopen(fs)[1] == []
    journal.append([(b"a-0", b"new")])
    assert reopen(fs)[1] == [(b"a-0", b"new")]


def test_it_is_as_large_as_asked_for_and_grows_only_for_one_large_round(
    fs: MemoryFileSystem,
) -> None:
    journal, _ = reopen(fs)
    file = fs.open(ROOT / JOURNAL_NAME)
    assert file.size() == SIZE
    assert journal.fits(10 * SIZE)
    journal.append([(b"a-0", b"x" * 10)])
    assert journal.fits(6 * SECTOR - 24)
    assert not journal.fits(6 * SECTOR - 23)
    journal.restart()
    journal.append([(b"a-0", b"x" * 2 * SIZE)])
    assert file.size() > 2 * SIZE
    assert reopen(fs)[1] == [(b"a-0", b"x" * 2 * SIZE)]


def test_a_torn_last_round_is_ignored_wherever_it_is_torn(fs: MemoryFileSystem) -> None:
    journal, _ = reopen(fs)
    journal.append([(b"a-0", b"first")])
    journal.append([(b"a-0", b"x" * 40), (b"b-0", b"y" * 1100)])
    file = fs.open(ROOT / JOURNAL_NAME)
    whole = file.pread(SIZE, 0)
    for position in range(2 * SECTOR, 2 * SECTOR + 1180):
        file.pwrite(bytes([whole[position] ^ 1]), position)
        assert reopen(fs)[1] == [(b"a-0", b"first")]
        file.pwrite(whole[position : position + 1], position)
    file.truncate(2 * SECTOR + 100)
    assert reopen(fs)[1] == [(b"a-0", b"first")]


def test_a_hole_before_a_later_round_is_damage(fs: MemoryFileSystem) -> None:
    journal, _ = reopen(fs)
    for n in range(4):
        journal.append([(b"a-0", b"%d" % n)])
    file = fs.open(ROOT / JOURNAL_NAME)
    for position in (2 * SECTOR, 2 * SECTOR + 15, 2 * SECTOR + 30):
        byte = file.pread(1, position)
        file.pwrite(bytes([byte[0] ^ 1]), position)
        with pytest.raises(StorageDamaged) as caught:
            reopen(fs)
        assert caught.value.position == 2 * SECTOR
        file.pwrite(byte, position)
    assert len(reopen(fs)[1]) == 4


def test_content_cannot_pass_for_a_round(fs: MemoryFileSystem) -> None:
    journal, _ = reopen(fs)
    journal.append([(b"a-0", b"old")])
    old = fs.open(ROOT / JOURNAL_NAME).pread(SECTOR, SECTOR)
    journal.restart()
    # A batch that holds, at a sector's start, a round of the life before; then the round is torn.
    header = 20 + 4 + 6 + 3
    journal.append([(b"a-0", b"x" * (SECTOR - header) + old)])
    fs.open(ROOT / JOURNAL_NAME).pwrite(b"torn", SECTOR + header)
    assert reopen(fs)[1] == []


@pytest.mark.parametrize("position", range(24))
def test_a_damaged_header_is_refused(fs: MemoryFileSystem, position: int) -> None:
    reopen(fs)
    file = fs.open(ROOT / JOURNAL_NAME)
    file.pwrite(bytes([file.pread(1, position)[0] ^ 1]), position)
    with pytest.raises(StorageDamaged):
        reopen(fs)


def test_an_empty_file_is_no_journal(fs: MemoryFileSystem) -> None:
    fs.open(ROOT / JOURNAL_NAME, create=True)
    with pytest.raises(StorageDamaged):
        reopen(fs)
