"""Arguments of calls, checked before anything is sent. Pure: values in, values out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeVar

from coterie.client.results import PartitionOffset, TopicPartition
from coterie.errors import InvalidArgument

__all__ = [
    "EARLIEST",
    "LATEST",
    "check_names",
    "choice",
    "is_read_committed",
    "offsets_to_commit",
    "span_of",
    "timestamp_of",
]

#: The timestamps that stand for the end and the beginning of a log in ListOffsets.
LATEST: Final = -1
EARLIEST: Final = -2
#: Isolation levels, at the index that is their number in requests.
_ISOLATION: Final = ("read_uncommitted", "read_committed")
#: The protocol writes the length of a name in two bytes.
_LONGEST_NAME: Final = 32767

E = TypeVar("E", bound=StrEnum)


def check_names(
    names: Iterable[str], what: str = "group", known: Container[object] = ()
) -> list[str]:
    """The names as a list, if all of them are possible. A `known` name came from a broker and is right."""
    if isinstance(names, str):
        raise InvalidArgument(f"give a list of {what} names, not the single string {names!r}")
    found = list(names)
    for name in found:
        if not isinstance(name, str):
            raise InvalidArgument(f"a {what} name is a string, and not {name!r}")
        if name not in known:
            _check_name(name, what)
    for name, times in Counter(found).items():
        if times > 1:
            raise InvalidArgument(f"{what} {name!r} is given {times} times; give it once")
    return found


def _check_name(name: str, what: str) -> None:
    if not name:
        raise InvalidArgument(f"a {what} name is empty; leave it out, or give the name")
    if "\0" in name:
        raise InvalidArgument(f"{what} {name!r} has a null byte in its name; leave that out")
    size = len(name.encode(errors="surrogatepass"))
    if size > _LONGEST_NAME:
        raise InvalidArgument(
            f"a {what} name has {size} bytes, and {_LONGEST_NAME} is the most; it begins {name[:40]!r}"
        )
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(
            f"{what} {name!r} cannot be written in UTF-8; give it as text"
        ) from None


def choice(kind: type[E], name: str, wanted: Collection[E | str] | None) -> tuple[str, ...]:
    """The values of a filter in Kafka's spelling. An empty filter is an error: it would match nothing."""
    if wanted is None:
        return ()
    if isinstance(wanted, str):
        wanted = [wanted]
    if not wanted:
        raise InvalidArgument(
            f"{name} is empty, and would list nothing; leave it out for all groups"
        )
    known = {each.value.lower(): each for each in kind if each.value != "Unknown"}
    found: dict[str, None] = {}
    for each in wanted:
        member = known.get(str(each).strip().lower())
        if member is None:
            import difflib

            near = difflib.get_close_matches(str(each).lower(), known, n=1)
            everything = ", ".join(one.value for one in known.values())
            hint = f"did you mean {known[near[0]].value!r}?" if near else f"one of {everything}"
            raise InvalidArgument(f"{name}: there is no {str(each)!r}; {hint}")
        found[member.value] = None
    return tuple(found)


def is_read_committed(isolation: str) -> bool:
    """Whether an isolation level is `read_committed`."""
    if isolation not in _ISOLATION:
        raise InvalidArgument(f"isolation is one of {', '.join(_ISOLATION)}, not {isolation!r}")
    return isolation == _ISOLATION[1]


def timestamp_of(at: str | datetime | int) -> int:
    """The timestamp that ListOffsets takes for a moment."""
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise InvalidArgument(f"{at} has no time zone; give it one, such as tzinfo=UTC")
        return round(at.timestamp() * 1000)
    if isinstance(at, int) and at >= 0:
        return at
    known = {"earliest": EARLIEST, "latest": LATEST}
    if at not in known:
        raise InvalidArgument(
            f"at is 'earliest', 'latest', a datetime or milliseconds since 1970, not {at!r}"
        )
    return known[str(at)]


def span_of(
    partition: TopicPartition, span: int | tuple[int | None, int | None]
) -> tuple[int | None, int | None]:
    """The first offset to read, and the offset to stop at."""
    start, end = (span, None) if isinstance(span, int) else span
    if (start or 0) < 0 or (end or 0) < 0:
        raise InvalidArgument(f"partition {partition}: an offset is 0 or more, not {span!r}")
    return start, end


def offsets_to_commit(
    group: str, offsets: Mapping[TopicPartition, int | PartitionOffset]
) -> dict[TopicPartition, PartitionOffset]:
    """The offsets of a group, with leader epoch and metadata where they are given."""
    if not offsets:
        raise InvalidArgument(f"group {group!r}: no offset is given")
    wanted = {
        partition: each if isinstance(each, PartitionOffset) else PartitionOffset(each)
        for partition, each in offsets.items()
    }
    for partition, each in wanted.items():
        if each.offset < 0:
            raise InvalidArgument(
                f"group {group!r}, {partition}: an offset is 0 or more, not {each.offset}"
            )
    return wanted
