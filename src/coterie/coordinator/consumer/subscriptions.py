"""What the members of a group subscribe to, by name and by pattern, and what of it exists.

Patterns are RE2, as Kafka's; the package that runs them is loaded when the first one comes. Pure; used by
the handlers of this package.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

from xxhash import xxh3_64_digest

from coterie.coordinator.consumer.group import ConsumerGroup, count
from coterie.coordinator.consumer.member import Member
from coterie.coordinator.outcome import Refused, Topic, TopicView
from coterie.error_codes import ErrorCode
from coterie.protocol.types import Uuid

__all__ = [
    "Subscriptions",
    "check_regex",
    "group_hash",
    "matching_topics",
    "subscribed_names",
    "subscribed_topics",
    "whole_match",
    "xxh3_64",
]

#: What RE2 says of a pattern, and what the Java port of it in Kafka says of the same.
_JAVA_WORDS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
}


class Subscriptions:
    """The subscriptions of a group as they are, or as they would be with some members changed."""

    __slots__ = ("_names", "_regexes", "members", "regex_counts")

    def __init__(self, group: ConsumerGroup) -> None:
        self._names = dict(group.topic_counts)
        self.regex_counts = dict(group.regex_counts)
        self._regexes = {pattern: value.topics for pattern, value in group.regexes.items()}
        self.members = len(group.members)

    def change(self, old: Member | None, new: Member | None) -> Subscriptions:
        """One member comes, changes or goes; who takes a static member's place replaces it."""
        for member, by in ((old, -1), (new, 1)):
            if member is not None:
                self.members += by
                for name in member.topic_names:
                    count(self._names, name, by)
                if member.regex:
                    count(self.regex_counts, member.regex, by)
        return self

    def resolve(self, pattern: str, topics: tuple[str, ...]) -> None:
        """A pattern was found to match these topics."""
        self._regexes[pattern] = topics

    def is_homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics, in the same way (Kafka's subscriptionType)."""
        if self.regex_counts:
            same = len(self.regex_counts) == 1 and not self._names
            return same and self.members in self.regex_counts.values()
        return all(each == self.members for each in self._names.values())

    def metadata_hash(self, topics: TopicView) -> int:
        names = set(self._names)
        for pattern in self.regex_counts:
            names.update(self._regexes.get(pattern, ()))
        return group_hash(names, topics)


def subscribed_names(group: ConsumerGroup, member: Member) -> tuple[str, ...]:
    """The topics that a member subscribes to; a pattern that was not run yet matches none."""
    metadata = member.metadata
    names, pattern = metadata.subscribed_topic_names, metadata.subscribed_topic_regex
    resolved = group.regexes.get(pattern) if pattern else None
    if resolved is None:
        return names
    return tuple(sorted({*names, *resolved.topics})) if names else resolved.topics


def subscribed_topics(names: Iterable[str], topics: TopicView) -> tuple[Uuid, ...]:
    """Those of the topics that exist."""
    by_name = topics.by_name
    return tuple([topic.topic_id for name in names if (topic := by_name(name)) is not None])


def check_regex(pattern: str) -> None:
    """Refuse what RE2 cannot read."""
    import re2  # noqa: PLC0415 - only groups with patterns need it

    try:
        re2.compile(pattern, _options())
    except re2.error as error:
        said = error.args[0] if error.args else ""
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        reason = text.split(": ", maxsplit=1)[0]
        raise Refused(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: "
            f"{_JAVA_WORDS.get(reason, reason)}.",
        ) from None


def matching_topics(patterns: Iterable[str], topics: TopicView) -> dict[str, tuple[str, ...]]:
    """For each pattern the names that it matches as a whole, sorted; one that cannot be read has none."""
    names = sorted(topics.names())
    found: dict[str, tuple[str, ...]] = {}
    for pattern in patterns:
        matches = whole_match(pattern)
        found[pattern] = () if matches is None else tuple([each for each in names if matches(each)])
    return found


def whole_match(pattern: str) -> Callable[[str], object] | None:
    """The function that matches a pattern with a whole name; None if RE2 cannot read the pattern."""
    import re2  # noqa: PLC0415 - only groups with patterns need it

    try:
        matches: Callable[[str], object] = re2.compile(pattern, _options()).fullmatch
    except re2.error:
        return None
    return matches


def _options() -> object:
    """RE2's defaults, without its habit of writing to stderr."""
    import re2  # noqa: PLC0415 - only groups with patterns need it

    options = re2.Options()
    options.log_errors = False
    return options


def group_hash(names: Iterable[str], topics: TopicView) -> int:
    """The hash of all subscribed topics that exist, sorted by name; 0 if none exists.

    A group stores it in its record. When the hash changes, a topic was created, deleted or got more
    partitions, and the group needs a new assignment. The hashed bytes are those of Kafka since 4.1, so a log
    that moves between Kafka and Coterie causes no rebalance.
    """
    found = [topic for name in names if (topic := topics.by_name(name)) is not None]
    if not found:
        return 0
    found.sort(key=lambda topic: topic.name)
    return xxh3_64(b"".join(struct.pack("<q", _topic_hash(each)) for each in found))


@lru_cache(maxsize=4096)
def _topic_hash(topic: Topic) -> int:
    """Kafka's Utils.computeTopicHash: a magic byte, id, name and its length, partitions. No racks here."""
    name = topic.name.encode("utf-16-le")
    most, least = struct.unpack(">qq", topic.topic_id)
    head = struct.pack("<bqq", 0, most, least) + name + struct.pack("<i", len(name) // 2)
    numbers = (topic.partitions, *range(topic.partitions))
    return xxh3_64(head + struct.pack(f"<{len(numbers)}i", *numbers))


def xxh3_64(data: bytes) -> int:
    """XXH3, 64 bits, seed 0, as a signed number."""
    return int.from_bytes(xxh3_64_digest(data), "big", signed=True)
