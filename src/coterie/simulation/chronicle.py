"""What really happened to a group, as those know who made it happen.

The driver notes why a rebalance begins; when the coordinator writes a generation down, the chronicle
closes the entry with who came and who went. No record is read for that: the members are the driver's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

__all__ = ["Cause", "Chronicle", "iso"]


class Cause:
    """Why groups rebalance; the same words as in the rebalances mart."""

    CHURN = "member_churn"
    SUBSCRIPTION = "subscription_change"
    PARTITIONS = "partition_count_change"
    STATIC = "static_restart"
    MOVE = "coordinator_move"


def iso(at_ms: int) -> str:
    """A moment, to the millisecond."""
    moment = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03d}Z"


@dataclass(slots=True)
class Chronicle:
    """The truth about one group."""

    group_id: str
    #: Of the consumer protocol (KIP-848): epochs, and no leader.
    modern: bool = False
    rebalances: list[dict[str, Any]] = field(default_factory=list)
    resets: list[dict[str, Any]] = field(default_factory=list)
    generation: int = 0
    members: frozenset[str] = frozenset()
    leader: str = ""
    last_commit_ms: int | None = None
    last_member_ms: int | None = None
    deleted_ms: int | None = None
    _reasons: list[tuple[str, str, int]] = field(default_factory=list)
    _newest: tuple[str, str, int] | None = None

    def because(self, cause: str, event: str, at_ms: int) -> None:
        """Something happened that makes the group rebalance."""
        self._newest = (cause, event, at_ms)
        self._reasons.append(self._newest)

    def nothing_more(self) -> None:
        """What has not shown by now will not: the last epoch, made for another reason, has it already."""
        self._reasons.clear()

    @property
    def has_reason(self) -> bool:
        """Whether something that makes the group rebalance has not shown yet."""
        return bool(self._reasons)

    def written(
        self,
        generation: int,
        now: frozenset[str],
        at_ms: int,
        *,
        leader: str | None = None,
    ) -> None:
        """The coordinator wrote a generation or an epoch down; `now` are its members."""
        self.deleted_ms = None
        if now or self.members:
            self.last_member_ms = at_ms
        if generation == 0 or (not self._reasons and generation == self.generation):
            return
        if not self._reasons and self._newest is not None:
            # Two came at once, and the second was a generation late.
            self._reasons.append(self._newest)
        # A consumer group is first written with an epoch that is not 1.
        hidden = 0 if self.modern else generation - self.generation - 1
        causes = list(dict.fromkeys(cause for cause, _, _ in self._reasons))
        cause, event, started_ms = self._reasons[0]
        line = {
            "group": self.group_id,
            "time": iso(at_ms),
            "started": iso(started_ms),
            "generation": generation,
            "cause": cause,
            "causes": causes,
            "event": event,
            "joined": sorted(now - self.members),
            "left": sorted(self.members - now),
            "members": len(now),
            "leader": leader,
            "leader_changed": None if self.modern else (leader or "") != self.leader,
            "hidden_before": max(hidden, 0),
        }
        self.rebalances.append(line)
        self.generation, self.members, self.leader = generation, now, leader or ""
        self._reasons.clear()

    def committed(self, at_ms: int) -> None:
        self.last_commit_ms = at_ms

    def deleted(self, at_ms: int) -> None:
        """The group expired, or was deleted: its next life has nothing to do with this one."""
        self.deleted_ms = at_ms
        self.generation, self.members, self.leader = 0, frozenset(), ""

    def reset(
        self, topic: str, partition: int, moved: tuple[int, int], by: str, at_ms: int
    ) -> None:
        """An offset moved backwards."""
        before, after = moved
        self.resets.append(
            {
                "group": self.group_id,
                "time": iso(at_ms),
                "topic": topic,
                "partition": partition,
                "from": before,
                "to": after,
                "by": by,
            }
        )
