"""Manual placement: the brokers that a request wants for the replicas of partitions, checked as in Kafka."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from coterie.error_codes import ErrorCode

__all__ = ["BadPlacement", "Replicas", "check_placement", "check_replicas", "placed_partitions"]

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
    placed: Sequence[Replicas],
    first: int,
    registered: Collection[int],
    alive: Collection[int],
    factor: int | None = None,
) -> Sequence[Replicas]:
    """The replicas of new partitions that begin with number `first`, unless Kafka would refuse them.

    Without a factor, all partitions must have as many replicas as the first one.
    """
    for partition, replicas in enumerate(placed, first):
        check_replicas(replicas, registered)
        if factor is not None and len(replicas) != factor:
            raise BadPlacement(
                f"The manual partition assignment includes a partition with {len(replicas)} "
                "replica(s), but this is not consistent with previous partitions, which have "
                f"{factor} replica(s)."
            )
        factor = len(replicas)
        if not set(replicas) & set(alive):
            raise BadPlacement(
                "All brokers specified in the manual partition assignment for partition "
                f"{partition} are fenced or in controlled shutdown."
            )
    return placed


def check_replicas(replicas: Replicas, registered: Collection[int]) -> None:
    """Raise BadPlacement if a partition cannot have these replicas."""
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
