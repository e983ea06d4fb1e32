"""Who may ask for what: for every API the operations it needs, and on which resources.

Dispatch enforces this table and the documentation is generated from it, so that neither can say what the
other does not (CVE-2026-41115). An API that is not in it cannot be served.
"""

from __future__ import annotations

from typing import Any, Final

from coterie.protocol.api import ApiKey
from coterie.protocol.messages.acls import (
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    DeleteAclsRequest,
)
from coterie.protocol.messages.quotas import AlterClientQuotasRequest
from coterie.security.acls import Operation, ResourceType
from coterie.server.security.access_rules import Each, Omit, Whole
from coterie.server.security.guard import Access, Need
from coterie.server.security.offset_rules import OffsetFetchRule
from coterie.server.security.records import binding_of, filter_of
from coterie.server.security.special_rules import (
    AddPartitionsRule,
    ConfigsRule,
    ConsumerGroupDescribeRule,
    CreateTopicsRule,
    DeleteTopicsRule,
    DescribeClusterRule,
    DescribeTopicPartitionsRule,
    DescribeTransactionsRule,
    FindCoordinatorRule,
    InitProducerIdRule,
    MetadataRule,
    ProduceRule,
    SubscriptionRule,
)
from coterie.server.security.token_rules import CreateTokenRule, DescribeTokensRule

__all__ = ["ACCESS"]

_O = Operation
_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
_TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID


def _always(_request: Any) -> bool:
    return True


def _without_member(request: Any) -> bool:
    """Commits without a member id are made by administrators and tools, not by members of a group."""
    return not request.member_id


def _new_acls(request: CreateAclsRequest) -> tuple[str, list[str]]:
    return "Acl", [str(binding_of(each)) for each in request.creations]


def _filters_of_acls(request: DeleteAclsRequest) -> tuple[str, list[str]]:
    return "Acl", [str(filter_of(each)) for each in request.filters]


def _users(request: AlterUserScramCredentialsRequest) -> tuple[str, list[str]]:
    changed = [each.name for each in request.deletions]
    return "User", changed + [each.name for each in request.upsertions]


def _quota_entities(request: AlterClientQuotasRequest) -> tuple[str, list[str]]:
    entities = (each.entity for each in request.entries)
    return "ClientQuota", [
        ", ".join(f"{each.entity_type}={each.entity_name or '<default>'}" for each in entity)
        for entity in entities
    ]


def _token(_request: Any) -> tuple[str, list[str]]:
    """The handler names the token: a request has no more of it than its secret."""
    return "DelegationToken", []


_MEMBER: Final = Access((Whole(_O.READ, _GROUP, "group_id"),))
_DESCRIBE_CLUSTER: Final = Access((Whole(_O.DESCRIBE, _CLUSTER),))
_ALTER_CLUSTER: Final = (Whole(_O.ALTER, _CLUSTER),)
_WRITE_TRANSACTION: Final = Whole(_O.WRITE, _TRANSACTIONAL_ID, "transactional_id")
_ANYBODY: Final = Access()

