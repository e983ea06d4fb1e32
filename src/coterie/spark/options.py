"""The options of the data source: what may be said, checked at once, and what follows from it.

Spark hands options over with names in small letters. Client settings go by their own names; everything else
is in OPTIONS. No option is ever printed, for it may be a secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from coterie.datasets.log import BYTES_PER_OFFSET, LogQuery, LogRange, LogSource, SegmentSource
from coterie.datasets.schemas import DATASETS, LIVE, LOG, dataset
from coterie.datasets.selection import Selection
from coterie.datasets.times import milliseconds
from coterie.errors import InvalidArgument, InvalidSetting
from coterie.protocol.group_state import GroupState, GroupType

if TYPE_CHECKING:
    from coterie.datasets.cluster import ClusterSource
    from coterie.datasets.live import LiveQuery
from coterie.vocabulary.columns import Table

__all__ = ["OPTIONS", "WITH_TOPICS", "SourceOptions"]

#: Every option that is no client setting, as users write it, and what it does.
OPTIONS: Final = {
    "path": "The dataset: what is given to `load`.",
    "segments": "Directory of segment files to read instead of a cluster (log datasets).",
    "client.properties": "File with client settings, so that secrets need not be options.",
    "columns": "Names of the columns that are wanted, with commas; others cost nothing.",
    "partial": "`allow`: an answer that is not whole will do; without it such a query fails.",
    "groups": "Names of groups, with commas: `group_id IN (...)`.",
    "group.prefix": "How names of groups begin: `group_id LIKE 'x%'`.",
    "group.regex": "Pattern (RE2) for whole names of groups; what `RLIKE` and `OR` cannot push.",
    "states": "States of groups, with commas.",
    "types": "Types of groups, with commas: classic, consumer, share, streams.",
    "topics": "Names of topics, with commas.",
    "partitions": "Numbers of partitions of `__consumer_offsets`, with commas.",
    "startingOffsets": '`earliest`, or JSON such as `{"0": 1500}`; for a stream also `latest`.',
    "endingOffsets": '`latest`, or JSON such as `{"0": 2500}`; not included.',
    "startingTimestamp": "First time of records: epoch milliseconds or ISO 8601.",
    "endingTimestamp": "Time before which records were written.",
    "failOnDataLoss": "`false`: records that were deleted before they could be read are skipped.",
    "maxOffsetsPerTrigger": "Records of one micro-batch at most.",
    "maxBytesPerTrigger": "Bytes of one micro-batch at most, about.",
    "bytesPerTask": "How much of the log one task reads, about (32m).",
    "pushdown": "`false`: leave all filters to Spark.",
}
_BY_LOWER: Final = {name.lower(): name for name in OPTIONS}

#: Datasets whose rows are about topics.
WITH_TOPICS: Final = frozenset({"commits", "assignments", "offsets", "end_offsets"})
_WITH_GROUPS: Final = frozenset(DATASETS) - {"end_offsets"}
_WITH_STATES: Final = frozenset({"groups", "members", "assignments", "offsets", "errors"})
_OF_THE_LOG: Final = frozenset(LOG)
#: Options that choose, and the datasets that have something to choose by them.
_CHOOSING: Final = {
    "groups": _WITH_GROUPS,
    "group.prefix": _WITH_GROUPS,
    "group.regex": _WITH_GROUPS,
    "states": _WITH_STATES,
    "types": _WITH_STATES,
    # What cannot be learned of a topic is in `errors`, too.
    "topics": WITH_TOPICS | {"errors"},
    "partitions": _OF_THE_LOG,
    "startingOffsets": _OF_THE_LOG,
    "endingOffsets": _OF_THE_LOG,
    "startingTimestamp": _OF_THE_LOG,
    "endingTimestamp": _OF_THE_LOG,
}

_BYTES_PER_TASK: Final = 32 << 20
#: Spark counts with 64 bits, and so does Kafka.
_MOST: Final = 2**63 - 1
_Partition = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Offset = Annotated[int, msgspec.Meta(ge=0, le=_MOST)]
_UNITS: Final = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class SourceOptions(msgspec.Struct, frozen=True):
    """What the options of a DataFrame mean. Holds secrets, so it does not print."""

    dataset: Table
    properties: dict[str, str]
    selection: Selection
    columns: tuple[str, ...] | None = None
    segments: str | None = None
    partial: bool = False
    partitions: frozenset[int] | None = None
    #: Those that the option names. Filters narrow them, and may ask for what there is not.
    named: frozenset[int] = frozenset()
    starting: dict[int, int] = {}
    starting_latest: bool = False
    ending: dict[int, int] = {}
    start_ms: int | None = None
    end_ms: int | None = None
    fail_on_data_loss: bool = True
    max_offsets: int | None = None
    max_bytes: int | None = None
    bytes_per_task: int = _BYTES_PER_TASK
    pushdown: bool = True

    def __repr__(self) -> str:
        return f"<options of {self.dataset.name}>"

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceOptions:
        """Read options; raises for one that there is not, or that cannot be meant."""
        given, properties = _sorted_out(options)
        name = given.get("path")
        if name is None:
            raise InvalidArgument(
                "no dataset is named; end with .load('groups'), or another of docs/datasets.md"
            )
        chosen = dataset(name)
        columns = _names(given, "columns")
        offsets = _offsets(given, "startingOffsets", ("earliest", "latest"))
        found = cls(
            dataset=chosen,
            properties=properties,
            selection=_selection(given),
            columns=columns,
            segments=given.get("segments"),
            partial=_choice(given, "partial", {"allow": True, "fail": False}, default=False),
            partitions=_partitions(given),
            named=_partitions(given) or frozenset(),
            starting=offsets,
            starting_latest=given.get("startingOffsets", "").strip().lower() == "latest",
            ending=_offsets(given, "endingOffsets", ("latest",)),
            start_ms=_time(given, "startingTimestamp"),
            end_ms=_time(given, "endingTimestamp"),
            fail_on_data_loss=_flag(given, "failOnDataLoss"),
            max_offsets=_number(given, "maxOffsetsPerTrigger"),
            max_bytes=_number(given, "maxBytesPerTrigger"),
            bytes_per_task=_number(given, "bytesPerTask") or _BYTES_PER_TASK,
            pushdown=_flag(given, "pushdown"),
        )
        found._check(given)
        return found

    def _check(self, given: Mapping[str, str]) -> None:
        if self.dataset.name in LIVE and self.segments is not None:
            raise InvalidArgument(
                f"dataset {self.dataset.name!r} is asked of a running cluster;"
                " give bootstrap.servers instead of segments"
            )
        for name, datasets in _CHOOSING.items():
            if name in given and self.dataset.name not in datasets:
                raise InvalidArgument(
                    f"{name} chooses nothing of {self.dataset.name!r}: it is for"
                    f" {', '.join(each for each in DATASETS if each in datasets)}; leave it out"
                )
        if self.segments is None:
            from coterie.client.settings import ClientSettings

            ClientSettings.of(dict(self.properties))
        elif self.properties:
            raise InvalidArgument(
                "segments and client settings are both given; files need no cluster, so leave out"
                f" {', '.join(sorted(self.properties))}"
            )

    def check_batch(self) -> None:
        """Raise for what only a stream can do."""
        if self.starting_latest:
            raise InvalidArgument(
                f"startingOffsets=latest is for streams: a batch of {self.dataset.name!r} would read"
                " nothing; use readStream, or give offsets or earliest"
            )

    def check_stream(self) -> None:
        """Raise for what a stream cannot do, or cannot do without losing records."""
        if self.dataset.name not in LOG:
            raise InvalidArgument(
                f"dataset {self.dataset.name!r} is no stream; read it as a batch, or stream"
                " 'commits', 'group_events' or 'log'"
            )
        if self.partial:
            raise InvalidArgument(
                f"partial=allow is not for a stream of {self.dataset.name!r}: it would go on behind"
                " what could not be read, and never come back; leave it out"
            )
        if self.ending:
            raise InvalidArgument(
                f"endingOffsets is not for a stream of {self.dataset.name!r}: it has no end; leave it"
                " out, or read a batch"
            )

    def check_partitions(self, known: Collection[int] | None = None) -> None:
        """Raise if an option names a partition that the log, if there is one, does not have."""
        by_option: dict[str, Collection[int]] = {
            "partitions": self.named,
            "startingOffsets": self.starting,
            "endingOffsets": self.ending,
        }
        if not any(by_option.values()):
            return
        known = known if known is not None else self._log_partitions()
        for name, numbers in by_option.items():
            lost = sorted(set(numbers) - set(known))
            if lost and known:
                raise InvalidArgument(
                    f"{name}: there is no partition {lost[0]} of the log, which has {len(known)} (from"
                    f" {min(known)} to {max(known)}); leave it out"
                )

    def _log_partitions(self) -> Collection[int]:
        if self.segments is None:
            return self._cluster.partitions()
        return SegmentSource.at(self.segments).partitions

    @property
    def max_rows(self) -> int | None:
        """Records of one micro-batch at most, by the narrower of the two limits."""
        by_bytes = None if self.max_bytes is None else max(1, self.max_bytes // BYTES_PER_OFFSET)
        return min((each for each in (self.max_offsets, by_bytes) if each), default=None)

    @property
    def source(self) -> LogSource:
        """Where the log is."""
        return self._cluster if self.segments is None else SegmentSource.at(self.segments)

    def log_ends(self) -> dict[int, int]:
        """Where the log of each partition ends, open transactions included."""
        if self.segments is None:
            return self._cluster.ends()
        return {number: end for number, (_, end) in self.source.bounds().items()}

    @property
    def _cluster(self) -> ClusterSource:
        # A client is imported where there is a cluster: each of Spark's processes would wait for it.
        from coterie.datasets.cluster import ClusterSource

        return ClusterSource(
            self.properties,
            skip_deleted=not self.fail_on_data_loss,
            partial=self.partial,
            keep_client=True,
        )

    @property
    def range(self) -> LogRange:
        return LogRange(self.starting, self.ending, self.start_ms, self.partitions)

    def log_query(self, columns: tuple[str, ...]) -> LogQuery:
        return LogQuery(self.dataset.name, columns, self.selection, self.start_ms, self.end_ms)

    def live_query(self, columns: tuple[str, ...]) -> LiveQuery:
        from coterie.datasets.live import LiveQuery

        return LiveQuery(self.dataset.name, columns, self.selection, self.partial)


def _sorted_out(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Our own options by their full names, and client settings."""
    given: dict[str, str] = {}
    properties: dict[str, str] = {}
    for name, value in options.items():
        known = _BY_LOWER.get(name.lower())
        if known is not None:
            given[known] = value
        elif _is_setting(name):
            properties[name] = value
        else:
            near = difflib.get_close_matches(name.lower(), _BY_LOWER, n=1)
            hint = f"; did you mean {_BY_LOWER[near[0]]!r}?" if near else ""
            raise InvalidSetting(f"there is no option {name!r}{hint}")
    if "client.properties" in given:
        from coterie.client.settings import read_properties

        from_file = read_properties(given["client.properties"])
        properties = {name: str(value) for name, value in from_file.items()} | properties
    return given, properties


