"""Manual placement: which brokers a request wants for the replicas of new partitions, checked as Kafka does.

Only the first of them that is alive counts in the end: a partition has one copy, and that one leads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from coterie.error_codes import ErrorCode

__all__ = ["BadPlacement", "check_placement", "placed_partitions"]

#: The replicas of a partition, by broker id; the first is to lead.
Replicas = Sequence[int]


class BadPlacement(Exception):
    """An assignment that cannot be; the message is Kafka's."""

    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT


def placed_partitions(assignments: Iterable[tuple[int, Replicas]]) -> list[Replicas]:
    """The assignments of a new topic in the order of its partitions."""
    placed: dict[int, Replicas] = {}
    for partition, replicas in assignments:
        if partition in placed:
            raise BadPlacement(
                f"Found multiple manual partition assignments for partition {partition}"
            )
        placed[partition] = replicas
    if sorted(placed) != list(range(len(placed))):
        raise BadPlacement("partitions should be a consecutive 0-based integer sequence")
    return [placed[partition] for partition in range(len(placed))]


def check_placement(
    placed: Iterable[Replicas], first: int, registered: Collection[int], alive: Collection[int]
) -> list[int]:
    """The leaders of new partitions that begin with number `first` (validateManualPartitionAssignment)."""
    leaders: list[int] = []
    factor: int | None = None
    for partition, replicas in enumerate(placed, first):
        _check_replicas(replicas, registered)
        if factor is not None and len(replicas) != factor:
            raise BadPlacement(
                f"The manual partition assignment includes a partition with {len(replicas)} "
                "replica(s), but this is not consistent with previous partitions, which have "
                f"{factor} replica(s)."
            )
        factor = len(replicas)
        leader = next((each for each in replicas if each in alive), None)
        if leader is None:
            raise BadPlacement(
                "All brokers specified in the manual partition assignment for partition "
                f"{partition} are fenced or in controlled shutdown."
            )
        leaders.append(leader)
    return leaders


def _check_replicas(replicas: Replicas, registered: Collection[int]) -> None:
    if not replicas:
        raise BadPlacement("The manual partition assignment includes an empty replica list.")
    seen: set[int] = set()
    for broker in sorted(replicas):
        if broker not in registered:
            raise BadPlacement(
                f"The manual partition assignment includes broker {broker}, but no such broker "
                "is registered."
            )
        if broker in seen:
            raise BadPlacement(
                f"The manual partition assignment includes the broker {broker} more than once."
            )
        seen.add(broker)
