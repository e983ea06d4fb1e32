"""Subscriptions by pattern: when the patterns of a group are run, and what follows from what they match.

A heartbeat does not run them: it says that they are to be run, and gets its answer; the topics come with a
record of their own, and then with the next heartbeat. Topics that the member may not know of do not match.
All patterns of a group are run together, so that
they cause one rebalance and not many. Called by the handlers of this package and, when it is time, by the
shard.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from enum import Enum
from typing import Final

from coterie.coordinator.config import GroupConfig
from coterie.coordinator.consumer.deadlines import Deadlines
from coterie.coordinator.consumer.group import ConsumerGroup, count
from coterie.coordinator.consumer.member import Member
from coterie.coordinator.consumer.records import epoch_record
from coterie.coordinator.consumer.subscriptions import (
    Subscriptions,
    check_regex,
    matching_topics,
)
from coterie.coordinator.outcome import Record, RequestContext, Step, TopicView
from coterie.coordinator.timers import MemberSubject, Reason
from coterie.protocol.group_records.consumer import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)

__all__ = ["RegexChange", "Regexes", "regex_tombstone"]

#: Kafka's REGEX_BATCH_REFRESH_MIN_INTERVAL_MS.
_SHORTEST_INTERVAL_MS: Final = 10_000


class RegexChange(Enum):
    """What a heartbeat did to its member's pattern."""

    NONE = "none"
    #: Another pattern, whose topics are not known yet.
    UPDATED = "updated"
    #: Another pattern whose topics are known, or none any more.
    RESOLVED = "resolved"


def regex_tombstone(group_id: str, pattern: str) -> Record:
    return Record(ConsumerGroupRegularExpressionKey(group_id, pattern))


class Regexes:
    """The patterns of all consumer groups of a shard."""

    __slots__ = ("_config", "_deadlines", "_viewers")

    def __init__(self, config: GroupConfig, deadlines: Deadlines) -> None:
        self._config = config
        self._deadlines = deadlines
        #: By group, what the member may see whose heartbeat had the patterns run.
        self._viewers: dict[str, Callable[[Iterable[str]], Collection[str]]] = {}

    def note(
        self,
        group: ConsumerGroup,
        old: Member | None,
        new: Member,
        context: RequestContext,
        step: Step,
    ) -> RegexChange:
        """A member may have another pattern (Kafka's maybeUpdateRegularExpressions)."""
        before = old.regex if old is not None else ""
        after = new.regex
        if before == after and not group.regex_counts:
            return RegexChange.NONE
        change, refresh = RegexChange.NONE, False
        if before != after:
            change = RegexChange.UPDATED
            if before and group.regex_counts.get(before) == 1:
                step.records.append(regex_tombstone(group.group_id, before))
            if after and after not in group.regex_counts:
                check_regex(after)
                refresh = True
            elif not after or after in group.regexes:
                change = RegexChange.RESOLVED
        if refresh or group.regex_counts:
            self._maybe_refresh(group, before, after, context, refresh=refresh)
        return change

    def _maybe_refresh(
        self,
        group: ConsumerGroup,
        before: str,
        after: str,
        context: RequestContext,
        *,
        refresh: bool,
    ) -> None:
        """Have the patterns run if one is new, topics are, or the last time is long ago."""
        subject = MemberSubject(Reason.CONSUMER_REGEX, group.group_id)
        last = next(iter(group.regexes.values()), None)
        since = context.now_ms - last.timestamp if last is not None else None
        if self._deadlines.is_set(subject) or (
            since is not None and since <= _SHORTEST_INTERVAL_MS
        ):
            return
        wanted = dict(group.regex_counts)
        for pattern, by in ((before, -1), (after, 1)):
            if pattern:
                count(wanted, pattern, by)
        if wanted and (
            refresh
            or len(wanted) != len(group.regexes)
            or last is None
            or last.version < context.topics.version
            or context.now_ms - last.timestamp > self._config.consumer_regex_refresh_interval_ms
        ):
            self._deadlines.schedule(subject, context.monotonic)
            if context.visible is not None:
                self._viewers[group.group_id] = context.visible

    def run(self, group: ConsumerGroup, topics: TopicView, step: Step) -> None:
        """Run all patterns of a group, and write down what they match (handleRegularExpressionsResult)."""
        wanted = Subscriptions(group)
        bump = False
        visible = self._viewers.pop(group.group_id, None)
        for pattern, matched in matching_topics(group.regex_counts, topics).items():
            names = matched
            if visible is not None:
                seen = visible(matched)
                names = tuple([each for each in matched if each in seen])
            known = group.regexes.get(pattern)
            bump = bump or names != (known.topics if known is not None else ())
            wanted.resolve(pattern, names)
            key = ConsumerGroupRegularExpressionKey(group.group_id, pattern)
            value = ConsumerGroupRegularExpressionValue(names, topics.version, step.now_ms)
            step.records.append(Record(key, value))
        metadata_hash = wanted.metadata_hash(topics)
        if step.records and (bump or metadata_hash != group.metadata_hash):
            step.records.append(epoch_record(group.group_id, group.epoch + 1, metadata_hash))
            group.seen_topics = topics.version