ACCESS: Final[dict[ApiKey, Access]] = {
    ApiKey.PRODUCE: Access((_WRITE_TRANSACTION, ProduceRule())),
    ApiKey.FETCH: Access((Each(_O.READ, _TOPIC, "topics", "topic"),)),
    ApiKey.LIST_OFFSETS: Access((Each(_O.DESCRIBE, _TOPIC, "topics", "name"),)),
    ApiKey.METADATA: Access((MetadataRule(),)),
    ApiKey.OFFSET_COMMIT: Access(
        (Whole(_O.READ, _GROUP, "group_id"), Each(_O.READ, _TOPIC, "topics", "name")),
        _without_member,
    ),
    ApiKey.OFFSET_FETCH: Access((OffsetFetchRule(),)),
    ApiKey.FIND_COORDINATOR: Access((FindCoordinatorRule(),)),
    ApiKey.JOIN_GROUP: _MEMBER,
    ApiKey.HEARTBEAT: _MEMBER,
    ApiKey.LEAVE_GROUP: _MEMBER,
    ApiKey.SYNC_GROUP: _MEMBER,
    ApiKey.DESCRIBE_GROUPS: Access((Each(_O.DESCRIBE, _GROUP, "groups"),)),
    ApiKey.LIST_GROUPS: Access(
        (Omit(_O.DESCRIBE, _GROUP, "groups", "group_id", Need(_O.DESCRIBE, _CLUSTER, "or")),)
    ),
    ApiKey.SASL_HANDSHAKE: _ANYBODY,
    ApiKey.API_VERSIONS: _ANYBODY,
    ApiKey.CREATE_TOPICS: Access((CreateTopicsRule(),), _always),
    ApiKey.DELETE_TOPICS: Access(
        (DeleteTopicsRule("topic_names"), DeleteTopicsRule("topics", "name")), _always
    ),
    ApiKey.DELETE_RECORDS: Access((Each(_O.DELETE, _TOPIC, "topics", "name"),), _always),
    ApiKey.INIT_PRODUCER_ID: Access((InitProducerIdRule(),)),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Access(
        (
            Each(
                _O.DESCRIBE,
                _TOPIC,
                "topics",
                "topic",
                unless=Need(_O.CLUSTER_ACTION, _CLUSTER, "or"),
            ),
        )
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: Access((AddPartitionsRule(),)),
    ApiKey.ADD_OFFSETS_TO_TXN: Access((_WRITE_TRANSACTION, Whole(_O.READ, _GROUP, "group_id"))),
    ApiKey.END_TXN: Access((_WRITE_TRANSACTION,)),
    ApiKey.WRITE_TXN_MARKERS: Access(
        (Whole(_O.CLUSTER_ACTION, _CLUSTER, unless=Need(_O.ALTER, _CLUSTER, "or")),), _always
    ),
    ApiKey.TXN_OFFSET_COMMIT: Access(
        (
            _WRITE_TRANSACTION,
            Whole(_O.READ, _GROUP, "group_id"),
            Each(_O.READ, _TOPIC, "topics", "name"),
        )
    ),
    ApiKey.DESCRIBE_ACLS: _DESCRIBE_CLUSTER,
    ApiKey.CREATE_ACLS: Access(_ALTER_CLUSTER, _always, _new_acls),
    ApiKey.DELETE_ACLS: Access(_ALTER_CLUSTER, _always, _filters_of_acls),
    ApiKey.DESCRIBE_CONFIGS: Access((ConfigsRule(_O.DESCRIBE_CONFIGS),)),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Access(_ALTER_CLUSTER, _always),
    ApiKey.DESCRIBE_LOG_DIRS: Access((Whole(_O.DESCRIBE, _CLUSTER, bare=True),)),
    ApiKey.SASL_AUTHENTICATE: _ANYBODY,
    ApiKey.CREATE_PARTITIONS: Access((Each(_O.ALTER, _TOPIC, "topics", "name"),), _always),
    ApiKey.CREATE_DELEGATION_TOKEN: Access((CreateTokenRule(),), _always, _token),
    ApiKey.RENEW_DELEGATION_TOKEN: Access((), _always, _token),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Access((), _always, _token),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Access((DescribeTokensRule(),)),
    ApiKey.DELETE_GROUPS: Access((Each(_O.DELETE, _GROUP, "groups_names"),), _always),
    ApiKey.ELECT_LEADERS: Access(_ALTER_CLUSTER, _always),
    ApiKey.ALTER_CONFIGS: Access((ConfigsRule(_O.ALTER_CONFIGS),), _always),
    ApiKey.LIST_CONFIG_RESOURCES: Access((Whole(_O.DESCRIBE_CONFIGS, _CLUSTER),)),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Access((ConfigsRule(_O.ALTER_CONFIGS),), _always),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Access(_ALTER_CLUSTER, _always),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _DESCRIBE_CLUSTER,
    ApiKey.OFFSET_DELETE: Access(
        (
            Whole(_O.DELETE, _GROUP, "group_id", bare=True),
            Each(_O.READ, _TOPIC, "topics", "name"),
        ),
        _always,
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Access((Whole(_O.DESCRIBE_CONFIGS, _CLUSTER),)),
    ApiKey.ALTER_CLIENT_QUOTAS: Access(
        (Whole(_O.ALTER_CONFIGS, _CLUSTER),), _always, _quota_entities
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _DESCRIBE_CLUSTER,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Access(_ALTER_CLUSTER, _always, _users),
    ApiKey.DESCRIBE_QUORUM: _DESCRIBE_CLUSTER,
    ApiKey.UPDATE_FEATURES: Access(_ALTER_CLUSTER, _always),
    ApiKey.DESCRIBE_CLUSTER: Access((DescribeClusterRule(),)),
    ApiKey.UNREGISTER_BROKER: Access(_ALTER_CLUSTER, _always),
    ApiKey.DESCRIBE_PRODUCERS: Access((Each(_O.READ, _TOPIC, "topics", "name"),)),
    ApiKey.DESCRIBE_TRANSACTIONS: Access((DescribeTransactionsRule(),)),
    ApiKey.LIST_TRANSACTIONS: Access(
        (Omit(_O.DESCRIBE, _TRANSACTIONAL_ID, "transaction_states", "transactional_id"),)
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Access(
        (Whole(_O.READ, _GROUP, "group_id"), SubscriptionRule())
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Access((ConsumerGroupDescribeRule(),)),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Access((DescribeTopicPartitionsRule(),)),
}
