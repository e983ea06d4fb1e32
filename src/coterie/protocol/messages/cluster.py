"""The cluster: Metadata, DescribeCluster, FindCoordinator."""

from __future__ import annotations

from coterie.protocol.schema import Request, Response, Struct, field
from coterie.protocol.types import Int8, Int16, Int32, Uuid

__all__ = [
    "Coordinator",
    "DescribeClusterBroker",
    "DescribeClusterRequest",
    "DescribeClusterResponse",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "MetadataRequest",
    "MetadataRequestTopic",
    "MetadataResponse",
    "MetadataResponseBroker",
    "MetadataResponsePartition",
    "MetadataResponseTopic",
]


class MetadataRequestTopic(Struct):
    """Topic to describe, given by name or by id."""

    topic_id: Uuid = field(
        "10+", "Id of the topic; all zero to go by name.", default=Uuid.ZERO, ignorable=True
    )
    name: str | None = field(
        "0+", "Name of the topic; null to go by id.", default="", nullable="10+"
    )


class MetadataRequest(Request, key=3, versions="0-13", flexible="9+"):
    """Asks for brokers, topics, partitions and leaders."""

    topics: tuple[MetadataRequestTopic, ...] | None = field(
        "0+",
        "Topics to describe; null asks for all, empty for none (v0: all).",
        default=(),
        nullable="1+",
    )
    allow_auto_topic_creation: bool = field(
        "4+", "True lets the broker create missing topics, if configured so.", default=True
    )
    include_cluster_authorized_operations: bool = field(
        "8-10", "True asks which operations the caller may do on the cluster.", default=False
    )
    include_topic_authorized_operations: bool = field(
        "8+", "True asks which operations the caller may do on each topic.", default=False
    )


class MetadataResponseBroker(Struct):
    """Address of one live broker."""

    node_id: Int32 = field("0+", "Node id of the broker.", default=0)
    host: str = field("0+", "Host name or address to connect to.", default="")
    port: Int32 = field("0+", "TCP port to connect to.", default=0)
    rack: str | None = field(
        "1+", "Rack of the broker; null if not set.", default=None, nullable="1+", ignorable=True
    )


class MetadataResponsePartition(Struct):
    """Leader and replicas of one partition."""

    error_code: Int16 = field(
        "0+", "LEADER_NOT_AVAILABLE if leaderless; 0 when all is well.", default=0
    )
    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    leader_id: Int32 = field(
        "0+", "Broker that leads the partition; -1 if there is none.", default=0
    )
    leader_epoch: Int32 = field(
        "7+", "Epoch of the partition leader; -1 if unknown.", default=-1, ignorable=True
    )
    replica_nodes: tuple[Int32, ...] = field(
        "0+", "Brokers that hold a replica; the first is preferred leader.", default=()
    )
    isr_nodes: tuple[Int32, ...] = field("0+", "Brokers whose replicas are in sync.", default=())
    offline_replicas: tuple[Int32, ...] = field(
        "5+", "Replicas that are down or on a failed disk.", default=(), ignorable=True
    )


class MetadataResponseTopic(Struct):
    """One topic, or the error for it."""

    error_code: Int16 = field(
        "0+", "UNKNOWN_TOPIC_OR_PARTITION if missing; 0 when all is well.", default=0
    )
    name: str | None = field(
        "0+", "Name of the topic; null if only an unknown id was given.", default="", nullable="12+"
    )
    topic_id: Uuid = field("10+", "Id of the topic.", default=Uuid.ZERO, ignorable=True)
    is_internal: bool = field(
        "1+",
        "True for Kafka's own topics, such as __consumer_offsets.",
        default=False,
        ignorable=True,
    )
    partitions: tuple[MetadataResponsePartition, ...] = field(
        "0+", "Partitions of the topic.", default=()
    )
    topic_authorized_operations: Int32 = field(
        "8+", "Bit set of allowed operations; -2147483648 if not asked for.", default=-2147483648
    )


class MetadataResponse(Response, key=3, versions="0-13", flexible="9+"):
    """Brokers of the cluster and the partitions of the topics asked for."""

    throttle_time_ms: Int32 = field(
        "3+", "Milliseconds the client was throttled; 0 if not.", default=0, ignorable=True
    )
    brokers: tuple[MetadataResponseBroker, ...] = field(
        "0+", "Live brokers of the cluster.", default=()
    )
    cluster_id: str | None = field(
        "2+",
        "Id of the cluster; null if the broker does not tell.",
        default=None,
        nullable="2+",
        ignorable=True,
    )
    controller_id: Int32 = field(
        "1+", "Node id of the controller; -1 if unknown.", default=-1, ignorable=True
    )
    topics: tuple[MetadataResponseTopic, ...] = field("0+", "Topics asked for.", default=())
    cluster_authorized_operations: Int32 = field(
        "8-10", "Bit set of allowed operations; -2147483648 if not asked for.", default=-2147483648
    )
    error_code: Int16 = field(
        "13+",
        "REBOOTSTRAP_REQUIRED tells to start over; 0 when all is well.",
        default=0,
        ignorable=True,
    )


