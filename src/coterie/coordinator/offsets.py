"""OffsetCommit, TxnOffsetCommit and OffsetDelete: what may be stored, and the records that store it.

Called by the shard. Reading is in coterie.coordinator.offset_fetch, expiring in
coterie.coordinator.expiration. The checks of topics, which Kafka makes before it asks the coordinator,
are made here against the server's view of them; authorization is not: the server leaves out what the
caller may not touch.
"""

from __future__ import annotations

from typing import Final

from coterie.coordinator.config import GroupConfig
from coterie.coordinator.consumer.commits import PartitionCheck, commit_check, in_transaction
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.durable import DurableState, Group
from coterie.coordinator.foreign import ForeignGroup
from coterie.coordinator.group import ClassicGroup
from coterie.coordinator.outcome import Outcome, Record, RequestContext, Topic
from coterie.coordinator.phases import Phases
from coterie.error_codes import ErrorCode
from coterie.protocol.group_records.classic import OffsetCommitKey, OffsetCommitValue
from coterie.protocol.group_state import GroupState, utf16_length
from coterie.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from coterie.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from coterie.protocol.types import Uuid

__all__ = ["Offsets", "tombstone"]

_TOPIC_IDS_FROM: Final = 10  # OffsetCommit, KIP-848
_GROUP_ID_NOT_FOUND_FROM: Final = 9
#: Kafka's offsetCommitValueVersion: the newest, or the only one with a time to expire at.
_VALUE_VERSION: Final = 4
_VALUE_VERSION_WITH_EXPIRY: Final = 1
_DEFAULT_RETENTION: Final = -1


