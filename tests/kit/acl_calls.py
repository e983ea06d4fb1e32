"""A call of every API, and what it needs: the calls of the ACL matrix.

`needs` is written by hand from Kafka's documentation, apart from the table that the server uses, so that the
two can be compared. A call without it leaves out what may not be seen, and never refuses.
"""

from __future__ import annotations

from typing import NamedTuple

from coterie.protocol.messages.acls import (
    AclCreation,
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    UserName,
)
from coterie.protocol.messages.cluster import (
    DescribeClusterRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from coterie.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    LegacyAlterableConfig,
    LegacyAlterConfigsResource,
    ListConfigResourcesRequest,
)
from coterie.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
)
from coterie.protocol.messages.controller import (
    DescribeQuorumRequest,
    UnregisterBrokerRequest,
    UpdateFeaturesRequest,
)
from coterie.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from coterie.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from coterie.protocol.messages.membership import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from coterie.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from coterie.protocol.messages.replicas import (
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    ElectLeadersRequest,
    ElectLeadersTopicPartitions,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from coterie.protocol.messages.session import ApiVersionsRequest
from coterie.protocol.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
    DeleteTopicState,
    DescribeTopicPartitionsRequest,
)
from coterie.protocol.messages.topics import TopicRequest as TopicPartitionsRequest
from coterie.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    TopicRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from coterie.protocol.records import RecordBatch, build_batch
from coterie.protocol.schema import Request
from coterie.security.acls import CLUSTER_NAME, Operation, ResourceType
from tests.kit.acl_matrix import GROUP, OTHER_GROUP, OTHER_TOPIC, TOPIC, TRANSACTION
from tests.kit.quota_requests import ALTER_QUOTAS, DESCRIBE_QUOTAS
from tests.kit.token_requests import CREATE_TOKEN, DESCRIBE_TOKENS, EXPIRE_TOKEN, OWNER, RENEW_TOKEN

__all__ = ["CALLS", "Call", "Needs"]

_O = Operation
Need = tuple[Operation, ResourceType, str]
#: Alternatives, of each of which all is needed.
Needs = tuple[tuple[Need, ...], ...]

#: A topic that is not there, reached by the ACLs that name the one that is and begins with the same.
_ABSENT = "m-absent"


class Call(NamedTuple):
    """One request in one version."""

    name: str
    request: Request
    version: int | None = None
    needs: Needs | None = None


def _group(operation: Operation) -> Need:
    return (operation, ResourceType.GROUP, GROUP)


def _topic(operation: Operation, name: str = TOPIC) -> Need:
    return (operation, ResourceType.TOPIC, name)


def _cluster(operation: Operation) -> Need:
    return (operation, ResourceType.CLUSTER, CLUSTER_NAME)


_WRITE_TRANSACTION: Need = (_O.WRITE, ResourceType.TRANSACTIONAL_ID, TRANSACTION)
_DESCRIBE_TRANSACTION: Need = (_O.DESCRIBE, ResourceType.TRANSACTIONAL_ID, TRANSACTION)
_BOTH = (TOPIC, OTHER_TOPIC)
_RECORDS = build_batch([(b"k", b"v", 1, ())], RecordBatch()).encode()
_COMMITS = (OffsetCommitRequestPartition(0, 1),)
_MINE = (OffsetFetchRequestTopics(TOPIC, partition_indexes=(0,)),)

DATA = (
    Call(
        "Produce",
        ProduceRequest(
            acks=1,
            timeout_ms=30_000,
            topic_data=(
                TopicProduceData(TOPIC, partition_data=(PartitionProduceData(0, _RECORDS),)),
            ),
        ),
        9,
        ((_topic(_O.WRITE),),),
    ),
    Call(
        "Fetch",
        FetchRequest(
            max_wait_ms=0,
            topics=(FetchTopic(TOPIC, partitions=(FetchPartition(0, partition_max_bytes=9),)),),
        ),
        11,
        ((_topic(_O.READ),),),
    ),
    Call(
        "ListOffsets",
        ListOffsetsRequest(
            topics=tuple(
                ListOffsetsTopic(n, (ListOffsetsPartition(0, timestamp=-1),)) for n in _BOTH
            )
        ),
        7,
        ((_topic(_O.DESCRIBE), _topic(_O.DESCRIBE, OTHER_TOPIC)),),
    ),
    Call(
        "OffsetForLeaderEpoch",
        OffsetForLeaderEpochRequest(
            topics=(OffsetForLeaderTopic(TOPIC, (OffsetForLeaderPartition(0, leader_epoch=0),)),)
        ),
        4,
        ((_topic(_O.DESCRIBE),), (_cluster(_O.CLUSTER_ACTION),)),
    ),
    Call(
        "DeleteRecords",
        DeleteRecordsRequest((DeleteRecordsTopic(TOPIC, (DeleteRecordsPartition(0, 0),)),), 30_000),
        None,
        ((_topic(_O.DELETE),),),
    ),
    Call(
        "DescribeProducers",
        DescribeProducersRequest((TopicRequest(TOPIC, (0,)),)),
        None,
        ((_topic(_O.READ),),),
    ),
)

