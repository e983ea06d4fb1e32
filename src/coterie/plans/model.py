"""The plan: which groups are to be changed and how, as a JSON document of a published format.

Anyone may write such a document: `coterie groups delete --plan-out`, a Spark job, a script. It says what its
author saw; the execution looks again. The schema is docs/schemas/plan.json.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from coterie.errors import CoterieError
from coterie.plans.documents import decode_document, save_document

__all__ = [
    "ACTIONS",
    "Action",
    "LeaderEpoch",
    "Moment",
    "Offset",
    "PartitionNumber",
    "Plan",
    "PlannedGroup",
    "PlannedOffset",
    "load_plan",
]

Action = Literal["delete_groups", "set_offsets", "delete_offsets"]

#: What each action is called in a sentence.
ACTIONS: Final[dict[Action, str]] = {
    "delete_groups": "delete",
    "set_offsets": "set offsets of",
    "delete_offsets": "delete offsets of",
}

#: A time with its zone; written in UTC.
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
#: As wide as the protocol's fields are.
PartitionNumber = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
LeaderEpoch = Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)]


class PlannedOffset(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One partition: the offset that the group has there now and, for set_offsets, the one it gets."""

    topic: str
    partition: PartitionNumber
    #: What is committed; null if nothing is.
    current: Offset | None
    #: What is to be committed; null if this partition is left alone, and `note` says why.
    target: Offset | None = None
    leader_epoch: LeaderEpoch | None = None
    metadata: str = ""
    note: str = ""


class PlannedGroup(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One group. What the author did not know is null; `offsets` null means: not looked at."""

    group: str
    state: str | None = None
    type: str | None = None
    last_commit_at: Moment | None = None
    lag: int | None = None
    offsets: tuple[PlannedOffset, ...] | None = None
    note: str = ""


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A change that has not been made yet.

    `cluster_id` keeps a plan from being executed on another cluster than it was made for; null does not.
    """

    format: Literal["coterie-plan"] = "coterie-plan"
    version: Literal[1] = 1
    action: Action
    created_at: Moment
    cluster_id: str | None = None
    reason: str = ""
    groups: tuple[PlannedGroup, ...] = ()

    @classmethod
    def of(
        cls,
        action: Action,
        groups: tuple[PlannedGroup, ...],
        *,
        cluster_id: str | None = None,
        reason: str = "",
        now: datetime | None = None,
    ) -> Plan:
        """A plan made now."""
        made = (now or datetime.now(UTC)).replace(microsecond=0)
        return cls(
            action=action, created_at=made, cluster_id=cluster_id, reason=reason, groups=groups
        )

    def save(self, path: Path) -> None:
        """Write the document, whole or not at all."""
        save_document(path, self)


def load_plan(path: Path) -> Plan:
    """Read a document that `save`, or another author, wrote."""
    plan = decode_document(path, Plan, "a plan")
    twice = _first_repeated([each.group for each in plan.groups])
    if twice is not None:
        raise CoterieError(f"{path} is not a plan: group {twice!r} is in it more than once")
    return plan


def _first_repeated(names: list[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
