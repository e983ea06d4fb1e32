"""What became of transactional commits, also where the marker is far behind or was never written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.datasets import outcomes, segments
from coterie.datasets.chunks import Chunk, parse
from coterie.datasets.log import LogQuery, LogRange, SegmentSource, read_log
from coterie.protocol.records import RecordBatch
from coterie.protocol.records.batch import TRANSACTIONAL_FLAG_MASK
from coterie.protocol.records.control import ControlRecordType, control_batch
from tests.kit.offsets_log import batch_of, commit, write_segment

pytestmark = pytest.mark.usefixtures("readers")

COMMIT, ABORT = ControlRecordType.COMMIT, ControlRecordType.ABORT


def transactional(offset: int, producer: int) -> bytes:
    like = RecordBatch(attributes=TRANSACTIONAL_FLAG_MASK, producer_id=producer, producer_epoch=0)
    return batch_of([commit()], offset, like=like)


def marker(offset: int, producer: int, kind: ControlRecordType) -> bytes:
    built = control_batch(
        kind, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp=1
    ).encode()
    return offset.to_bytes(8, "big") + built[8:]


def read(root: Path, stop: int | None = None) -> dict[int, str | None]:
    source = SegmentSource.at(str(root))
    wanted = LogRange(ending={} if stop is None else {0: stop})
    batches = read_log(source, LogQuery("commits", ("offset", "outcome")), source.slices(wanted))
    table = pa.Table.from_batches(batches)
    return dict(
        zip(*(table.column(name).to_pylist() for name in ("offset", "outcome")), strict=True)
    )


def test_each_commit_has_the_first_marker_of_its_producer_behind_it(tmp_path: Path) -> None:
    log = [
        transactional(0, 7),
        transactional(1, 8),
        marker(2, 7, COMMIT),
        batch_of([commit()], 3),
        transactional(4, 7),
        marker(5, 8, ABORT),
        marker(6, 7, ABORT),
        transactional(7, 7),
    ]
    write_segment(tmp_path, 0, b"".join(log))
    assert read(tmp_path) == {0: "committed", 1: "aborted", 3: None, 4: "aborted", 7: "open"}


def test_a_range_looks_for_markers_behind_its_end(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, transactional(0, 7) + transactional(1, 8))
    write_segment(tmp_path, 0, marker(2, 7, COMMIT) + marker(3, 8, ABORT), base_offset=2)
    assert read(tmp_path, stop=1) == {0: "committed"}
    assert read(tmp_path, stop=2) == {0: "committed", 1: "aborted"}


@pytest.mark.parametrize("most_held", [1, 100], ids=["searched", "held"])
def test_a_marker_many_chunks_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_held: int
) -> None:
    monkeypatch.setattr(segments, "_CHUNK", 200)
    monkeypatch.setattr(outcomes, "_MOST_HELD", most_held)
    between = [batch_of([commit()], offset) for offset in range(1, 60)]
    log = [transactional(0, 7), *between, marker(60, 7, COMMIT), transactional(61, 9)]
    write_segment(tmp_path, 0, b"".join(log))
    found = read(tmp_path)
    assert list(found) == [*range(60), 61]
    assert (found[0], found[30], found[61]) == ("committed", None, "open")


def ended_at_once(count: int) -> list[bytes]:
    """Each chunk has a transaction of its own, and all markers are at the end."""
    begun = [transactional(offset, offset) for offset in range(count)]
    return begun + [marker(count + each, each, COMMIT) for each in range(count)]


def never_ended(count: int) -> list[bytes]:
    return [transactional(offset, offset) for offset in range(2 * count)]


def ended_later(count: int) -> list[bytes]:
    """The marker of each is so far behind that it has to be looked for."""
    log = [transactional(offset, offset) for offset in range(30)]
    for offset in range(30, 2 * count, 2):
        log.append(marker(offset, offset - 30, ABORT))
        log.append(transactional(offset + 1, offset + 1))
    return log


@pytest.mark.parametrize("make", [ended_at_once, never_ended, ended_later])
@pytest.mark.parametrize("count", [45, 90, 180])
def test_no_part_of_a_log_is_searched_twice(make: Callable[[int], list[bytes]], count: int) -> None:
    log = [parse(0, data, 0, None) for data in make(count)]
    searched: list[int] = []

    def look_ahead(partition: int, offset: int) -> Iterator[Chunk]:
        for index in range(offset, len(log)):
            searched.append(index)
            yield log[index]

    found = list(outcomes.decided(log, look_ahead))
    assert [chunk for chunk, _ in found] == log
    assert len(searched) == len(set(searched))
    # As by one search from each record on.
    for chunk, outcome in found[::7]:
        [(_, alone)] = outcomes.decided([chunk], lambda _, offset: iter(log[offset:]))
        assert outcome.tolist() == alone.tolist()


def test_what_is_written_while_a_log_is_read_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end that a search came to may not be the end of the log any more."""
    monkeypatch.setattr(outcomes, "_MOST_HELD", 1)
    data = [transactional(0, 1), transactional(1, 2), transactional(2, 3), transactional(3, 4)]
    data += [marker(4 + each, each, COMMIT) for each in (3, 4)]
    log = [parse(0, each, 0, None) for each in data]
    ends = [2, 6]

    def look_ahead(partition: int, offset: int) -> Iterator[Chunk]:
        yield from log[offset : ends.pop(0)]

    found = outcomes.decided(log[:4], look_ahead)
    assert [outcome.tolist() for _, outcome in found] == [
        [outcomes.OPEN],
        [outcomes.OPEN],
        [outcomes.COMMITTED],
        [outcomes.COMMITTED],
    ]


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from(["commit", "txn", "COMMIT", "ABORT"])),
        min_size=1,
        max_size=40,
    ),
    st.integers(100, 2000),
    st.integers(1, 5),
)
def test_any_log_has_the_outcomes_that_its_markers_say(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, str]],
    chunk: int,
    most_held: int,
) -> None:
    root = tmp_path_factory.mktemp("log")
    log: list[bytes] = []
    expected: dict[int, str | None] = {}
    for offset, (producer, step) in enumerate(steps):
        if step == "commit":
            log.append(batch_of([commit()], offset))
            expected[offset] = None
        elif step == "txn":
            log.append(transactional(offset, producer))
            ends = [kind for who, kind in steps[offset:] if who == producer and kind.isupper()]
            words = {"COMMIT": "committed", "ABORT": "aborted"}
            expected[offset] = words[ends[0]] if ends else "open"
        else:
            log.append(marker(offset, producer, ControlRecordType[step]))
    write_segment(root, 0, b"".join(log))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "_CHUNK", chunk)
        patch.setattr(outcomes, "_MOST_HELD", most_held)
        if expected:
            assert read(root) == expected
