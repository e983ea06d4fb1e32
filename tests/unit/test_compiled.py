"""The compiled code by itself: it never reads or writes outside of what it was given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from coterie import compiled
from coterie.protocol.batch_layout import find_places
from tests.kit.offsets_log import batch_of, commit

#: What read_commits fills: rows, odd ones, seven numbers; then starts and bytes of four columns of text.
KINDS = (np.int64,) * 5 + (np.int32,) * 2 + (np.int16,) * 2 + (np.int32, np.uint8) * 4


def arguments(data: bytes, places: list[list[int]], room: int) -> list[Any]:
    rows = len(places[0])
    sizes = (rows,) * 9 + (rows + 1, room) * 4
    outputs = [np.zeros(size, kind) for size, kind in zip(sizes, KINDS, strict=True)]
    return [data, *(np.array(each, np.int64) for each in places), *outputs]


def test_places_outside_of_the_buffer_are_refused(native: compiled.Native) -> None:
    key, value = commit()
    data = key + value
    sound = [[0], [len(key)], [len(key)], [len(value)]]
    assert native.read_commits(*arguments(data, sound, 100))[:2] == (1, 0)
    for column, wrong in [(0, -1), (0, 2**62), (1, len(data) + 1), (2, -5), (3, 2**62), (3, 2**31)]:
        places = [list(each) for each in sound]
        places[column] = [wrong]
        with pytest.raises(ValueError, match="outside of the buffer"):
            native.read_commits(*arguments(data, places, 100))


def test_what_is_null_has_a_place_in_the_buffer_all_the_same(native: compiled.Native) -> None:
    key, _ = commit()
    assert native.read_commits(*arguments(key, [[0], [len(key)], [0], [-1]], 100))[:2] == (1, 0)
    for wrong in (-1, -(2**40), len(key) + 1, 2**62):
        with pytest.raises(ValueError, match="outside of the buffer"):
            native.read_commits(*arguments(key, [[0], [len(key)], [wrong], [-1]], 100))


def test_batches_outside_of_the_buffer_have_no_checksum(native: compiled.Native) -> None:
    batch = batch_of([commit()])
    assert native.join_checksums(batch, *ends(0, len(batch)), crc32c, b"")
    for wrong in [(0, len(batch) + 1), (-1, len(batch)), (1, -(2**63)), (2**62, 5), (0, 20)]:
        with pytest.raises(ValueError, match="outside of the buffer"):
            native.join_checksums(batch, *ends(*wrong), crc32c, b"")


def ends(start: int, stop: int) -> tuple[Any, Any]:
    return np.array([start], np.int64), np.array([stop], np.int64)


def test_columns_that_are_too_small_are_refused(native: compiled.Native) -> None:
    key, value = commit(metadata="some")
    places = [[0], [len(key)], [len(key)], [len(value)]]
    with pytest.raises(ValueError, match="too small"):
        native.read_commits(*arguments(key + value, places, 3))
    for index in range(1, 5):
        short = arguments(key + value, places, 100)
        short[index] = short[index][:0]
        with pytest.raises(ValueError, match="too small"):
            native.read_commits(*short)
    with pytest.raises(TypeError, match="buffers are wanted"):
        native.read_commits(b"")
    with pytest.raises((TypeError, BufferError)):
        native.read_commits(*[None] * 22)


def test_counts_that_do_not_fit_are_no_records(native: compiled.Native) -> None:
    batch = batch_of([commit(), commit()])
    fields = np.empty((6, 2), np.int64)

    def found(start: int, end: int, count: int) -> bool:
        of_batch = (np.array([each]) for each in (start, end, count, 0, 0))
        return native.find_records(batch, *of_batch, fields)

    assert found(61, len(batch), 2)
    for wrong in [(-1, 5, 0), (61, 60, 0), (61, len(batch) + 1, 2), (61, len(batch), 3)]:
        assert not found(*wrong)
    assert not found(61, len(batch), 1)
    assert not found(61, len(batch), -1)
    of_batch = [np.array([each]) for each in (61, len(batch), 2, 0, 0)]
    for index in range(5):
        fewer = [each[:0] if number == index else each for number, each in enumerate(of_batch)]
        assert not native.find_records(batch, *fewer, fields)


@pytest.mark.usefixtures("native")
@given(st.binary(max_size=300), st.integers(0, 400))
def test_places_are_those_that_a_loop_in_python_finds(data: bytes, cut: int) -> None:
    whole = batch_of([commit()])
    for stream in (data, whole + data, (whole + whole)[:cut], whole * 3):
        found = find_places(stream)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(compiled, "native", None)
            assert find_places(stream) == found