def _is_setting(name: str) -> bool:
    """Whether a client knows it."""
    from coterie.client.settings import ClientSettings

    return ClientSettings.knows(name)


def _names(given: Mapping[str, str], name: str) -> tuple[str, ...] | None:
    if name not in given:
        return None
    found = tuple(each.strip() for each in given[name].split(",") if each.strip())
    if not found:
        raise InvalidArgument(f"{name} is empty; leave it out for all of them")
    return found


def _selection(given: Mapping[str, str]) -> Selection:
    prefix = given.get("group.prefix")
    return Selection(
        groups=_set(_names(given, "groups")),
        group_prefixes=() if prefix is None else (prefix,),
        group_regex=given.get("group.regex"),
        states=_set(_known(given, "states", GroupState)),
        types=_set(_known(given, "types", GroupType)),
        topics=_set(_names(given, "topics")),
    )


def _set(names: tuple[str, ...] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)


def _known(given: Mapping[str, str], name: str, kind: type[StrEnum]) -> tuple[str, ...] | None:
    """Values in Kafka's spelling."""
    names = _names(given, name)
    if names is None:
        return None
    known = {each.value.lower(): each.value for each in kind if each.value != "Unknown"}
    for each in names:
        if each.lower() not in known:
            raise InvalidArgument(
                f"{name}: there is no {each!r}; there are {', '.join(known.values())}"
            )
    return tuple(known[each.lower()] for each in names)


