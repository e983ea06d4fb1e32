"""What responses of brokers leave out, from a group's latest records in the offsets topic (`deep=True`).

Apache Kafka's answers have neither generation nor leader of a classic group, nor the protocols of a member;
its records have. Only the partitions of the groups in question are read, from their ends backwards, until
each group's record is found: it is near the end if the group has lately rebalanced. A classic group's
record holds the chosen protocol alone; the protocols that a member offered are recorded only for members
of KIP-848 groups that still speak the classic protocol. What is in no record stays None.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from coterie.client.arguments import EARLIEST, LATEST
from coterie.client.fetching import FetchPlan
from coterie.client.logs import Logs
from coterie.client.network import Deadline, Network
from coterie.client.probing import OFFSETS_TOPIC
from coterie.client.record_batches import FetchedRecords
from coterie.client.results import GroupDescription, Member, Result, TopicPartition
from coterie.errors import CoterieError
from coterie.protocol.group_records import decode_value, encode_key
from coterie.protocol.group_records.classic import GroupMetadataKey, GroupMetadataValue
from coterie.protocol.group_records.consumer import (
    ConsumerGroupMemberMetadataKey,
)
from coterie.protocol.group_state import GroupState, GroupType, partition_for
from coterie.protocol.records.compression import Buffer
from coterie.protocol.schema import RecordKey, RecordValue

__all__ = ["with_records"]

#: How many offsets the first look goes back; each next one goes back eight times as far.
_FIRST_LOOK: Final = 4096
_GROWTH: Final = 8

#: In these states memory and log agree; while a group rebalances, the log is older.
_AT_REST: Final = frozenset({GroupState.EMPTY, GroupState.STABLE, GroupState.DEAD})


class _Found(NamedTuple):
    """A record's value, None for a tombstone, and its place."""

    value: RecordValue | None
    partition: TopicPartition
    offset: int

    @property
    def place(self) -> str:
        return f"{self.partition}, offset {self.offset}"


async def with_records(
    network: Network, logs: Logs, described: Result[str, GroupDescription], deadline: Deadline
) -> Result[str, GroupDescription]:
    """The descriptions with what the groups' records add; complete descriptions cost nothing."""
    items = await _Search(network, logs, deadline).run(described.items.values())
    return Result(items, described.errors, described.broker_errors, GroupDescription)


class _Search:
    """One search for the records of some groups."""

    def __init__(self, network: Network, logs: Logs, deadline: Deadline) -> None:
        self._network = network
        self._logs = logs
        self._deadline = deadline
        #: Keys to look for, as bytes, by partition; those that are found leave.
        self._wanted: dict[TopicPartition, dict[bytes, RecordKey]] = {}
        self._found: dict[RecordKey, _Found] = {}
        self._trouble: dict[TopicPartition, CoterieError] = {}

    async def run(self, groups: Iterable[GroupDescription]) -> dict[str, GroupDescription]:
        groups = list(groups)
        keys = {group.group_id: list(_keys(group)) for group in groups}
        try:
            places = await self._place([group for group, theirs in keys.items() if theirs])
        except CoterieError as error:
            text = f"{OFFSETS_TOPIC} cannot be read: {error}"
            return {
                each.group_id: msgspec.structs.replace(each, not_read=text)
                if keys[each.group_id]
                else each
                for each in groups
            }
        for group, partition in places.items():
            wanted = self._wanted.setdefault(partition, {})
            wanted.update((encode_key(key), key) for key in keys[group])
        await self._search()
        return {each.group_id: self._deepened(each, keys[each.group_id], places) for each in groups}

    async def _place(self, groups: list[str]) -> dict[str, TopicPartition]:
        """The partition of each group."""
        if not groups:
            return {}
        answer = await self._network.refresh(self._deadline, (OFFSETS_TOPIC,))
        count = sum(len(topic.partitions) for topic in answer.topics)
        if not count:
            raise CoterieError("no broker shows it; DESCRIBE on the topic is needed")
        return {each: TopicPartition(OFFSETS_TOPIC, partition_for(each, count)) for each in groups}

    # -- reading --------------------------------------------------------------------------------------

    async def _search(self) -> None:
        partitions = list(self._wanted)
        if not partitions:
            return
        ends, starts = await self._logs.offsets_at(partitions, (LATEST, EARLIEST), self._deadline)
        self._trouble.update(starts.errors | ends.errors)
        left = {
            key: (starts.items[key].offset, ends.items[key].offset)
            for key in partitions
            if key not in self._trouble
        }
        size = _FIRST_LOOK
        while left:
            spans = {key: (max(start, end - size), end) for key, (start, end) in left.items()}
            await self._look(spans)
            left = {
                key: (left[key][0], begin)
                for key, (begin, _) in spans.items()
                if self._wanted[key] and key not in self._trouble and begin > left[key][0]
            }
            size *= _GROWTH

    async def _look(self, spans: dict[TopicPartition, tuple[int, int]]) -> None:
        """Read some offsets of each partition; a later record of a key overrules an earlier one."""
        found: dict[RecordKey, _Found] = {}
        plan = FetchPlan({**spans}, skip_deleted=True)
        reading = self._logs.fetch(plan, lambda: self._deadline)
        try:
            async with reading:
                async for batch in reading:
                    try:
                        found.update(_records(batch, self._wanted[batch.partition]))
                    except CoterieError as error:
                        place = batch.partition
                        self._trouble[place] = error
                        # What cannot be read may have overruled what came before it.
                        found = {key: at for key, at in found.items() if at.partition != place}
        except CoterieError as error:
            self._trouble.update(reading.errors or dict.fromkeys(spans, error))
        self._found.update(found)
        for each in found.values():
            wanted = self._wanted[each.partition]
            self._wanted[each.partition] = {
                data: key for data, key in wanted.items() if key not in found
            }

    # -- answers --------------------------------------------------------------------------------------

    def _deepened(
        self, group: GroupDescription, keys: list[RecordKey], places: dict[str, TopicPartition]
    ) -> GroupDescription:
        if not keys:
            return group
        partition = places[group.group_id]
        trouble = self._trouble.get(partition)
        records = {key: self._found[key] for key in keys if key in self._found}
        if not any(each.value is not None for each in records.values()):
            text = f"{partition} has no record of it"
            return msgspec.structs.replace(
                group,
                not_read=text if trouble is None else f"{partition} cannot be read: {trouble}",
            )
        if group.type is GroupType.CONSUMER:
            return _with_protocols(group, records)
        return _with_generation(group, records[keys[0]])


