"""A classic group as the log has it.

Its durable part is the last GroupMetadata record, kept as it is, and two marks about its commits. Only
coterie.coordinator.durable, which replays the log, changes them. What a restart may forget, the
membership under way, hangs beside it as `rebalance`. Committed offsets are not here but in the durable
state: they outlive the conversion of a group from one type to another.
"""

from __future__ import annotations

from typing import final

from coterie.coordinator.rebalance import Rebalance
from coterie.protocol.group_records.classic import GroupMetadataValue
from coterie.protocol.group_state import GroupState, GroupType

__all__ = ["ClassicGroup"]


@final
class ClassicGroup:
    """A group of classic members, or a simple one: offsets without members."""

    __slots__ = (
        "bucket",
        "consumer_commits",
        "group_id",
        "rebalance",
        "transactional_commits",
        "value",
    )

    type = GroupType.CLASSIC

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        #: None for a group that only an offset commit brought into being, of which no record tells.
        self.value: GroupMetadataValue | None = None
        #: Whether offsets came by OffsetCommit, and by TxnOffsetCommit (KIP-181).
        self.consumer_commits = False
        self.transactional_commits = False
        #: Volatile: members and the rebalance that they are in. None while there are none.
        self.rebalance: Rebalance | None = None
        #: Volatile: kept by the index.
        self.bucket: dict[str, None] | None = None

    @property
    def state(self) -> GroupState:
        if self.rebalance is not None:
            return self.rebalance.state
        value = self.value
        return GroupState.STABLE if value is not None and value.members else GroupState.EMPTY

    @property
    def protocol_type(self) -> str:
        """Such as `consumer`; empty for a simple group."""
        if self.rebalance is not None:
            return self.rebalance.protocol_type or ""
        return self.value.protocol_type if self.value is not None else ""

    def snapshot(self) -> object:
        """What the log says, as plain values."""
        return self.value, self.consumer_commits, self.transactional_commits

    def membership(self) -> Rebalance:
        """The members and their rebalance, from the last record if there is no later news.

        Changing what this returns has an effect only if it is put into `rebalance`.
        """
        return self.rebalance or Rebalance.restored(self.value)

    def is_subscribed_to(self, topic: str) -> bool:
        """Kafka's ClassicGroup.isSubscribedToTopic; a consumer we cannot read may subscribe to all."""
        if self.protocol_type != "consumer":
            return False
        topics = self.membership().subscribed_topics()
        return topics is None or topic in topics
