"""Which groups and topics are wanted: as narrow as the asker said, and exact.

It narrows requests where they can be narrowed, and rows where not. Values are plain, for other processes.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any

import msgspec
import pyarrow as pa
import re2

from coterie.errors import InvalidArgument

__all__ = ["Selection"]

Names = frozenset[str] | None


class Selection(msgspec.Struct, frozen=True):
    """What is wanted; None is anything, and all that is said must hold."""

    groups: Names = None
    #: Each is a beginning that the group's name must have.
    group_prefixes: tuple[str, ...] = ()
    #: A pattern, in RE2, that the whole name must match.
    group_regex: str | None = None
    states: Names = None
    types: Names = None
    topics: Names = None

    def __post_init__(self) -> None:
        if self.group_regex is not None:
            _pattern(self.group_regex)

    @property
    def impossible(self) -> bool:
        """Whether nothing can be wanted: names that exclude each other."""
        return any(
            each is not None and not each
            for each in (self.groups, self.states, self.types, self.topics)
        )

    def narrowed(self, field: str, values: Collection[str]) -> Selection:
        """The same, with a field limited to some values."""
        known: Names = getattr(self, field)
        both = frozenset(values) if known is None else known & frozenset(values)
        return msgspec.structs.replace(self, **{field: both})

    def beginning(self, prefix: str) -> Selection:
        """The same, for groups whose names begin so."""
        return msgspec.structs.replace(self, group_prefixes=(*self.group_prefixes, prefix))

    def wants_group(self, group_id: str) -> bool:
        if self.groups is not None and group_id not in self.groups:
            return False
        if not all(group_id.startswith(each) for each in self.group_prefixes):
            return False
        return self.group_regex is None or bool(_pattern(self.group_regex).fullmatch(group_id))

    def wants_topic(self, topic: str) -> bool:
        return self.topics is None or topic in self.topics

    @property
    def chooses_groups(self) -> bool:
        """Whether groups are chosen by their names."""
        return self.groups is not None or bool(self.group_prefixes) or self.group_regex is not None

    def filter_log(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Which rows of a log dataset are wanted, by their columns; None is all of them."""
        if not self.chooses_groups and self.topics is None:
            return None
        import pyarrow.compute as pc

        masks = []
        if self.chooses_groups:
            group_id = batch.column("group_id")
            masks += [] if self.groups is None else [pc.is_in(group_id, _values(self.groups))]
            masks += [pc.starts_with(group_id, each) for each in self.group_prefixes]
            if self.group_regex is not None:
                masks.append(_matches(group_id, self.group_regex))
        if self.topics is not None and "topic" in batch.schema.names:
            masks.append(pc.is_in(batch.column("topic"), _values(self.topics)))
        if not masks:
            return None
        found = masks[0]
        for each in masks[1:]:
            found = pc.and_(found, each)
        return found


def _values(names: frozenset[str]) -> pa.Array:
    return pa.array(sorted(names), pa.string())


def _matches(names: pa.Array, pattern: str) -> pa.Array:
    """Which names match as a whole: by the engine that chooses groups everywhere else, each name once."""
    coded = names.dictionary_encode()
    found = [bool(_pattern(pattern).fullmatch(name)) for name in coded.dictionary.to_pylist()]
    return pa.array(found, pa.bool_()).take(coded.indices)


@cache
def _pattern(text: str) -> Any:
    options = re2.Options()
    options.log_errors = False  # the caller gets the error; nothing is logged
    try:
        return re2.compile(text, options)
    except re2.error as error:
        cause = error.args[0].decode()
        raise InvalidArgument(f"group.regex: {text!r} is not a pattern: {cause}") from None
