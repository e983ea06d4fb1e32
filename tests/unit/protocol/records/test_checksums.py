"""Checksums of many batches at once: what is damaged is found, and what is not passes."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from coterie.protocol.batch_layout import CHECKED_FROM
from coterie.protocol.records import checksums
from coterie.protocol.records.checksums import first_wrong

pytestmark = pytest.mark.usefixtures("readers")

bodies = st.lists(st.binary(max_size=60), min_size=1, max_size=8)


def joined(bodies: list[bytes]) -> tuple[bytearray, list[int], list[int]]:
    """Batches, sound where their checksums are and in what these cover; where each begins and ends."""
    data = bytearray()
    positions, ends = [], []
    for number, body in enumerate(bodies):
        positions.append(len(data))
        data += bytes([number + 1] * 17) + crc32c(body).to_bytes(4, "big") + body
        ends.append(len(data))
    return data, positions, ends


def wrong(data: bytearray, positions: list[int], ends: list[int]) -> int | None:
    stored = np.array([int.from_bytes(data[at + 17 : at + 21], "big") for at in positions], ">u4")
    view = memoryview(bytes(data))
    return first_wrong(view, np.array(positions, np.int64), np.array(ends, np.int64), stored)


def test_bytes_that_are_followed_by_their_checksum_lead_back_to_the_beginning() -> None:
    for body in (b"", b"a", bytes(1000), bytes(range(256))):
        after = crc32c(body + crc32c(body).to_bytes(4, "little"))
        assert after == checksums._RESIDUE
        assert crc32c(checksums._BACK, after) == crc32c(b"")


def test_there_may_be_no_batch() -> None:
    assert wrong(bytearray(), [], []) is None


@given(bodies=bodies)
def test_sound_batches_pass_by_one_call(bodies: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        called = Mock(side_effect=crc32c)
        patched.setattr(checksums, "crc32c", called)
        assert wrong(*joined(bodies)) is None
    called.assert_called_once()


@pytest.mark.parametrize("size", [65_535, 65_536, 200_000])
def test_large_batches_among_small_ones(size: int) -> None:
    batches, positions, ends = joined([b"small", bytes(size), b"", b"small", bytes(size), b"last"])
    assert wrong(batches, positions, ends) is None
    batches[ends[4] - 1] ^= 1
    assert wrong(batches, positions, ends) == 4


@given(bodies=bodies, data=st.data())
def test_the_first_damaged_batch_is_found(bodies: list[bytes], data: st.DataObject) -> None:
    batches, positions, ends = joined(bodies)
    damaged = data.draw(
        st.sets(st.integers(0, len(bodies) - 1), min_size=1), label="damaged batches"
    )
    for index in damaged:
        place = data.draw(st.integers(positions[index] + 17, ends[index] - 1), label="byte")
        batches[place] ^= data.draw(st.integers(1, 255), label="change")
    # Bytes that were changed back make no damage.
    still = [
        index
        for index, (at, end) in enumerate(zip(positions, ends, strict=True))
        if int.from_bytes(batches[at + 17 : at + 21], "big")
        != crc32c(bytes(batches[at + CHECKED_FROM : end]))
    ]
    assert wrong(batches, positions, ends) == (still[0] if still else None)


@given(bodies=bodies, data=st.data())
def test_what_a_checksum_does_not_cover_is_not_looked_at(
    bodies: list[bytes], data: st.DataObject
) -> None:
    batches, positions, ends = joined(bodies)
    at = data.draw(st.sampled_from(positions))
    batches[at + data.draw(st.integers(0, 16))] ^= 0xFF
    assert wrong(batches, positions, ends) is None