_DESCRIBE_BOTH: Needs = ((_topic(_O.DESCRIBE), _topic(_O.DESCRIBE, OTHER_TOPIC)),)
_NAMED = tuple(MetadataRequestTopic(name=name) for name in _BOTH)

TOPICS = (
    *(
        Call(
            f"Metadata v{version}",
            MetadataRequest(
                _NAMED,
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=version >= 8,
            ),
            version,
            _DESCRIBE_BOTH,
        )
        for version in (4, 9, 12)
    ),
    Call(
        "Metadata of all",
        MetadataRequest(
            None,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        ),
        9,
    ),
    Call(
        "Metadata that would create",
        MetadataRequest((MetadataRequestTopic(name="bad name"),)),
        9,
    ),
    Call(
        "DescribeTopicPartitions",
        DescribeTopicPartitionsRequest(tuple(TopicPartitionsRequest(n) for n in _BOTH), 100),
        None,
        _DESCRIBE_BOTH,
    ),
    Call("DescribeTopicPartitions of all", DescribeTopicPartitionsRequest((), 100)),
    Call(
        "CreateTopics",
        CreateTopicsRequest((CreatableTopic(TOPIC + "-new", 1, 1),), 30_000, validate_only=True),
    ),
    Call(
        "CreateTopics that exist",
        CreateTopicsRequest((CreatableTopic(TOPIC, 1, 1),), 30_000, validate_only=True),
        None,
        ((_topic(_O.CREATE),), (_cluster(_O.CREATE),)),
    ),
    Call(
        "DeleteTopics v5",
        DeleteTopicsRequest(topic_names=(_ABSENT,), timeout_ms=30_000),
        5,
        ((_topic(_O.DESCRIBE, _ABSENT),), (_cluster(_O.DELETE),)),
    ),
    Call(
        "DeleteTopics v6",
        DeleteTopicsRequest((DeleteTopicState(_ABSENT),), timeout_ms=30_000),
        6,
        ((_topic(_O.DESCRIBE, _ABSENT),), (_cluster(_O.DELETE),)),
    ),
    Call(
        "CreatePartitions",
        CreatePartitionsRequest(
            (CreatePartitionsTopic(TOPIC, 2, None),), 30_000, validate_only=True
        ),
        None,
        ((_topic(_O.ALTER),),),
    ),
    Call(
        "ListPartitionReassignments",
        ListPartitionReassignmentsRequest(30_000, None),
        None,
        ((_cluster(_O.DESCRIBE),),),
    ),
    Call(
        # Its answer has no place for an error: a refusal shows no directory.
        "DescribeLogDirs v2",
        DescribeLogDirsRequest((DescribableLogDirTopic(TOPIC, (0,)),)),
        2,
    ),
    Call(
        "DescribeLogDirs v5",
        DescribeLogDirsRequest((DescribableLogDirTopic(TOPIC, (0,)),)),
        5,
        ((_cluster(_O.DESCRIBE),),),
    ),
    Call(
        "AlterReplicaLogDirs",
        AlterReplicaLogDirsRequest(
            (AlterReplicaLogDir("/nowhere", (AlterReplicaLogDirTopic(TOPIC, (0, 1)),)),)
        ),
        None,
        ((_cluster(_O.ALTER),),),
    ),
    *(
        Call(
            f"ElectLeaders v{version}",
            ElectLeadersRequest(0, (ElectLeadersTopicPartitions(TOPIC, (0,)),), 30_000),
            version,
            ((_cluster(_O.ALTER),),),
        )
        for version in (0, 2)
    ),
    Call(
        "AlterPartitionReassignments",
        AlterPartitionReassignmentsRequest(
            30_000, topics=(ReassignableTopic(TOPIC, (ReassignablePartition(0, None),)),)
        ),
        None,
        ((_cluster(_O.ALTER),),),
    ),
    Call("UnregisterBroker", UnregisterBrokerRequest(99), None, ((_cluster(_O.ALTER),),)),
    Call(
        "DescribeConfigs of a topic",
        DescribeConfigsRequest((DescribeConfigsResource(2, TOPIC, ("retention.ms",)),)),
        None,
        ((_topic(_O.DESCRIBE_CONFIGS),),),
    ),
    Call(
        "AlterConfigs of a topic",
        AlterConfigsRequest(
            (
                LegacyAlterConfigsResource(
                    2, TOPIC, (LegacyAlterableConfig("retention.ms", "60000"),)
                ),
            ),
            validate_only=True,
        ),
        None,
        ((_topic(_O.ALTER_CONFIGS),),),
    ),
    Call(
        "IncrementalAlterConfigs of a topic",
        IncrementalAlterConfigsRequest(
            (AlterConfigsResource(2, TOPIC, (AlterableConfig("retention.ms", 0, "60000"),)),),
            validate_only=True,
        ),
        None,
        ((_topic(_O.ALTER_CONFIGS),),),
    ),
)

