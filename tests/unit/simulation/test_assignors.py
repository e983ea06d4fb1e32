"""The assignors of simulated leaders: everything is given out once, to someone who subscribes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coterie.simulation.assignors import Assignment, assign_range, assign_sticky

TOPICS = st.sampled_from(["a", "b", "c"])
SUBSCRIPTIONS = st.dictionaries(
    st.sampled_from(["m1", "m2", "m3", "m4"]), st.sets(TOPICS, min_size=1).map(sorted), min_size=1
)
COUNTS = st.fixed_dictionaries({topic: st.integers(1, 7) for topic in "abc"})


def _check(
    given_out: dict[str, Assignment], subscriptions: dict[str, list[str]], counts: dict[str, int]
) -> None:
    places = [
        (topic, index)
        for share in given_out.values()
        for topic, indexes in share.items()
        for index in indexes
    ]
    read = {topic for topics in subscriptions.values() for topic in topics}
    assert sorted(places) == sorted((t, i) for t in read for i in range(counts[t]))
    for member, share in given_out.items():
        assert set(share) <= set(subscriptions[member])


@given(SUBSCRIPTIONS, COUNTS)
def test_range_gives_everything_once(
    subscriptions: dict[str, list[str]], counts: dict[str, int]
) -> None:
    _check(assign_range(subscriptions, counts), subscriptions, counts)


@given(SUBSCRIPTIONS, COUNTS)
def test_sticky_gives_everything_once_and_keeps_it(
    subscriptions: dict[str, list[str]], counts: dict[str, int]
) -> None:
    first = assign_sticky(subscriptions, counts, {})
    _check(first, subscriptions, counts)
    if all(topics == ["a", "b", "c"] for topics in subscriptions.values()):
        assert assign_sticky(subscriptions, counts, first) == first


def test_range_is_kafkas() -> None:
    members = {"c1": ["t"], "c0": ["t"]}
    assert assign_range(members, {"t": 3}) == {"c0": {"t": (0, 1)}, "c1": {"t": (2,)}}
