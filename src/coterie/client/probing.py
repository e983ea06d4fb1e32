"""Whether coordinators are ready: for each partition of the offsets topic, ask about a group in it.

A broker that has just been made a coordinator lists none of the groups it was given until it has begun to
load them, and its list does not say so. Asked about one group it does: there is no such group here, or this
is not the coordinator, or it is loading. So each is asked about groups that do not exist.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from coterie.client.network import PATIENCE_SECONDS, Deadline, Network, together
from coterie.error_codes import ErrorCode
from coterie.errors import CoterieError
from coterie.protocol.group_state import partition_for
from coterie.protocol.messages.groups import DescribeGroupsRequest, DescribeGroupsResponse

__all__ = ["OFFSETS_TOPIC", "hosted", "probes"]

OFFSETS_TOPIC: Final = "__consumer_offsets"


@cache
def probes(partitions: int) -> tuple[str, ...]:
    """A name for each partition that no group has."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < partitions:
        name = f"coterie-probe-{number}"
        found.setdefault(partition_for(name, partitions), name)
        number += 1
    return tuple(found[index] for index in range(partitions))


async def hosted(network: Network, leaders: dict[int, int], deadline: Deadline) -> bool:
    """Whether each of these partitions is served by its leader, as far as one may ask."""
    if not leaders:
        return True
    names = probes(max(leaders) + 1)
    by_leader: dict[int, list[str]] = {}
    for index, leader in leaders.items():
        if leader in network.nodes:
            by_leader.setdefault(leader, []).append(names[index])
    short = deadline.within(2 * PATIENCE_SECONDS)
    try:
        answers = await together(
            *(
                network.ask(
                    network.nodes[leader],
                    DescribeGroupsRequest(tuple(theirs)),
                    DescribeGroupsResponse,
                    short,
                )
                for leader, theirs in by_leader.items()
            )
        )
    except CoterieError:
        return False
    return not any(
        ErrorCode.of(group.error_code).retriable for answer in answers for group in answer.groups
    )
