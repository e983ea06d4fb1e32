"""The assignors: everything is assigned once, evenly, and stays where it can."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from coterie.coordinator.consumer.assignment import GroupSpec, MemberSpec, Partitions
from coterie.coordinator.consumer.assignors import ASSIGNORS, assign_range, assign_uniformly
from coterie.protocol.types import Uuid

TOPICS = [Uuid(bytes([number]) * 16) for number in range(1, 6)]
A, B = TOPICS[:2]


def spec(
    subscriptions: dict[str, tuple[Uuid, ...]],
    partitions: dict[Uuid, int],
    assigned: dict[str, Partitions] | None = None,
    instances: dict[str, str] | None = None,
) -> GroupSpec:
    members = {
        member_id: MemberSpec(
            (instances or {}).get(member_id), topics, (assigned or {}).get(member_id, {})
        )
        for member_id, topics in subscriptions.items()
    }
    return GroupSpec(members, partitions, len(set(subscriptions.values())) <= 1)


def size(target: Partitions) -> int:
    return sum(len(each) for each in target.values())


def moves(before: dict[str, Partitions], after: dict[str, Partitions]) -> int:
    """Partitions that someone had and has no longer."""
    return sum(
        len(each - after.get(member_id, {}).get(topic_id, frozenset()))
        for member_id, target in before.items()
        for topic_id, each in target.items()
    )


def check_whole(given_spec: GroupSpec, target: dict[str, Partitions]) -> None:
    """Each partition of each topic that someone reads has one owner, who reads the topic."""
    owners: Counter[tuple[Uuid, int]] = Counter()
    for member_id, mine in target.items():
        for topic_id, partitions in mine.items():
            assert topic_id in given_spec.members[member_id].topics
            assert partitions
            owners.update((topic_id, partition) for partition in partitions)
    read = {topic_id for member in given_spec.members.values() for topic_id in member.topics}
    assert owners == Counter(
        (topic_id, partition)
        for topic_id in read
        for partition in range(given_spec.partitions[topic_id])
    )


counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9), min_size=1)


@st.composite
def groups(draw: st.DrawFn, *, same: bool) -> GroupSpec:
    partitions = draw(counts)
    names = [f"member-{number}" for number in range(draw(st.integers(1, 7)))]
    some = st.lists(st.sampled_from(sorted(partitions)), unique=True).map(tuple)
    common = draw(some)
    return spec({name: common if same else draw(some) for name in names}, partitions)


@pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=ASSIGNORS.keys())
@given(data=st.data(), same=st.booleans())
def test_every_partition_has_one_owner(
    assignor: Callable[[GroupSpec], dict[str, Partitions]], data: st.DataObject, same: bool
) -> None:
    group = data.draw(groups(same=same))
    check_whole(group, assignor(group))


@given(data=st.data())
def test_uniform_is_even(data: st.DataObject) -> None:
    group = data.draw(groups(same=True))
    sizes = [size(each) for each in assign_uniformly(group).values()] or [0]
    assert max(sizes) - min(sizes) <= 1


@given(data=st.data(), same=st.booleans())
def test_uniform_moves_nothing_without_need(data: st.DataObject, same: bool) -> None:
    """The same group again: all stays; a member more or less: only what evenness asks for moves."""
    group = data.draw(groups(same=same))
    first = assign_uniformly(group)
    again = {
        name: replace(member, assigned=first.get(name, {}))
        for name, member in group.members.items()
    }
    assert assign_uniformly(replace(group, members=again)) == first
    gone = data.draw(st.sampled_from(sorted(again)))
    rest = {name: member for name, member in again.items() if name != gone}
    if rest and same:
        after = assign_uniformly(replace(group, members=rest))
        assert moves({name: first.get(name, {}) for name in rest}, after) == 0


def test_uniform_keeps_as_much_as_it_can() -> None:
    before = {"one": {A: frozenset(range(4))}}
    after = assign_uniformly(spec({"one": (A,), "two": (A,)}, {A: 4}, before))
    assert after == {"one": {A: frozenset({0, 1})}, "two": {A: frozenset({2, 3})}}


def test_uniform_without_topics_has_no_target() -> None:
    assert assign_uniformly(spec({"one": ()}, {})) == {}
    assert assign_uniformly(GroupSpec({}, {}, homogeneous=True)) == {}


def test_uneven_subscriptions_are_evened_out() -> None:
    """Whoever alone reads a topic gets all of it, and less of what others read too."""
    target = assign_uniformly(spec({"one": (A,), "two": (A, B)}, {A: 4, B: 2}))
    assert target["two"][B] == {0, 1}
    assert [size(target["one"]), size(target["two"])] == [3, 3]


def test_uneven_subscriptions_give_up_what_is_too_much() -> None:
    before = {"one": {A: frozenset(range(6))}, "two": {}}
    after = assign_uniformly(spec({"one": (A,), "two": (A, B)}, {A: 6, B: 1}, before))
    assert size(after["one"]) - size(after["two"]) in (0, 1)
    assert after["one"][A] < frozenset(range(6))


def test_ranges() -> None:
    """Extra partitions go to the first members; static members come first, by their instance ids."""
    both = {"b": (A, B), "a": (A, B), "c": (A,)}
    assert assign_range(spec(both, {A: 7, B: 2})) == {
        "a": {A: frozenset({0, 1, 2}), B: frozenset({0})},
        "b": {A: frozenset({3, 4}), B: frozenset({1})},
        "c": {A: frozenset({5, 6})},
    }
    static = assign_range(spec(dict.fromkeys("abc", (A,)), {A: 3}, instances={"c": "1", "b": "2"}))
    assert static == {"c": {A: frozenset({0})}, "b": {A: frozenset({1})}, "a": {A: frozenset({2})}}


def test_more_members_than_partitions() -> None:
    target = assign_range(spec(dict.fromkeys("abc", (A,)), {A: 2}))
    assert target == {"a": {A: frozenset({0})}, "b": {A: frozenset({1})}, "c": {}}
