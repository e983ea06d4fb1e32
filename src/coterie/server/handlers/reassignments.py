"""Leaders and replicas of existing partitions: ElectLeaders, AlterPartitionReassignments and their list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.replicas import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicPartitions,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    PartitionResult,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    ReplicaElectionResult,
)
from coterie.protocol.schema import Response
from coterie.server.metadata.replicas import BadPlacement, Election, check_replicas
from coterie.server.metadata.topics import NO_LEADER, TopicMetadata
from coterie.server.partitions.partition import Partition
from coterie.server.requests.calls import Call
from coterie.server.services import Services

__all__ = ["alter_partition_reassignments", "elect_leaders", "list_partition_reassignments"]

_ELECTIONS: Final = {0: Election.PREFERRED, 1: Election.UNCLEAN}
_UNAVAILABLE: Final = {
    Election.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    Election.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


class _Outcome(NamedTuple):
    """What became of one partition of a request."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None

    @classmethod
    def of(cls, error: ErrorCode) -> _Outcome:
        return cls(error, error.message)


def elect_leaders(services: Services, call: Call, request: ElectLeadersRequest) -> Response:
    """ElectLeaders 0-2: preferred leaders, or from version 1 any live replica (KIP-460)."""
    election = _ELECTIONS.get(request.election_type)
    if election is None:
        return _unknown_election(request)
    wanted = request.topic_partitions
    topics = _all_partitions(services) if wanted is None else wanted
    results = []
    for topic in topics:
        outcomes = [
            (index, _elect(services, topic.topic, index, election)) for index in topic.partitions
        ]
        if wanted is None:
            unneeded = ErrorCode.ELECTION_NOT_NEEDED
            outcomes = [each for each in outcomes if each[1].error is not unneeded]
        rows = tuple(PartitionResult(index, *outcome) for index, outcome in outcomes)
        results.append(ReplicaElectionResult(topic.topic, rows))
    services.metadata.save()
    return ElectLeadersResponse(replica_election_results=tuple(results))


def _all_partitions(services: Services) -> list[ElectLeadersTopicPartitions]:
    return [
        ElectLeadersTopicPartitions(topic.name, tuple(range(len(topic.partitions))))
        for topic in services.metadata
    ]


def _unknown_election(request: ElectLeadersRequest) -> Response:
    error = ErrorCode.INVALID_REQUEST
    message = f"Unknown election type {request.election_type}"
    return ElectLeadersResponse(
        error_code=error,
        replica_election_results=tuple(
            ReplicaElectionResult(
                topic.topic,
                tuple(PartitionResult(index, error, message) for index in topic.partitions),
            )
            for topic in request.topic_partitions or ()
        ),
    )


def _elect(services: Services, topic: str, index: int, election: Election) -> _Outcome:
    partition = services.partitions.get(topic, index)
    if partition is None:
        missing = (
            f"partition as {topic}-{index}" if topic in services.metadata else f"topic as {topic}"
        )
        return _Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such {missing}")
    preferred = partition.metadata.preferred_leader
    wanted = {preferred} if election is Election.PREFERRED else {*partition.metadata.replicas}
    if partition.leader in wanted - {NO_LEADER}:
        return _Outcome.of(ErrorCode.ELECTION_NOT_NEEDED)
    if not services.leadership.elect(partition, election):
        return _Outcome.of(_UNAVAILABLE[election])
    return _Outcome()


def alter_partition_reassignments(
    services: Services, call: Call, request: AlterPartitionReassignmentsRequest
) -> Response:
    """AlterPartitionReassignments 0-1. Moves between live brokers are complete when this is answered."""
    responses = []
    for topic in request.topics:
        rows = []
        for wanted in topic.partitions:
            outcome = _reassign(
                services,
                topic.name,
                wanted,
                same_factor=not request.allow_replication_factor_change,
            )
            rows.append(ReassignablePartitionResponse(wanted.partition_index, *outcome))
        responses.append(ReassignableTopicResponse(topic.name, tuple(rows)))
    services.metadata.save()
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=tuple(responses),
    )


def _reassign(
    services: Services, topic: str, wanted: ReassignablePartition, *, same_factor: bool
) -> _Outcome:
    partition = services.partitions.get(topic, wanted.partition_index)
    if partition is None:
        missing = f"a topic named {topic}"
        if topic in services.metadata:
            missing = f"partition {topic}:{wanted.partition_index}"
        return _Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find {missing}.")
    if wanted.replicas is None:
        return _cancel(services, partition)
    try:
        check_replicas(wanted.replicas, services.brokers.registered)
    except BadPlacement as bad:
        return _Outcome(bad.code, str(bad))
    before, after = len(partition.metadata.settled_replicas), len(wanted.replicas)
    if same_factor and before != after:
        return _Outcome(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {before} to {after}",
        )
    services.leadership.reassign(partition, wanted.replicas)
    return _Outcome()


def _cancel(services: Services, partition: Partition) -> _Outcome:
    metadata = partition.metadata
    if not metadata.adding and not metadata.removing:
        return _Outcome(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    services.leadership.reassign(partition, metadata.settled_replicas)
    return _Outcome()


def list_partition_reassignments(
    services: Services, call: Call, request: ListPartitionReassignmentsRequest
) -> Response:
    """ListPartitionReassignments 0: moves that wait for a broker to return."""
    metadata = services.metadata
    if request.topics is None:
        ongoing = [_ongoing(topic, range(len(topic.partitions))) for topic in metadata]
    else:
        found = [(metadata.topic(each.name), each.partition_indexes) for each in request.topics]
        ongoing = [_ongoing(topic, indexes) for topic, indexes in found if topic is not None]
    return ListPartitionReassignmentsResponse(
        error_message=None, topics=tuple(topic for topic in ongoing if topic.partitions)
    )


def _ongoing(topic: TopicMetadata, indexes: Iterable[int]) -> OngoingTopicReassignment:
    rows = []
    for index in indexes:
        if not 0 <= index < len(topic.partitions):
            continue
        each = topic.partitions[index]
        if each.adding or each.removing:
            replicas, adding, removing = map(tuple, (each.replicas, each.adding, each.removing))
            rows.append(OngoingPartitionReassignment(index, replicas, adding, removing))
    return OngoingTopicReassignment(topic.name, tuple(rows))
