"""Who x what: users with every kind of ACL, and a call of every API, for two clusters to be compared.

What this is: one world (topics, a group with a member, users with ACLs), the calls with what each needs by
Kafka's documentation, and the essence of an answer: who was told what about which thing. Calls change nothing
that another call could see. What this is not: an authorizer; the ten lines that judge are in
tests/kit/reference_authorizer.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from coterie.error_codes import ErrorCode
from coterie.protocol.api import ApiKey
from coterie.protocol.messages.acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from coterie.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from coterie.protocol.messages.membership import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from coterie.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from coterie.protocol.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from coterie.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from coterie.protocol.schema import Struct
from coterie.protocol.versioned import encode_versioned
from coterie.security.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tests.kit.token_requests import OWNER
from tests.kit.wire_client import WireClient

__all__ = ["GROUP", "TOPIC", "TRANSACTION", "USERS", "acls_of", "essence", "make_world", "password"]

TOPIC, GROUP, TRANSACTION = "m-orders", "m-group", "m-transaction"
#: Things that are there, and that only wildcards and prefixes reach.
OTHER_TOPIC, OTHER_GROUP = "m-payments", "m-other"

_T, _G, _C = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
_X = ResourceType.TRANSACTIONAL_ID
_HERE, _ELSEWHERE = "127.0.0.1", "192.0.2.1"


class Grant(NamedTuple):
    """An ACL without its principal."""

    operation: Operation
    resource: ResourceType
    name: str = ""
    pattern: PatternType = PatternType.LITERAL
    permission: Permission = Permission.ALLOW
    host: str = "*"


def _named(operation: Operation, resource: ResourceType) -> Grant:
    names = {_T: TOPIC, _G: GROUP, _C: CLUSTER_NAME, _X: TRANSACTION}
    return Grant(operation, resource, names[resource])


def _literal_users() -> dict[str, tuple[Grant, ...]]:
    """For each operation on each kind of resource a user who has that and nothing else."""
    found: dict[str, tuple[Grant, ...]] = {}
    for resource in (_T, _G, _C, _X):
        operations = SUPPORTED_OPERATIONS[resource]
        for operation in (*operations, Operation.ALL):
            if operation is not Operation.TWO_PHASE_COMMIT:
                name = f"{resource.name}-{operation.name}".lower()
                found[name] = (_named(operation, resource),)
    return found


_O = Operation
_DENY, _PREFIX = Permission.DENY, PatternType.PREFIXED

USERS: dict[str, tuple[Grant, ...]] = {
    "admin": (),  # the super user
    "none": (),
    **_literal_users(),
    "prefixed": tuple(Grant(_O.DESCRIBE, each, "m-", _PREFIX) for each in (_T, _G, _X)),
    "prefixed-elsewhere": tuple(Grant(_O.ALL, each, "n-", _PREFIX) for each in (_T, _G, _X)),
    "wildcard": tuple(Grant(_O.READ, each, "*") for each in (_T, _G)),
    "denied": (
        *(Grant(_O.ALL, each, "*") for each in (_T, _G, _X)),
        Grant(_O.DESCRIBE, _T, TOPIC, permission=_DENY),
        Grant(_O.DESCRIBE, _G, "m-g", _PREFIX, _DENY),
    ),
    # A denial denies itself alone: Describe stays.
    "denied-read": (
        *(Grant(_O.ALL, each, "*") for each in (_T, _G)),
        *(Grant(_O.READ, each, "*", permission=_DENY) for each in (_T, _G)),
    ),
    "denied-all": (
        *(Grant(_O.ALL, each, "*") for each in (_T, _G)),
        Grant(_O.ALL, _G, GROUP, permission=_DENY),
    ),
    "from-here": tuple(Grant(_O.READ, each, "m-", _PREFIX, host=_HERE) for each in (_T, _G)),
    "from-elsewhere": tuple(
        Grant(_O.READ, each, "m-", _PREFIX, host=_ELSEWHERE) for each in (_T, _G)
    ),
    "denied-elsewhere": (
        Grant(_O.READ, _G, GROUP),
        Grant(_O.READ, _G, GROUP, permission=_DENY, host=_ELSEWHERE),
    ),
    "token-creator": (Grant(_O.CREATE_TOKENS, ResourceType.USER, OWNER),),
    "token-describer": (Grant(_O.DESCRIBE_TOKENS, ResourceType.USER, "*"),),
    "reader": (Grant(_O.READ, _T, TOPIC), Grant(_O.READ, _G, GROUP)),
    "deleter": (Grant(_O.DELETE, _G, GROUP), Grant(_O.READ, _T, "*")),
    "transactional": (
        Grant(_O.WRITE, _X, TRANSACTION),
        Grant(_O.READ, _G, GROUP),
        Grant(_O.READ, _T, TOPIC),
        Grant(_O.WRITE, _T, TOPIC),
    ),
}


def password(user: str) -> str:
    return f"{user}-hush"


def acls_of(user: str) -> list[AclBinding]:
    return [
        AclBinding(
            each.resource,
            each.name,
            each.pattern,
            f"User:{user}",
            each.host,
            each.operation,
            each.permission,
        )
        for each in USERS[user]
    ]


_PRODUCER = InitProducerIdRequest(None, 60_000)


# -- the world --------------------------------------------------------------------------------------------


def make_world(client: WireClient) -> None:
    """Topics, groups and ACLs, made by a super user."""
    topics = tuple(CreatableTopic(name, 2, 1) for name in (TOPIC, OTHER_TOPIC))
    made = client.ask(CreateTopicsRequest(topics), CreateTopicsResponse)
    assert not any(each.error_code for each in made.topics), made
    _coordinated(client, 0, (GROUP, OTHER_GROUP))
    _coordinated(client, 1, (TRANSACTION,))
    for group in (GROUP, OTHER_GROUP):
        _until_ok(lambda group=group: _commit(client, group))  # type: ignore[misc]
    _until_ok(lambda: client.ask(_PRODUCER, InitProducerIdResponse, 3).error_code)
    _join(client)
    _create_acls(client)


def _coordinated(client: WireClient, key_type: int, keys: tuple[str, ...]) -> None:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys)
    _until_ok(lambda: client.ask(request, FindCoordinatorResponse).coordinators[0].error_code)


def _until_ok(ask: Callable[[], int]) -> None:
    """A coordinator that has just been made needs a moment."""
    while ErrorCode.of(code := ask()).retriable:
        pass
    assert code == 0, ErrorCode.of(code)


def _commit(client: WireClient, group: str) -> int:
    partitions = (OffsetCommitRequestPartition(0, 1),)
    topics = tuple(
        OffsetCommitRequestTopic(name, partitions=partitions) for name in (TOPIC, OTHER_TOPIC)
    )
    request = OffsetCommitRequest(group, -1, topics=topics)
    answer = client.ask(request, OffsetCommitResponse, 8)
    return answer.topics[0].partitions[0].error_code


def _join(client: WireClient) -> None:
    """A member that stays for half an hour, so that no call can delete or change its group."""
    subscription = encode_versioned(ConsumerProtocolSubscription(topics=(TOPIC,)), 1)
    request = JoinGroupRequest(
        GROUP,
        1_800_000,
        1_800_000,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol("range", subscription),),
    )
    joined = client.ask(request, JoinGroupResponse, 3)
    assert joined.error_code == 0, joined
    assignment = SyncGroupRequestAssignment(joined.member_id, b"")
    sync = SyncGroupRequest(
        GROUP, joined.generation_id, joined.member_id, assignments=(assignment,)
    )
    assert client.ask(sync, SyncGroupResponse, 3).error_code == 0


def _create_acls(client: WireClient) -> None:
    acls = [acl for user in USERS for acl in acls_of(user)]
    creations = tuple(
        AclCreation(
            acl.resource_type,
            acl.resource_name,
            acl.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission,
        )
        for acl in acls
    )
    answer = client.ask(CreateAclsRequest(creations), CreateAclsResponse)
    assert not any(each.error_code for each in answer.results), answer


# -- answers ----------------------------------------------------------------------------------------------

#: What says which thing is meant.
_IDENTITIES = frozenset({
    "group_id", "index", "key", "name", "partition_index", "partition", "resource_name", "topic",
    "topic_name", "transactional_id", "principal",
})  # fmt: skip
_CODES = frozenset({"error_code", "partition_error_code", "topic_config_error_code"})
_BITS = "authorized_operations"


def essence(value: Any) -> Any:
    """An answer without what differs from cluster to cluster: names, error codes, operations, lists."""
    if isinstance(value, Struct):
        told = {
            name: essence(getattr(value, name))
            for name in value.__struct_fields__
            if name in _IDENTITIES or name in _CODES or name.endswith(_BITS)
        }
        if str(told.get("name", "")).startswith("__"):
            return told  # how many partitions an internal topic has is the cluster's business
        lists = {
            name: essence(getattr(value, name))
            for name in value.__struct_fields__
            if isinstance(getattr(value, name), tuple) and name not in _VARYING
        }
        return told | {name: items for name, items in lists.items() if items}
    if isinstance(value, tuple):
        items = [essence(each) for each in value if isinstance(each, Struct)]
        return sorted((each for each in items if each), key=repr)
    return value


#: Lists that are the cluster's own business: its brokers, its settings, its mechanisms.
_VARYING = frozenset({"brokers", "configs", "api_keys", "node_endpoints", "records", "members"})


def codes(value: Any) -> set[int]:
    """All error codes in an essence."""
    if isinstance(value, dict):
        own = {item for name, item in value.items() if name in _CODES}
        return own.union(*(codes(item) for item in value.values()))
    return set().union(*map(codes, value)) if isinstance(value, list) else set()


REFUSALS = frozenset({
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
})  # fmt: skip


class Answers(NamedTuple):
    """What every user was answered, by the name of the call."""

    by_call: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, connect: Callable[[str], WireClient], calls: Iterable[Any]) -> Answers:
        found: dict[str, dict[str, Any]] = {}
        calls = list(calls)
        for user in USERS:
            with connect(user) as client:
                for call in calls:
                    api = ApiKey(type(call.request).__key__)
                    answer = client.ask(call.request, api.response, call.version)
                    found.setdefault(call.name, {})[user] = essence(answer)
        return cls(found)