def _keys(group: GroupDescription) -> Iterator[RecordKey]:
    """The records that may have what is not known of a group."""
    if group.type is GroupType.CLASSIC:
        # A group that has only committed offsets has no generation, and no record of its own.
        if group.generation is None and group.protocol_type:
            yield GroupMetadataKey(group.group_id)
    elif group.type is GroupType.CONSUMER:
        for member in group.members:
            if member.supported_protocols is None and not member.upgraded:
                yield ConsumerGroupMemberMetadataKey(group.group_id, member.member_id)


def _records(
    batch: FetchedRecords, wanted: dict[bytes, RecordKey]
) -> Iterator[tuple[RecordKey, _Found]]:
    """Of the records that were read, those of wanted keys, in the order of the log."""
    if not wanted:
        return
    columns = batch.columns()
    # Most records are commits, whose keys are longer; only keys of a wanted size are looked at.
    fits = columns.key_length < 0
    for size in {len(data) for data in wanted}:
        fits |= columns.key_length == size
    for row in fits.nonzero()[0].tolist():
        key = wanted.get(_slice(columns.buffer, columns.key_start[row], columns.key_length[row]))
        if key is not None:
            value = None
            if columns.value_length[row] >= 0:
                data = _slice(columns.buffer, columns.value_start[row], columns.value_length[row])
                value = decode_value(key, data)
            known = value if isinstance(value, RecordValue) else None
            yield key, _Found(known, batch.partition, int(columns.offset[row]))


def _slice(buffer: Buffer, start: int, length: int) -> bytes:
    return bytes(buffer[start : start + length])


def _with_generation(group: GroupDescription, found: _Found) -> GroupDescription:
    value = found.value
    if not isinstance(value, GroupMetadataValue):
        return group
    if group.state not in _AT_REST:
        text = f"it is rebalancing; its record is of generation {value.generation}, before that"
        return msgspec.structs.replace(group, not_read=text)
    if {each.member_id for each in value.members} != {each.member_id for each in group.members}:
        text = f"it changed while {found.partition} was read; describe it again"
        return msgspec.structs.replace(group, not_read=text)
    source = dict.fromkeys(("generation", "leader_id"), found.place)
    return msgspec.structs.replace(
        group,
        generation=value.generation,
        leader_id=value.leader or None,
        sources=group.sources | source,
    )


def _with_protocols(
    group: GroupDescription, records: Mapping[RecordKey, _Found]
) -> GroupDescription:
    members: list[Member] = []
    places: list[str] = []
    for member in group.members:
        found = records.get(ConsumerGroupMemberMetadataKey(group.group_id, member.member_id))
        value = None if found is None else found.value
        classic = getattr(value, "classic_member_metadata", None)
        if found is None or classic is None:
            members.append(member)
            continue
        names = tuple(each.name for each in classic.supported_protocols)
        members.append(msgspec.structs.replace(member, supported_protocols=names))
        places.append(found.place)
    if not places:
        return group
    sources = group.sources | {"supported_protocols": "; ".join(places)}
    return msgspec.structs.replace(group, members=tuple(members), sources=sources)
