"""The table of what a broker serves: for each API its versions, its handler, and who may ask.

The API table in the documentation is generated from this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from coterie.errors import CoterieError
from coterie.protocol.api import ApiKey
from coterie.protocol.catalog import find_api
from coterie.protocol.schema import Request, Response
from coterie.server.handlers import (
    acls,
    alter_configs,
    cluster,
    configs,
    controller,
    data,
    delegation_tokens,
    groups,
    log_dirs,
    markers,
    quotas,
    reassignments,
    session,
    topics,
    transactions,
    users,
)
from coterie.server.requests.calls import Call
from coterie.server.security.access import ACCESS
from coterie.server.security.guard import Access
from coterie.server.services import Services

__all__ = ["HANDLERS", "Row", "served_apis"]

#: Given the request once more, typed as the API's own: the table pairs the two.
Handler = Callable[[Services, Call, Any], Response | None]


class Row(NamedTuple):
    """How one API is served: the lowest and highest version, by what, and who may ask."""

    lowest: int
    highest: int
    request: type[Request]
    handler: Handler
    access: Access


HANDLERS: Final[dict[ApiKey, Handler]] = {
    ApiKey.PRODUCE: data.produce,
    ApiKey.FETCH: data.fetch,
    ApiKey.LIST_OFFSETS: data.list_offsets,
    ApiKey.METADATA: cluster.metadata,
    ApiKey.OFFSET_COMMIT: groups.about_one_group,
    ApiKey.OFFSET_FETCH: groups.offset_fetch,
    ApiKey.FIND_COORDINATOR: cluster.find_coordinator,
    ApiKey.JOIN_GROUP: groups.about_one_group,
    ApiKey.HEARTBEAT: groups.about_one_group,
    ApiKey.LEAVE_GROUP: groups.about_one_group,
    ApiKey.SYNC_GROUP: groups.about_one_group,
    ApiKey.DESCRIBE_GROUPS: groups.describe_groups,
    ApiKey.LIST_GROUPS: groups.list_groups,
    ApiKey.SASL_HANDSHAKE: session.sasl_handshake,
    ApiKey.API_VERSIONS: session.api_versions,
    ApiKey.CREATE_TOPICS: topics.create_topics,
    ApiKey.DELETE_TOPICS: topics.delete_topics,
    ApiKey.DELETE_RECORDS: data.delete_records,
    ApiKey.INIT_PRODUCER_ID: transactions.init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: data.offset_for_leader_epoch,
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: transactions.add_offsets_to_txn,
    ApiKey.END_TXN: transactions.end_txn,
    ApiKey.WRITE_TXN_MARKERS: markers.write_txn_markers,
    ApiKey.TXN_OFFSET_COMMIT: transactions.txn_offset_commit,
    ApiKey.DESCRIBE_ACLS: acls.describe_acls,
    ApiKey.CREATE_ACLS: acls.create_acls,
    ApiKey.DELETE_ACLS: acls.delete_acls,
    ApiKey.DESCRIBE_CONFIGS: configs.describe_configs,
    ApiKey.ALTER_CONFIGS: alter_configs.alter_configs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: log_dirs.alter_replica_log_dirs,
    ApiKey.DESCRIBE_LOG_DIRS: log_dirs.describe_log_dirs,
    ApiKey.SASL_AUTHENTICATE: session.sasl_authenticate,
    ApiKey.CREATE_PARTITIONS: topics.create_partitions,
    ApiKey.CREATE_DELEGATION_TOKEN: delegation_tokens.create_delegation_token,
    ApiKey.RENEW_DELEGATION_TOKEN: delegation_tokens.renew_delegation_token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: delegation_tokens.expire_delegation_token,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: delegation_tokens.describe_delegation_token,
    ApiKey.DELETE_GROUPS: groups.delete_groups,
    ApiKey.ELECT_LEADERS: reassignments.elect_leaders,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: alter_configs.incremental_alter_configs,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: reassignments.alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: reassignments.list_partition_reassignments,
    ApiKey.OFFSET_DELETE: groups.about_one_group,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: quotas.describe_client_quotas,
    ApiKey.ALTER_CLIENT_QUOTAS: quotas.alter_client_quotas,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: users.describe_users,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: users.alter_users,
    ApiKey.DESCRIBE_QUORUM: controller.describe_quorum,
    ApiKey.UPDATE_FEATURES: controller.update_features,
    ApiKey.DESCRIBE_CLUSTER: cluster.describe_cluster,
    ApiKey.UNREGISTER_BROKER: cluster.unregister_broker,
    ApiKey.DESCRIBE_PRODUCERS: transactions.describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: transactions.describe_transactions,
    ApiKey.LIST_TRANSACTIONS: transactions.list_transactions,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: groups.about_one_group,
    ApiKey.CONSUMER_GROUP_DESCRIBE: groups.consumer_group_describe,
    ApiKey.LIST_CONFIG_RESOURCES: configs.list_config_resources,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: topics.describe_topic_partitions,
}

#: Where fewer versions are served than the protocol has.
_NARROWER: Final[dict[ApiKey, tuple[int, int]]] = {
    # As Kafka 4.3 says it, for older librdkafka (KAFKA-18659): 0 to 2 are listed and close the connection.
    ApiKey.PRODUCE: (0, 13),
    ApiKey.INIT_PRODUCER_ID: (0, 5),  # 6 is unstable in Kafka 4.3 and not advertised there either
}


def served_apis(max_versions: Mapping[str, int]) -> dict[ApiKey, Row]:
    """The rows of one broker; `max_versions` makes it an older one, by API name."""
    caps = {find_api(name): version for name, version in max_versions.items()}
    unserved = [api.api_name for api in caps if api not in HANDLERS]
    if unserved:
        raise CoterieError(f"{unserved[0]} is not served, so it cannot be limited")
    rows: dict[ApiKey, Row] = {}
    for api, handler in sorted(HANDLERS.items()):
        lowest, highest = _NARROWER.get(api, api.versions)
        highest = min(highest, caps.get(api, highest))
        if highest >= lowest:
            rows[api] = Row(lowest, highest, api.request, handler, ACCESS[api])
    return rows