GROUPS = (
    *(
        Call(
            f"FindCoordinator v{version}",
            FindCoordinatorRequest(
                GROUP if version < 4 else "", 0, (GROUP, OTHER_GROUP) if version >= 4 else ()
            ),
            version,
            ((_group(_O.DESCRIBE),),)
            if version < 4
            else ((_group(_O.DESCRIBE), (_O.DESCRIBE, ResourceType.GROUP, OTHER_GROUP)),),
        )
        for version in (2, 4)
    ),
    *(
        Call(
            f"DescribeGroups v{version}",
            DescribeGroupsRequest((GROUP, "m-missing"), include_authorized_operations=version >= 3),
            version,
            ((_group(_O.DESCRIBE), (_O.DESCRIBE, ResourceType.GROUP, "m-missing")),),
        )
        for version in (1, 5, 6)
    ),
    *(Call(f"ListGroups v{version}", ListGroupsRequest(), version) for version in (0, 3, 5)),
    Call("ListGroups by state", ListGroupsRequest(("Stable",)), 4),
    Call(
        "DeleteGroups",
        DeleteGroupsRequest((GROUP, "m-missing")),
        None,
        ((_group(_O.DELETE), (_O.DELETE, ResourceType.GROUP, "m-missing")),),
    ),
    Call(
        "JoinGroup",
        JoinGroupRequest(
            GROUP,
            10_000,
            10_000,
            protocol_type="connect",
            protocols=(JoinGroupRequestProtocol("x", b""),),
        ),
        3,
        ((_group(_O.READ),),),
    ),
    Call("SyncGroup", SyncGroupRequest(GROUP, 1, "nobody"), 3, ((_group(_O.READ),),)),
    Call("Heartbeat", HeartbeatRequest(GROUP, 1, "nobody"), 3, ((_group(_O.READ),),)),
    Call(
        "LeaveGroup",
        LeaveGroupRequest(GROUP, members=(MemberIdentity("nobody"),)),
        3,
        ((_group(_O.READ),),),
    ),
    Call(
        "OffsetCommit",
        OffsetCommitRequest(
            GROUP, -1, topics=tuple(OffsetCommitRequestTopic(n, partitions=_COMMITS) for n in _BOTH)
        ),
        8,
        ((_group(_O.READ), _topic(_O.READ), _topic(_O.READ, OTHER_TOPIC)),),
    ),
    Call(
        "OffsetDelete",
        OffsetDeleteRequest(
            GROUP, (OffsetDeleteRequestTopic(TOPIC, (OffsetDeleteRequestPartition(0),)),)
        ),
        None,
        ((_group(_O.DELETE), _topic(_O.READ)),),
    ),
    Call(
        "OffsetFetch v6",
        OffsetFetchRequest(GROUP, tuple(OffsetFetchRequestTopic(n, (0,)) for n in _BOTH)),
        6,
        ((_group(_O.DESCRIBE), *_DESCRIBE_BOTH[0]),),
    ),
    Call("OffsetFetch v6 of all", OffsetFetchRequest(GROUP, None), 6, ((_group(_O.DESCRIBE),),)),
    Call(
        "OffsetFetch v8",
        OffsetFetchRequest(
            groups=(
                OffsetFetchRequestGroup(
                    GROUP,
                    topics=tuple(
                        OffsetFetchRequestTopics(n, partition_indexes=(0,)) for n in _BOTH
                    ),
                ),
            )
        ),
        8,
        ((_group(_O.DESCRIBE), *_DESCRIBE_BOTH[0]),),
    ),
    Call(
        "OffsetFetch v8 of all",
        OffsetFetchRequest(groups=(OffsetFetchRequestGroup(GROUP, topics=None),)),
        8,
        ((_group(_O.DESCRIBE),),),
    ),
    Call(
        "ConsumerGroupDescribe",
        ConsumerGroupDescribeRequest((GROUP,), include_authorized_operations=True),
        0,
        ((_group(_O.DESCRIBE),),),
    ),
    Call(
        "ConsumerGroupHeartbeat",
        ConsumerGroupHeartbeatRequest(
            GROUP, "A" * 22, 5, subscribed_topic_names=(OTHER_TOPIC,), rebalance_timeout_ms=5_000
        ),
        0,
        ((_group(_O.READ), _topic(_O.DESCRIBE, OTHER_TOPIC)),),
    ),
)

