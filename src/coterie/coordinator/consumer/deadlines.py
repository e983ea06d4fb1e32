"""The deadlines of members of consumer groups, and of patterns that wait to be run.

Kept by group and member id and not in the group: a group may be made anew by replay (a conversion, for
example) while its members go on. What happens at a deadline is decided elsewhere; one that comes late, for
a member that is gone, is to be ignored there.
"""

from __future__ import annotations

from coterie.coordinator.phases import Subject
from coterie.coordinator.timers import Deadline, MemberSubject, Reason, Timers

__all__ = ["MEMBER_REASONS", "Deadlines"]

#: What ends a member, in Kafka's order of cancelling.
MEMBER_REASONS = (
    Reason.CONSUMER_SESSION,
    Reason.CONSUMER_REBALANCE,
    Reason.CONSUMER_JOIN,
    Reason.CONSUMER_SYNC,
)

_Key = tuple[Reason, str, str]
_Deadline = Deadline[Subject | MemberSubject]


class Deadlines:
    """At most one deadline for each reason, group and member."""

    __slots__ = ("_set", "_timers")

    def __init__(self, timers: Timers[Subject | MemberSubject]) -> None:
        self._timers = timers
        self._set: dict[_Key, _Deadline] = {}

    def schedule(self, subject: MemberSubject, at: float) -> None:
        """Set a deadline, or move it."""
        key = (subject.reason, subject.group_id, subject.member_id)
        deadline = self._set.get(key)
        if deadline is None:
            deadline = self._set[key] = Deadline(subject)
        elif deadline.subject != subject:
            deadline.subject = subject
        self._timers.schedule(deadline, at)

    def move(self, reason: Reason, group_id: str, member_id: str, at: float) -> None:
        """The same for what is moved with every heartbeat, and has no more to say."""
        deadline = self._set.get((reason, group_id, member_id))
        if deadline is None:
            self.schedule(MemberSubject(reason, group_id, member_id), at)
        else:
            self._timers.schedule(deadline, at)

    def is_set(self, subject: MemberSubject) -> bool:
        return (subject.reason, subject.group_id, subject.member_id) in self._set

    def cancel(self, reason: Reason, group_id: str, member_id: str) -> None:
        deadline = self._set.pop((reason, group_id, member_id), None)
        if deadline is not None:
            self._timers.cancel(deadline)

    def cancel_all(self, group_id: str, member_id: str) -> None:
        """A member is gone."""
        for reason in MEMBER_REASONS:
            self.cancel(reason, group_id, member_id)

    def has_come(self, subject: MemberSubject) -> None:
        """The timers have taken this one out."""
        self._set.pop((subject.reason, subject.group_id, subject.member_id), None)