def _choice(
    given: Mapping[str, str], name: str, known: Mapping[str, bool], *, default: bool
) -> bool:
    text = given.get(name)
    if text is None:
        return default
    if text.strip().lower() not in known:
        raise InvalidArgument(f"{name} is {' or '.join(known)}, not {text!r}")
    return known[text.strip().lower()]


def _flag(given: Mapping[str, str], name: str) -> bool:
    return _choice(given, name, {"true": True, "false": False}, default=True)


def _number(given: Mapping[str, str], name: str) -> int | None:
    """A number above 0, maybe with a unit of bytes."""
    if name not in given:
        return None
    text = given[name].strip().lower()
    unit = _UNITS.get(text[-1:], 1)
    digits = text[:-1] if unit > 1 else text
    found = int(digits) * unit if _is_number(digits) else 0
    if not 0 < found <= _MOST:
        raise InvalidArgument(f"{name} is a number above 0, such as 10000 or 32m; not {text!r}")
    return found


def _is_number(text: str) -> bool:
    # Other alphabets have digits too, and Python takes no number of thousands of them.
    return text.isascii() and text.isdecimal() and len(text) <= len(str(_MOST))


def _time(given: Mapping[str, str], name: str) -> int | None:
    return milliseconds(given[name], name) if name in given else None


def _partitions(given: Mapping[str, str]) -> frozenset[int] | None:
    names = _names(given, "partitions")
    if names is None:
        return None
    for each in names:
        if not _is_number(each):
            raise InvalidArgument(f"partitions are numbers with commas, such as 0,7; not {each!r}")
    return frozenset(map(int, names))


def _offsets(given: Mapping[str, str], name: str, words: tuple[str, ...]) -> dict[int, int]:
    """Offsets by partition, from JSON; as the Kafka connector has it, with the topic, will do too."""
    text = given.get(name, words[0]).strip()
    if text.lower() in words:
        return {}
    try:
        by_topic = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        if set(by_topic) == {"__consumer_offsets"}:
            return _by_partition(by_topic["__consumer_offsets"])
        return _by_partition(text)
    except msgspec.DecodeError:
        raise InvalidArgument(
            f"{name} is {' or '.join(words)}, or JSON with an offset of 0 or more for each partition"
            f' such as {{"0": 1500}}; not {text!r}'
        ) from None


def _by_partition(text: str | msgspec.Raw) -> dict[int, int]:
    return msgspec.json.decode(text, type=dict[_Partition, _Offset], strict=False)