class DescribeClusterRequest(Request, key=60, versions="0-2", flexible="0+"):
    """Asks for the cluster id, the controller and the nodes."""

    include_cluster_authorized_operations: bool = field(
        "0+", "True asks which operations the caller may do on the cluster.", default=False
    )
    endpoint_type: Int8 = field("1+", "Nodes wanted: 1 for brokers, 2 for controllers.", default=1)
    include_fenced_brokers: bool = field("2+", "True lists fenced brokers too.", default=False)


class DescribeClusterBroker(Struct):
    """Address and state of one node."""

    broker_id: Int32 = field("0+", "Node id of the broker or controller.", default=0)
    host: str = field("0+", "Host name or address to connect to.", default="")
    port: Int32 = field("0+", "TCP port to connect to.", default=0)
    rack: str | None = field(
        "0+", "Rack of the broker; null if not set.", default=None, nullable="0+"
    )
    is_fenced: bool = field(
        "2+", "True if the broker is registered but not serving.", default=False
    )


class DescribeClusterResponse(Response, key=60, versions="0-2", flexible="0+"):
    """Cluster id, controller and nodes."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    error_code: Int16 = field(
        "0+", "MISMATCHED_ENDPOINT_TYPE if asked the wrong node; 0 if fine.", default=0
    )
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default=None, nullable="0+"
    )
    endpoint_type: Int8 = field(
        "1+", "Nodes that follow: 1 for brokers, 2 for controllers.", default=1
    )
    cluster_id: str = field("0+", "Id of the cluster.", default="")
    controller_id: Int32 = field("0+", "Node id of the controller; -1 if unknown.", default=-1)
    brokers: tuple[DescribeClusterBroker, ...] = field("0+", "Nodes of the cluster.", default=())
    cluster_authorized_operations: Int32 = field(
        "0+", "Bit set of allowed operations; -2147483648 if not asked for.", default=-2147483648
    )


class FindCoordinatorRequest(Request, key=10, versions="0-6", flexible="3+"):
    """Asks which broker coordinates groups, transactions or share-partitions."""

    key: str = field("0-3", "Group id or transactional id to look up, up to version 3.", default="")
    key_type: Int8 = field(
        "1+", "What the keys are: 0 group, 1 transaction, 2 share-partition.", default=0
    )
    coordinator_keys: tuple[str, ...] = field(
        "4+", "Group ids, transactional ids or share-partition keys.", default=()
    )


class Coordinator(Struct):
    """Coordinator of one key, or the error for it."""

    key: str = field("4+", "Key that was looked up.", default="")
    node_id: Int32 = field("4+", "Node id of the coordinator; -1 on error.", default=0)
    host: str = field("4+", "Host of the coordinator; empty on error.", default="")
    port: Int32 = field("4+", "Port of the coordinator; -1 on error.", default=0)
    error_code: Int16 = field(
        "4+", "COORDINATOR_NOT_AVAILABLE asks to try again; 0 when all is well.", default=0
    )
    error_message: str | None = field(
        "4+",
        "Text that explains the error; often empty or null.",
        default="",
        nullable="4+",
        ignorable=True,
    )


class FindCoordinatorResponse(Response, key=10, versions="0-6", flexible="3+"):
    """Coordinator address for each key asked for."""

    throttle_time_ms: Int32 = field(
        "1+", "Milliseconds the client was throttled; 0 if not.", default=0, ignorable=True
    )
    error_code: Int16 = field(
        "0-3", "COORDINATOR_NOT_AVAILABLE asks to try again; 0 when all is well.", default=0
    )
    error_message: str | None = field(
        "1-3",
        "Text that explains the error; NONE or null if there is none.",
        default="",
        nullable="1-3",
        ignorable=True,
    )
    node_id: Int32 = field("0-3", "Node id of the coordinator; -1 on error.", default=0)
    host: str = field("0-3", "Host of the coordinator; empty on error.", default="")
    port: Int32 = field("0-3", "Port of the coordinator; -1 on error.", default=0)
    coordinators: tuple[Coordinator, ...] = field("4+", "One answer per key.", default=())
