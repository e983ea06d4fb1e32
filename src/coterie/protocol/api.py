"""The APIs that Coterie speaks: Kafka's number for each, and where its messages are declared.

Messages are imported when they are first asked for, so that a program pays for the APIs it uses.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import Self

from coterie.protocol.schema import Request, Response, Versions

__all__ = ["ApiKey"]


class ApiKey(IntEnum):
    """Kafka's API keys; the second value names the module in coterie.protocol.messages."""

    module: str

    def __new__(cls, key: int, module: str = "") -> Self:
        member = int.__new__(cls, key)
        member._value_ = key
        member.module = module
        return member

    PRODUCE = 0, "data"
    FETCH = 1, "data"
    LIST_OFFSETS = 2, "data"
    METADATA = 3, "cluster"
    OFFSET_COMMIT = 8, "offsets"
    OFFSET_FETCH = 9, "offsets"
    FIND_COORDINATOR = 10, "cluster"
    JOIN_GROUP = 11, "membership"
    HEARTBEAT = 12, "membership"
    LEAVE_GROUP = 13, "membership"
    SYNC_GROUP = 14, "membership"
    DESCRIBE_GROUPS = 15, "groups"
    LIST_GROUPS = 16, "groups"
    SASL_HANDSHAKE = 17, "session"
    API_VERSIONS = 18, "session"
    CREATE_TOPICS = 19, "topics"
    DELETE_TOPICS = 20, "topics"
    DELETE_RECORDS = 21, "topics"
    INIT_PRODUCER_ID = 22, "transactions"
    OFFSET_FOR_LEADER_EPOCH = 23, "data"
    ADD_PARTITIONS_TO_TXN = 24, "transactions"
    ADD_OFFSETS_TO_TXN = 25, "transactions"
    END_TXN = 26, "transactions"
    WRITE_TXN_MARKERS = 27, "transactions"
    TXN_OFFSET_COMMIT = 28, "transactions"
    DESCRIBE_ACLS = 29, "acls"
    CREATE_ACLS = 30, "acls"
    DELETE_ACLS = 31, "acls"
    DESCRIBE_CONFIGS = 32, "configs"
    ALTER_CONFIGS = 33, "configs"
    ALTER_REPLICA_LOG_DIRS = 34, "replicas"
    DESCRIBE_LOG_DIRS = 35, "replicas"
    SASL_AUTHENTICATE = 36, "session"
    CREATE_PARTITIONS = 37, "topics"
    CREATE_DELEGATION_TOKEN = 38, "delegation_tokens"
    RENEW_DELEGATION_TOKEN = 39, "delegation_tokens"
    EXPIRE_DELEGATION_TOKEN = 40, "delegation_tokens"
    DESCRIBE_DELEGATION_TOKEN = 41, "delegation_tokens"
    DELETE_GROUPS = 42, "groups"
    ELECT_LEADERS = 43, "replicas"
    INCREMENTAL_ALTER_CONFIGS = 44, "configs"
    ALTER_PARTITION_REASSIGNMENTS = 45, "replicas"
    LIST_PARTITION_REASSIGNMENTS = 46, "replicas"
    OFFSET_DELETE = 47, "offsets"
    DESCRIBE_CLIENT_QUOTAS = 48, "quotas"
    ALTER_CLIENT_QUOTAS = 49, "quotas"
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50, "acls"
    ALTER_USER_SCRAM_CREDENTIALS = 51, "acls"
    DESCRIBE_QUORUM = 55, "controller"
    UPDATE_FEATURES = 57, "controller"
    DESCRIBE_CLUSTER = 60, "cluster"
    DESCRIBE_PRODUCERS = 61, "transactions"
    UNREGISTER_BROKER = 64, "controller"
    DESCRIBE_TRANSACTIONS = 65, "transactions"
    LIST_TRANSACTIONS = 66, "transactions"
    CONSUMER_GROUP_HEARTBEAT = 68, "consumer_groups"
    CONSUMER_GROUP_DESCRIBE = 69, "consumer_groups"
    LIST_CONFIG_RESOURCES = 74, "configs"
    DESCRIBE_TOPIC_PARTITIONS = 75, "topics"
    SHARE_GROUP_HEARTBEAT = 76, "share_groups"
    SHARE_GROUP_DESCRIBE = 77, "share_groups"
    STREAMS_GROUP_HEARTBEAT = 88, "streams_groups"
    STREAMS_GROUP_DESCRIBE = 89, "streams_groups"
    DESCRIBE_SHARE_GROUP_OFFSETS = 90, "share_groups"
    ALTER_SHARE_GROUP_OFFSETS = 91, "share_groups"
    DELETE_SHARE_GROUP_OFFSETS = 92, "share_groups"

    @property
    def api_name(self) -> str:
        """Kafka's spelling: LIST_GROUPS is ListGroups."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def request(self) -> type[Request]:
        return _messages(self)[0]

    @property
    def response(self) -> type[Response]:
        return _messages(self)[1]

    @property
    def versions(self) -> Versions:
        """The versions that Apache Kafka 4.3 serves, and so do these messages."""
        return self.request.__versions__

    def request_header_version(self, version: int) -> int:
        """Header 2 has tagged fields, and comes with the flexible versions."""
        return 2 if _is_flexible(self, version) else 1

    def response_header_version(self, version: int) -> int:
        """As above, but never for ApiVersions: its answer must be readable before versions are known."""
        if self is ApiKey.API_VERSIONS:
            return 0
        return 1 if _is_flexible(self, version) else 0


def _is_flexible(api: ApiKey, version: int) -> bool:
    return version in api.request.__flexible__


@cache
def _messages(api: ApiKey) -> tuple[type[Request], type[Response]]:
    module = import_module(f"coterie.protocol.messages.{api.module}")
    return getattr(module, f"{api.api_name}Request"), getattr(module, f"{api.api_name}Response")
