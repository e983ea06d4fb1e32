"""A list that changes little is read to the same as ever, and what has not changed is not made again."""

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
    """One that has seen two answers, the second with all groups stable."""
    listed = RepeatedList(ListGroupsResponse, 5)
    listed.decode(encoded(groups(empty=(0,))))
    listed.decode(encoded(groups()))
    return listed


def remade(before: ListGroupsResponse, after: ListGroupsResponse) -> int:
    """How many elements are not the very objects that they were."""
    known = {id(group) for group in before.groups}
    return sum(id(group) not in known for group in after.groups)


def test_the_same_answer_is_the_same_object(watched: RepeatedList[ListGroupsResponse]) -> None:
    data = encoded(groups())
    assert watched.decode(data) is watched.decode(bytes(bytearray(data)))


@pytest.mark.parametrize("position", [0, 1, 15, 16, 100, COUNT - 1])
def test_only_what_is_around_a_change_is_made_again(
    position: int, watched: RepeatedList[ListGroupsResponse]
) -> None:
    before = watched.decode(encoded(groups()))
    changed = groups(empty=(position,))
    inserted = [*groups()[:position], ListedGroup("new"), *groups()[position:]]
    removed = [*groups()[:position], *groups()[position + 1 :]]
    for listed in (changed, inserted, removed):
        after = watched.decode(encoded(listed))
        assert after.groups == tuple(listed)
        assert remade(before, after) <= 32
        before = watched.decode(encoded(groups()))


def test_much_that_is_new_is_read_at_once_and_known_afterwards(
    watched: RepeatedList[ListGroupsResponse],
) -> None:
    others = [ListedGroup(f"other-{n}") for n in range(COUNT)]
    assert watched.decode(encoded(others)).groups == tuple(others)
    others[7] = ListedGroup("seven")
    before = watched.decode(encoded(others))
    assert before.groups == tuple(others)
    others[8] = ListedGroup("eight")
    after = watched.decode(encoded(others))
    assert after.groups == tuple(others)
    assert remade(before, after) <= 32


def test_a_name_that_holds_the_bytes_of_other_groups_is_a_name(
    watched: RepeatedList[ListGroupsResponse],
) -> None:
    """All bytes of sixteen groups are characters, and a name may be as long as they are."""
    inside = encoded(groups()[:32])[7:-1].decode()
    for listed in (
        [ListedGroup(inside), *groups()],
        [ListedGroup(f"x{inside}"), *groups()[1:]],
        [*groups()[:16], ListedGroup(f"{inside}y"), *groups()[16:]],
    ):
        assert watched.decode(encoded(listed)).groups == tuple(listed)


def told(decoding: Callable[[], object]) -> str:
    with pytest.raises(ProtocolError) as error:
        decoding()
    return str(error.value)


def test_a_block_is_not_taken_for_more_elements_than_there_are(
    watched: RepeatedList[ListGroupsResponse],
) -> None:
    """The bytes of a whole block follow, but the count says that only three of them are elements."""
    data = encoded(groups()[:3])[:7] + encoded(groups())[8:]
    assert told(lambda: watched.decode(data)) == told(lambda: decode(ListGroupsResponse, data, 5))


@pytest.mark.parametrize("cut", [3, 7, 40, 900, 1_500])
def test_a_broken_answer_is_told_as_ever(
    cut: int, watched: RepeatedList[ListGroupsResponse]
) -> None:
    data = encoded(groups(empty=(3,)))[:cut]
    assert told(lambda: watched.decode(data)) == told(lambda: decode(ListGroupsResponse, data, 5))
    assert watched.decode(encoded(groups())).groups == tuple(groups())


@pytest.mark.parametrize("version", range(6))
def test_every_version(version: int) -> None:
    listed = RepeatedList(ListGroupsResponse, version)
    for empty in ((), (1,), (100,), (100, 101), ()):
        data = encoded(groups(empty=empty), version)
        assert listed.decode(data) == decode(ListGroupsResponse, data, version)
