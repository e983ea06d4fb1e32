"""The parts of an admin client, each made from what it depends on when a call first needs it.

A list of groups needs few of them: the others, and the messages that they send, are imported late.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from coterie.client.coordinators import Coordinators, Leaders
from coterie.client.groups import Groups
from coterie.client.network import Deadline, Network
from coterie.client.results import GroupDescription, Result

if TYPE_CHECKING:
    from coterie.client.acls import Acls
    from coterie.client.committed_offsets import CommittedOffsets
    from coterie.client.lag import LagReader
    from coterie.client.logs import Logs
    from coterie.client.reset_planner import ResetPlanner
    from coterie.client.topics import Topics

__all__ = ["Parts"]


class Parts:
    """The parts of one client. They share connections and what is known of coordinators and leaders."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.coordinators = Coordinators(network)
        self.leaders = Leaders(network)
        self.groups = Groups(network, self.coordinators)

    @cached_property
    def offsets(self) -> CommittedOffsets:
        from coterie.client.committed_offsets import CommittedOffsets

        return CommittedOffsets(self._network, self.coordinators)

    @cached_property
    def logs(self) -> Logs:
        from coterie.client.logs import Logs

        return Logs(self._network, self.leaders)

    @cached_property
    def lags(self) -> LagReader:
        from coterie.client.lag import LagReader

        return LagReader(self.coordinators, self.groups, self.offsets, self.logs)

    @cached_property
    def resets(self) -> ResetPlanner:
        from coterie.client.reset_planner import ResetPlanner

        return ResetPlanner(self.coordinators, self.groups, self.offsets, self.logs, self.topics)

    @cached_property
    def topics(self) -> Topics:
        from coterie.client.topics import Topics

        return Topics(self._network)

    @cached_property
    def acls(self) -> Acls:
        from coterie.client.acls import Acls

        return Acls(self._network)

    async def with_records(
        self, described: Result[str, GroupDescription], deadline: Deadline
    ) -> Result[str, GroupDescription]:
        """Descriptions with what the groups' records in the offsets topic add to them."""
        from coterie.client.group_log import with_records

        return await with_records(self._network, self.logs, described, deadline)