TRANSACTIONS = (
    Call(
        "FindCoordinator of a transaction",
        FindCoordinatorRequest("", 1, (TRANSACTION,)),
        4,
        ((_DESCRIBE_TRANSACTION,),),
    ),
    Call("InitProducerId without a transaction", InitProducerIdRequest(None, 60_000), 3),
    Call(
        "InitProducerId",
        InitProducerIdRequest(TRANSACTION, -5),
        3,
        ((_WRITE_TRANSACTION,),),
    ),
    Call(
        "AddPartitionsToTxn",
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTION,
            v3_and_below_producer_id=987_654,
            v3_and_below_topics=(AddPartitionsToTxnTopic(TOPIC, (0,)),),
        ),
        3,
        ((_WRITE_TRANSACTION, _topic(_O.WRITE)),),
    ),
    Call(
        "AddOffsetsToTxn",
        AddOffsetsToTxnRequest(TRANSACTION, 987_654, 0, GROUP),
        3,
        ((_WRITE_TRANSACTION, _group(_O.READ)),),
    ),
    Call(
        "TxnOffsetCommit",
        TxnOffsetCommitRequest(
            TRANSACTION,
            GROUP,
            987_654,
            topics=(TxnOffsetCommitRequestTopic(TOPIC, (TxnOffsetCommitRequestPartition(0, 1),)),),
        ),
        3,
        ((_WRITE_TRANSACTION, _group(_O.READ), _topic(_O.READ)),),
    ),
    Call("EndTxn", EndTxnRequest(TRANSACTION, 987_654, 0), 3, ((_WRITE_TRANSACTION,),)),
    Call(
        "DescribeTransactions",
        DescribeTransactionsRequest((TRANSACTION,)),
        None,
        ((_DESCRIBE_TRANSACTION,),),
    ),
    Call("ListTransactions", ListTransactionsRequest(), 0),
)

_NOBODY, _USER = "User:nobody-at-all", ResourceType.USER

CLUSTER = (
    Call("DescribeCluster", DescribeClusterRequest(include_cluster_authorized_operations=True), 0),
    Call("ApiVersions", ApiVersionsRequest(), 0),
    Call(
        "ListConfigResources",
        ListConfigResourcesRequest(),
        None,
        ((_cluster(_O.DESCRIBE_CONFIGS),),),
    ),
    Call(
        "DescribeAcls",
        DescribeAclsRequest(1, None, 1, _NOBODY, None, 1, 1),
        None,
        ((_cluster(_O.DESCRIBE),),),
    ),
    Call(
        "CreateAcls",
        CreateAclsRequest((AclCreation(2, "", 3, _NOBODY, "*", 3, 3),)),
        None,
        ((_cluster(_O.ALTER),),),
    ),
    Call(
        "DeleteAcls",
        DeleteAclsRequest((DeleteAclsFilter(1, None, 1, _NOBODY, None, 1, 1),)),
        None,
        ((_cluster(_O.ALTER),),),
    ),
    Call(
        "DescribeUserScramCredentials",
        DescribeUserScramCredentialsRequest((UserName("nobody-at-all"),)),
        None,
        ((_cluster(_O.DESCRIBE),),),
    ),
    Call("DescribeClientQuotas", DESCRIBE_QUOTAS, None, ((_cluster(_O.DESCRIBE_CONFIGS),),)),
    Call("CreateDelegationToken", CREATE_TOKEN, None, (((_O.CREATE_TOKENS, _USER, OWNER),),)),
    Call("RenewDelegationToken", RENEW_TOKEN),
    Call("ExpireDelegationToken", EXPIRE_TOKEN),
    Call("DescribeDelegationToken", DESCRIBE_TOKENS),
    Call("AlterClientQuotas", ALTER_QUOTAS, None, ((_cluster(_O.ALTER_CONFIGS),),)),
    Call(
        "AlterUserScramCredentials",
        AlterUserScramCredentialsRequest((ScramCredentialDeletion("nobody-at-all", 1),)),
        None,
        ((_cluster(_O.ALTER),),),
    ),
    Call(
        "WriteTxnMarkers",
        WriteTxnMarkersRequest(
            (WritableTxnMarker(topics=(WritableTxnMarkerTopic(_ABSENT, (0,)),)),),
        ),
        None,
        ((_cluster(_O.CLUSTER_ACTION),), (_cluster(_O.ALTER),)),
    ),
    Call("DescribeQuorum", DescribeQuorumRequest(), 0, ((_cluster(_O.DESCRIBE),),)),
    Call("UpdateFeatures", UpdateFeaturesRequest(), 0, ((_cluster(_O.ALTER),),)),
)

CALLS = (*DATA, *TOPICS, *GROUPS, *TRANSACTIONS, *CLUSTER)
