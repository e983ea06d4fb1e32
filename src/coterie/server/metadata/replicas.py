"""Replicas of a partition: placement, in-sync replicas and leader election, as Kafka's controller does it.

Pure functions on PartitionMetadata, and the checks of the replicas that a request chooses. The log itself has
one copy (ADR 0006); these rules decide what clients see of replication and which broker may lead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from coterie.error_codes import ErrorCode
from coterie.server.metadata.topics import NO_LEADER, PartitionMetadata

__all__ = [
    "BadPlacement",
    "Election",
    "Replicas",
    "Rules",
    "change_partition",
    "check_placement",
    "check_replicas",
    "in_sync",
    "place_replicas",
    "placed_partitions",
    "reassign",
]


class Election(Enum):
    """Which replicas may become the leader."""

    #: Keep a live leader; otherwise take an eligible replica.
    ONLINE = "online"
    #: Take the first replica if it is eligible.
    PREFERRED = "preferred"
    #: As ONLINE, but a live replica that is not in sync will do.
    UNCLEAN = "unclean"


@dataclass(frozen=True, slots=True)
class Rules:
    """What the rules depend on besides the partition: live brokers and two settings of the topic."""

    alive: Collection[int]
    min_insync_replicas: int = 1
    unclean: bool = False

    @property
    def election(self) -> Election:
        return Election.UNCLEAN if self.unclean else Election.ONLINE


def place_replicas(
    first: int, count: int, factor: int, alive: Sequence[int], registered: Sequence[int]
) -> list[list[int]]:
    """Replicas of `count` new partitions, in stripes as Kafka's StripedReplicaPlacer makes them.

    Leaders take turns over the live brokers, starting with number `first`; Kafka starts with a random one.
    The order of the followers changes with every turn. Brokers that are down never lead and come last.
    """
    down = [each for each in registered if each not in alive]
    return [_stripe(alive, first + i, down)[:factor] for i in range(count)]


def _stripe(alive: Sequence[int], turn: int, down: Sequence[int]) -> list[int]:
    leader, lap = turn % len(alive), turn // len(alive)
    others = [*alive[leader + 1 :], *alive[:leader]]
    shift = lap % len(others) if others else 0
    return [alive[leader], *others[shift:], *others[:shift], *down]


def change_partition(
    partition: PartitionMetadata,
    rules: Rules,
    *,
    isr: Sequence[int] | None = None,
    replicas: Sequence[int] | None = None,
    election: Election | None = None,
) -> bool:
    """Give a partition another ISR or other replicas and elect a leader; whether anything changed.

    As in Kafka, the leader epoch rises when the leader changes or a replica is removed, the partition epoch
    with every change.
    """
    before = _snapshot(partition)
    removed = replicas is not None and not set(partition.replicas) <= set(replicas)
    old_isr, old_leader = partition.isr, partition.leader
    partition.replicas = list(partition.replicas if replicas is None else replicas)
    partition.isr = list(old_isr if isr is None else isr)
    _update_eligible(partition, old_isr, rules)
    _elect(partition, rules, election or rules.election)
    if not partition.isr and old_isr:
        partition.last_known_elr = [old_leader]
    elif partition.isr:
        partition.last_known_elr = []
    if partition.leader != old_leader or removed:
        partition.leader_epoch += 1
    changed = _snapshot(partition) != before
    partition.partition_epoch += changed
    return changed


def _snapshot(partition: PartitionMetadata) -> tuple[object, ...]:
    return (
        partition.leader,
        partition.leader_epoch,
        partition.replicas,
        partition.isr,
        partition.elr,
        partition.last_known_elr,
    )


def _update_eligible(partition: PartitionMetadata, old_isr: Sequence[int], rules: Rules) -> None:
    """Eligible leader replicas (KIP-966): those that left the ISR while it was below min.insync.replicas."""
    if len(partition.isr) >= min(rules.min_insync_replicas, len(partition.replicas)):
        partition.elr = []
        return
    candidates = {*partition.elr, *old_isr} & set(partition.replicas)
    partition.elr = sorted(candidates - set(partition.isr))


def _elect(partition: PartitionMetadata, rules: Rules, election: Election) -> None:
    leader = _choose(partition, rules, election)
    if leader == partition.leader:
        return
    if leader != NO_LEADER and leader not in partition.isr:
        partition.isr = [leader]
        partition.elr = [each for each in partition.elr if each != leader]
    partition.leader = leader


def _choose(partition: PartitionMetadata, rules: Rules, election: Election) -> int:
    eligible = partition.isr or partition.elr
    candidates = [each for each in partition.replicas if each in eligible and each in rules.alive]
    if election is Election.PREFERRED and partition.preferred_leader in candidates:
        return partition.preferred_leader
    if partition.leader in candidates:
        return partition.leader
    if not candidates and election is Election.UNCLEAN:
        candidates = [each for each in partition.replicas if each in rules.alive]
    return candidates[0] if candidates else NO_LEADER


def reassign(partition: PartitionMetadata, target: Sequence[int], rules: Rules) -> bool:
    """Move a partition to other replicas; whether anything changed.

    There is nothing to copy, so live replicas are in sync as soon as they are added. While one of the new
    replicas is down, the reassignment stays under way: old and new replicas are both listed.
    """
    current = partition.settled_replicas
    adding = sorted(set(target) - set(current))
    removing = sorted(set(current) - set(target))
    replicas = [*target, *removing]
    isr = in_sync(partition, replicas, rules)
    if set(target) <= set(isr):
        adding, removing = [], []
        replicas, isr = list(target), [each for each in isr if each in target]
    partition.adding, partition.removing = adding, removing
    isr = [each for each in isr if each in replicas]
    return change_partition(partition, rules, isr=isr, replicas=replicas)


def in_sync(partition: PartitionMetadata, replicas: Sequence[int], rules: Rules) -> list[int]:
    """The ISR after all live replicas have caught up, which they do at once where a leader lives."""
    if partition.leader not in rules.alive:
        return partition.isr
    caught_up = [each for each in replicas if each in rules.alive and each not in partition.isr]
    # Kafka's leader sends the grown ISR in the order of the broker ids.
    return sorted([*partition.isr, *caught_up]) if caught_up else partition.isr


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
