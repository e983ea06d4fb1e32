"""The listings about groups: every column of every output, declared once."""

from coterie.cli.listings.common import GROUP, STATE, lag_style
from coterie.cli.listings.groups import DESCRIPTIONS, GROUPS, MEMBERS, MemberRow, member_rows
from coterie.cli.listings.offsets import (
    GROUP_LAG,
    LAG,
    OFFSETS,
    TOPIC_LAG,
    LagRow,
    LagSum,
    OffsetRow,
    lag_rows,
    lag_sums,
)
from coterie.cli.listings.plans import (
    PLANNED_GROUPS,
    PLANNED_OFFSETS,
    RESULTS,
    PlannedOffsetRow,
    planned_offset_rows,
)

__all__ = [
    "DESCRIPTIONS",
    "GROUP",
    "GROUPS",
    "GROUP_LAG",
    "LAG",
    "MEMBERS",
    "OFFSETS",
    "PLANNED_GROUPS",
    "PLANNED_OFFSETS",
    "RESULTS",
    "STATE",
    "TOPIC_LAG",
    "LagRow",
    "LagSum",
    "MemberRow",
    "OffsetRow",
    "PlannedOffsetRow",
    "lag_rows",
    "lag_style",
    "lag_sums",
    "member_rows",
    "planned_offset_rows",
]
