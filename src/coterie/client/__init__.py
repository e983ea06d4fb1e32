"""The admin client: all groups of a cluster in a handful of requests, and never a lie."""

from __future__ import annotations

from coterie.client.admin import AdminClient
from coterie.client.network import Node
from coterie.client.record_batches import FetchedRecords
from coterie.client.reset import PlannedOffset, ResetPlan, To
from coterie.client.results import (
    BrokerFailure,
    Done,
    GroupChange,
    GroupDescription,
    GroupLag,
    GroupListing,
    GroupOffsets,
    LogOffset,
    Member,
    PartitionLag,
    PartitionOffset,
    Result,
    TopicDescription,
    TopicPartition,
)
from coterie.protocol.group_state import GroupState, GroupType

__all__ = [
    "AdminClient",
    "BrokerFailure",
    "Done",
    "FetchedRecords",
    "GroupChange",
    "GroupDescription",
    "GroupLag",
    "GroupListing",
    "GroupOffsets",
    "GroupState",
    "GroupType",
    "LogOffset",
    "Member",
    "Node",
    "PartitionLag",
    "PartitionOffset",
    "PlannedOffset",
    "ResetPlan",
    "Result",
    "To",
    "TopicDescription",
    "TopicPartition",
]
