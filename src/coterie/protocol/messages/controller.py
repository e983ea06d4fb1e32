"""The controller: DescribeQuorum, UpdateFeatures, UnregisterBroker."""

from __future__ import annotations

from coterie.protocol.schema import Request, Response, Struct, field
from coterie.protocol.types import Int8, Int16, Int32, Int64, UInt16, Uuid

__all__ = [
    "DescribeQuorumListener",
    "DescribeQuorumNode",
    "DescribeQuorumPartition",
    "DescribeQuorumRequest",
    "DescribeQuorumRequestPartition",
    "DescribeQuorumRequestTopic",
    "DescribeQuorumResponse",
    "DescribeQuorumTopic",
    "FeatureUpdateKey",
    "ReplicaState",
    "UnregisterBrokerRequest",
    "UnregisterBrokerResponse",
    "UpdatableFeatureResult",
    "UpdateFeaturesRequest",
    "UpdateFeaturesResponse",
]


class DescribeQuorumRequestPartition(Struct):
    """Partition to describe."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)


class DescribeQuorumRequestTopic(Struct):
    """Topic to describe."""

    topic_name: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[DescribeQuorumRequestPartition, ...] = field(
        "0+", "Partitions of the topic.", default=()
    )


class DescribeQuorumRequest(Request, key=55, versions="0-2", flexible="0+"):
    """Asks for the state of the Raft quorum."""

    topics: tuple[DescribeQuorumRequestTopic, ...] = field("0+", "Topics to describe.", default=())


class ReplicaState(Struct):
    """State of one voter or observer."""

    replica_id: Int32 = field("0+", "Node id.", default=0)
    replica_directory_id: Uuid = field("2+", "Id of the directory of the log.", default=Uuid.ZERO)
    log_end_offset: Int64 = field("0+", "Last known end of its log; -1 if unknown.", default=0)
    last_fetch_timestamp: Int64 = field(
        "1+",
        "Time of the last fetch on the leader's clock; -1 if unknown.",
        default=-1,
        ignorable=True,
    )
    last_caught_up_timestamp: Int64 = field(
        "1+", "Time at which it last had the whole log; -1 if unknown.", default=-1, ignorable=True
    )


class DescribeQuorumPartition(Struct):
    """State of one partition."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    error_code: Int16 = field("0+", "0, or the error.", default=0)
    error_message: str | None = field(
        "2+",
        "Explanation for people; null if there is no error.",
        default="",
        nullable="2+",
        ignorable=True,
    )
    leader_id: Int32 = field("0+", "Node id of the leader; -1 if unknown.", default=0)
    leader_epoch: Int32 = field("0+", "Epoch of the leader.", default=0)
    high_watermark: Int64 = field("0+", "Offset up to which the log is committed.", default=0)
    current_voters: tuple[ReplicaState, ...] = field("0+", "Nodes that vote.", default=())
    observers: tuple[ReplicaState, ...] = field(
        "0+", "Nodes that follow without a vote.", default=()
    )


class DescribeQuorumTopic(Struct):
    """State of one topic."""

    topic_name: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[DescribeQuorumPartition, ...] = field(
        "0+", "Partitions of the topic.", default=()
    )


class DescribeQuorumListener(Struct):
    """Listener of a node."""

    name: str = field("2+", "Name of the listener.", default="")
    host: str = field("2+", "Host name.", default="")
    port: UInt16 = field("2+", "Port.", default=0)


class DescribeQuorumNode(Struct):
    """Addresses of one voter."""

    node_id: Int32 = field("2+", "Node id.", default=0)
    listeners: tuple[DescribeQuorumListener, ...] = field(
        "2+", "Listeners of the node.", default=()
    )


class DescribeQuorumResponse(Response, key=55, versions="0-2", flexible="0+"):
    """State of the quorum."""

    error_code: Int16 = field("0+", "0, or the error.", default=0)
    error_message: str | None = field(
        "2+",
        "Explanation for people; null if there is no error.",
        default="",
        nullable="2+",
        ignorable=True,
    )
    topics: tuple[DescribeQuorumTopic, ...] = field("0+", "One entry per topic.", default=())
    nodes: tuple[DescribeQuorumNode, ...] = field("2+", "Addresses of the voters.", default=())


class FeatureUpdateKey(Struct):
    """Feature to change."""

    feature: str = field("0+", "Name of the feature.", default="")
    max_version_level: Int16 = field("0+", "Level to finalize; 0 removes the feature.", default=0)
    allow_downgrade: bool = field("0", "True allows a lower level.", default=False)
    upgrade_type: Int8 = field("1+", "1 upgrade, 2 safe downgrade, 3 unsafe downgrade.", default=1)


class UpdateFeaturesRequest(Request, key=57, versions="0-2", flexible="0+"):
    """Changes the finalized levels of features."""

    timeout_ms: Int32 = field(
        "0+", "Milliseconds to wait for the controller's answer.", default=60000
    )
    feature_updates: tuple[FeatureUpdateKey, ...] = field("0+", "Features to change.", default=())
    validate_only: bool = field("1+", "True checks the request and changes nothing.", default=False)


class UpdatableFeatureResult(Struct):
    """Outcome for one feature."""

    feature: str = field("0+", "Name of the feature.", default="")
    error_code: Int16 = field("0+", "0, or the error.", default=0)
    error_message: str | None = field(
        "0+", "Explanation for people; null if there is no error.", default="", nullable="0+"
    )


class UpdateFeaturesResponse(Response, key=57, versions="0-2", flexible="0+"):
    """Outcome for the request and each feature."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    error_code: Int16 = field("0+", "0, or the error.", default=0)
    error_message: str | None = field(
        "0+", "Explanation for people; null if there is no error.", default="", nullable="0+"
    )
    results: tuple[UpdatableFeatureResult, ...] = field(
        "0-1", "One entry per feature.", default=(), ignorable=True
    )


class UnregisterBrokerRequest(Request, key=64, versions="0", flexible="0+"):
    """Removes the registration of a broker that is gone for good."""

    broker_id: Int32 = field("0+", "Broker to unregister.", default=0)


class UnregisterBrokerResponse(Response, key=64, versions="0", flexible="0+"):
    """Outcome."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    error_code: Int16 = field("0+", "0, or the error.", default=0)
    error_message: str | None = field(
        "0+", "Explanation for people; null if there is no error.", default="", nullable="0+"
    )
