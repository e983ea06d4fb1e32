"""A list that is decoded again equals the list decoded alone, and equal bytes give the same object."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie.errors import ProtocolError
from coterie.protocol.codec import decode, encode
from coterie.protocol.messages.groups import ListedGroup, ListGroupsResponse
from coterie.protocol.repeated_list import RepeatedList

COUNT = 200


def groups(*, empty: tuple[int, ...] = ()) -> list[ListedGroup]:
    return [
        ListedGroup(f"group-{n}", "consumer", "Empty" if n in empty else "Stable", "classic")
        for n in range(COUNT)
    ]


def encoded(listed: list[ListedGroup], version: int = 5) -> bytes:
    return encode(ListGroupsResponse(groups=tuple(listed)), version)


@pytest.fixture
def watched() -> RepeatedList[ListGroupsResponse]:
    """One that has decoded two answers, the second with all groups stable."""
    listed = RepeatedList(ListGroupsResponse, 5)
    listed.decode(encoded(groups(empty=(0,))))
    listed.decode(encoded(groups()))
    return listed


def test_the_same_answer_is_the_same_object(watched: RepeatedList[ListGroupsResponse]) -> None:
    data = encoded(groups())
    assert watched.decode(data) is watched.decode(bytes(bytearray(data)))


@pytest.mark.parametrize("position", [0, 1, 15, 16, 100, COUNT - 1])
def test_a_change_is_seen(position: int, watched: RepeatedList[ListGroupsResponse]) -> None:
    changed = groups(empty=(position,))
    inserted = [*groups()[:position], ListedGroup("new"), *groups()[position:]]
    removed = [*groups()[:position], *groups()[position + 1 :]]
    for listed in (changed, inserted, removed, groups()):
        assert watched.decode(encoded(listed)).groups == tuple(listed)


def error_of(decoding: Callable[[], object]) -> str:
    with pytest.raises(ProtocolError) as error:
        decoding()
    return str(error.value)


@pytest.mark.parametrize("cut", [3, 7, 40, 900, 1_500])
def test_a_broken_answer_has_the_usual_error(
    cut: int, watched: RepeatedList[ListGroupsResponse]
) -> None:
    data = encoded(groups(empty=(3,)))[:cut]
    usual = error_of(lambda: decode(ListGroupsResponse, data, 5))
    assert error_of(lambda: watched.decode(data)) == usual
    assert watched.decode(encoded(groups())).groups == tuple(groups())


@pytest.mark.parametrize("version", range(6))
def test_every_version(version: int) -> None:
    listed = RepeatedList(ListGroupsResponse, version)
    for empty in ((), (1,), (100,), (100, 101), ()):
        data = encoded(groups(empty=empty), version)
        assert listed.decode(data) == decode(ListGroupsResponse, data, version)