class Offsets:
    """Turns commits into records, and deletions into tombstones."""

    __slots__ = ("_config", "_metadata_max", "_phases", "_state")

    def __init__(self, state: DurableState, phases: Phases, config: GroupConfig) -> None:
        self._state = state
        self._phases = phases
        self._config = config
        self._metadata_max = config.offset_metadata_max_bytes

    # OffsetCommit

    def commit(self, request: OffsetCommitRequest, context: RequestContext) -> Outcome:
        error, check = self._commit_check(request, context)
        now = context.now_ms
        retention = request.retention_time_ms
        records: list[Record] = []
        answers: list[OffsetCommitResponseTopic] = []
        for asked in request.topics:
            topic = self._topic(asked, context)
            results: list[OffsetCommitResponsePartition] = []
            for each in asked.partitions:
                index = each.partition_index
                code = self._partition_error(asked, topic, each, error)
                if check is not None and not code and topic is not None:
                    code = check(topic.topic_id, index)
                results.append(OffsetCommitResponsePartition(index, code))
                if code or topic is None:
                    continue
                key = OffsetCommitKey(request.group_id, topic.name, index)
                if retention == _DEFAULT_RETENTION:
                    value = OffsetCommitValue(
                        each.committed_offset,
                        each.committed_leader_epoch,
                        each.committed_metadata or "",
                        now,
                        -1,
                        topic.topic_id,
                    )
                    records.append(Record(key, value, _VALUE_VERSION))
                else:
                    records.append(_with_expiry(key, each, now, now + retention))
            answers.append(OffsetCommitResponseTopic(asked.name, asked.topic_id, tuple(results)))
        return Outcome(tuple(records), OffsetCommitResponse(0, tuple(answers)))

    def _commit_check(
        self, request: OffsetCommitRequest, context: RequestContext
    ) -> tuple[int, PartitionCheck | None]:
        """Whether the caller may commit for the group, and if need be for which partitions of it."""
        group = self._state.groups.get(request.group_id)
        if type(group) is not ConsumerGroup:
            return self._commit_error(group, request, context), None
        epoch = request.generation_id_or_member_epoch
        version = context.api_version
        return commit_check(group, request.member_id, epoch, version=version)

    def _commit_error(
        self, group: Group | None, request: OffsetCommitRequest, context: RequestContext
    ) -> int:
        """The same for other groups; if the caller is a member, this is a sign of life."""
        generation = request.generation_id_or_member_epoch
        if type(group) is not ClassicGroup:
            known = context.api_version >= _GROUP_ID_NOT_FOUND_FROM
            missing = ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION
            return _foreign_error(group, generation, missing)
        member_id = request.member_id
        error = _classic_error(group, member_id, request.group_instance_id, generation)
        rebalance = group.rebalance
        if error or rebalance is None or rebalance.state is GroupState.EMPTY:
            return error
        if not member_id:
            # Only TxnOffsetCommit may leave the member out while there are others.
            return ErrorCode.UNKNOWN_MEMBER_ID
        if rebalance.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self._phases.extend_session(group, rebalance.members[member_id], context.monotonic)
        return 0

    def _topic(self, asked: OffsetCommitRequestTopic, context: RequestContext) -> Topic | None:
        if context.api_version >= _TOPIC_IDS_FROM:
            return context.topics.by_id(asked.topic_id)
        return context.topics.by_name(asked.name)

    def _partition_error(
        self,
        asked: OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic,
        topic: Topic | None,
        partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
        error: int,
    ) -> int:
        """What is wrong with one partition, or else with the caller (`error`)."""
        if topic is None:
            return (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if asked.name else ErrorCode.UNKNOWN_TOPIC_ID
            )
        if not 0 <= partition.partition_index < topic.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if error:
            return error
        metadata = partition.committed_metadata
        # Kafka measures the setting that is called bytes in UTF-16 units.
        if metadata and utf16_length(metadata) > self._metadata_max:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return 0

    # TxnOffsetCommit

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, context: RequestContext
    ) -> Outcome:
        """As OffsetCommit, but a group that rebalances does not refuse it, and no session is extended.

        The topic id is left out, as in Kafka 4.3.
        """
        error, check = self._transactional_check(request)
        records: list[Record] = []
        answers: list[TxnOffsetCommitResponseTopic] = []
        for asked in request.topics:
            topic = context.topics.by_name(asked.name)
            results: list[TxnOffsetCommitResponsePartition] = []
            for each in asked.partitions:
                code = self._partition_error(asked, topic, each, error)
                if check is not None and not code and topic is not None:
                    code = in_transaction(check(topic.topic_id, each.partition_index))
                results.append(TxnOffsetCommitResponsePartition(each.partition_index, code))
                if code:
                    continue
                value = OffsetCommitValue(
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata or "",
                    context.now_ms,
                )
                key = OffsetCommitKey(request.group_id, asked.name, each.partition_index)
                records.append(Record(key, value, _VALUE_VERSION))
            answers.append(TxnOffsetCommitResponseTopic(asked.name, tuple(results)))
        response = TxnOffsetCommitResponse(0, tuple(answers))
        return Outcome(
            tuple(records),
            response,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
        )

    def _transactional_check(
        self, request: TxnOffsetCommitRequest
    ) -> tuple[int, PartitionCheck | None]:
        group_id, member_id = request.group_id, request.member_id
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID, None
        group = self._state.groups.get(group_id)
        generation, instance_id = request.generation_id, request.group_instance_id
        if isinstance(group, ClassicGroup):
            return _classic_error(group, member_id, instance_id, generation), None
        if isinstance(group, ConsumerGroup):
            if generation == -1 and not member_id and instance_id is None:
                return 0, None  # a producer that does without the group's membership
            error, check = commit_check(group, member_id, generation)
            return in_transaction(error), check
        return _foreign_error(group, generation, ErrorCode.ILLEGAL_GENERATION), None

    # OffsetDelete

    def delete(self, request: OffsetDeleteRequest, context: RequestContext) -> Outcome:
        """Forget offsets of topics that the group does not subscribe to (KIP-496)."""
        error = self._delete_error(request.group_id)
        if error:
            return Outcome(response=OffsetDeleteResponse(error_code=error))
        records: list[Record] = []
        answers = tuple(
            OffsetDeleteResponseTopic(
                name=asked.name,
                partitions=tuple(self._delete_in(request.group_id, asked, context, records)),
            )
            for asked in request.topics
        )
        return Outcome(tuple(records), OffsetDeleteResponse(topics=answers))

    def _delete_error(self, group_id: str) -> ErrorCode:
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        group = self._state.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY and (
            isinstance(group, ForeignGroup) or group.protocol_type != "consumer"
        ):
            # We cannot tell what such members read.
            return ErrorCode.NON_EMPTY_GROUP
        return ErrorCode.NONE

    def _delete_in(
        self,
        group_id: str,
        asked: OffsetDeleteRequestTopic,
        context: RequestContext,
        records: list[Record],
    ) -> list[OffsetDeleteResponsePartition]:
        group = self._state.groups[group_id]
        topic = context.topics.by_name(asked.name)
        subscribed = not isinstance(group, ForeignGroup) and group.is_subscribed_to(asked.name)
        committed = self._state.offsets.get(group_id, {}).get(asked.name, {})
        results: list[OffsetDeleteResponsePartition] = []
        for each in asked.partitions:
            index = each.partition_index
            error = ErrorCode.NONE
            if topic is None or not 0 <= index < topic.partitions:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif subscribed:
                error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            elif index in committed or self._state.transactions.has_pending(
                group_id, asked.name, index
            ):
                records.append(tombstone(group_id, asked.name, index))
            results.append(OffsetDeleteResponsePartition(index, error))
        return results

    # Deletion of groups and topics

    def tombstones_of(self, group_id: str) -> list[Record]:
        """Tombstones for all offsets of a group (deleteAllOffsets), pending ones included."""
        committed = self._state.offsets.get(group_id, {})
        records = [
            tombstone(group_id, topic, index)
            for topic, partitions in committed.items()
            for index in partitions
        ]
        records += [
            tombstone(group_id, topic, index)
            for topic, partitions in self._state.transactions.topics_of(group_id).items()
            for index in partitions
            if index not in committed.get(topic, {})
        ]
        return records

    def forget_topic(self, name: str, topic_id: Uuid) -> list[Record]:
        """A topic was deleted: tombstones for its offsets in all groups (onTopicsDeleted).

        Offsets of an earlier topic of the same name stay; those without a topic id are the topic's.
        """
        gone = (Uuid.ZERO, topic_id)
        keys = {
            OffsetCommitKey(group_id, name, index): None
            for group_id, topics in self._state.offsets.items()
            for index, value in topics.get(name, {}).items()
            if value.topic_id in gone
        }
        for key, value in self._state.transactions.pending_of_topic(name):
            if value is None or value.topic_id in gone:
                keys[key] = None
        return [Record(key) for key in keys]


