"""Whatever becomes of a list, what is read from it along the last one is what is read from it alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import ProtocolError
from coterie.protocol.codec import decode, encode
from coterie.protocol.messages.groups import ListedGroup, ListGroupsResponse
from coterie.protocol.repeated_list import RepeatedList
from tests.property.strategies import examples

#: Where, how many go, and the numbers of those that come.
Change = tuple[int, int, list[int]]
changes: st.SearchStrategy[Change] = st.tuples(
    st.integers(0, 120), st.sampled_from((0, 1, 1, 2, 17, 60)), st.lists(st.integers(), max_size=20)
)


def changed(listed: list[ListedGroup], change: Change) -> list[ListedGroup]:
    where, gone, come = change
    new = [ListedGroup(f"new-{number}", "consumer", "Empty", "classic") for number in come]
    return [*listed[:where], *new, *listed[where + gone :]]


@examples(100)
@given(history=st.lists(st.lists(changes, max_size=4), max_size=6))
def test_a_history_of_lists(history: list[list[Change]]) -> None:
    watched = RepeatedList(ListGroupsResponse, 5)
    listed = [ListedGroup(f"group-{number}", "consumer", "Stable") for number in range(120)]
    for step in [[], *history]:
        for change in step:
            listed = changed(listed, change)
        message = ListGroupsResponse(groups=tuple(listed))
        assert watched.decode(encode(message, 5)) == message


@examples(200)
@given(where=st.integers(0, 2_000), what=st.binary(max_size=8), gone=st.integers(0, 8))
def test_bytes_that_were_tampered_with(where: int, what: bytes, gone: int) -> None:
    watched = RepeatedList(ListGroupsResponse, 5)
    listed = [ListedGroup(f"group-{number}", "consumer", "Stable") for number in range(60)]
    for some in (59, 60):
        data = encode(ListGroupsResponse(groups=tuple(listed[:some])), 5)
        watched.decode(data)
    tampered = data[:where] + what + data[where + gone :]
    try:
        expected: object = decode(ListGroupsResponse, tampered, 5)
    except ProtocolError as error:
        expected = str(error)
    try:
        found: object = watched.decode(tampered)
    except ProtocolError as error:
        found = str(error)
    assert found == expected
