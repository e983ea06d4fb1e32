"""Results of 10,000 groups cost the garbage collector nothing."""

from __future__ import annotations

import gc

import msgspec
import pytest

from coterie.client import results
from coterie.client.partitions import TopicPartition
from coterie.client.results import GroupDescription, GroupOffsets, Member, PartitionOffset
from coterie.protocol.group_state import GroupState, GroupType

ITEMS = [
    cls
    for cls in vars(results).values()
    if isinstance(cls, type)
    and issubclass(cls, msgspec.Struct)
    and cls.__module__ == results.__name__
    and not issubclass(cls, (results.Result, results.BrokerFailure))
]


@pytest.mark.parametrize("cls", ITEMS)
def test_no_item_is_tracked(cls: type[msgspec.Struct]) -> None:
    """Their fields are texts, numbers and containers of such, so they cannot form cycles."""
    assert cls.__struct_config__.gc is False


def test_the_containers_of_items_are_not_tracked_for_long() -> None:
    members = tuple([Member(f"member-{n}", "client", "host") for n in range(3)])
    group = GroupDescription("g", GroupType.CLASSIC, GroupState.STABLE, "consumer", 1, members)
    offsets = GroupOffsets("g", {TopicPartition("t", n): PartitionOffset(n) for n in range(3)})
    gc.collect()
    assert not any(gc.is_tracked(each) for each in (group, members, offsets, offsets.offsets))