def tombstone(group_id: str, topic: str, partition: int) -> Record:
    """The record that forgets one offset."""
    return Record(OffsetCommitKey(group_id, topic, partition))


def _with_expiry(
    key: OffsetCommitKey, partition: OffsetCommitRequestPartition, now: int, expires: int
) -> Record:
    """An offset with an end of its own, as OffsetCommit 2 to 4 can ask for.

    Only version 1 of the value has room for that, and it has none for the leader's epoch and the topic's
    id. They are left out of the object too, or it would change by being written and read.
    """
    value = OffsetCommitValue(
        offset=partition.committed_offset,
        metadata=partition.committed_metadata or "",
        commit_timestamp=now,
        expire_timestamp=expires,
    )
    return Record(key, value, _VALUE_VERSION_WITH_EXPIRY)


def _classic_error(
    group: ClassicGroup, member_id: str, instance_id: str | None, generation: int
) -> int:
    """Kafka's ClassicGroup.validateOffsetCommit, as far as it is the same with and without transaction."""
    rebalance = group.rebalance
    if generation < 0 and (rebalance is None or rebalance.state is GroupState.EMPTY):
        return 0  # an administrator, or a consumer that does without the group's membership
    if generation < 0 and not member_id and instance_id is None:
        return 0
    if rebalance is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = rebalance.check_member(member_id, instance_id)
    if error:
        return error
    return 0 if generation == rebalance.generation else ErrorCode.ILLEGAL_GENERATION


def _foreign_error(group: Group | None, generation: int, missing: ErrorCode) -> int:
    """For a group that is not classic, or not there: without members anyone may commit.

    A commit from outside makes a simple group where there was none.
    """
    if generation < 0 and (group is None or group.state is GroupState.EMPTY):
        return 0
    return missing if group is None else ErrorCode.UNKNOWN_MEMBER_ID
