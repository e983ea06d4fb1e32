"""Rules of APIs that ask for more than one thing at once, each as Kafka has it (KafkaApis)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

from msgspec.structs import replace

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.cluster import (
    DescribeClusterResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from coterie.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    DescribedGroup,
)
from coterie.protocol.messages.data import ProduceRequest, ProduceResponse
from coterie.protocol.messages.topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribeTopicPartitionsResponse,
)
from coterie.protocol.messages.transactions import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
    DescribeTransactionsResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from coterie.protocol.schema import Request, Response
from coterie.security.acls import CLUSTER_NAME, Operation, ResourceType, operation_bits
from coterie.server.metadata.topics import INTERNAL_TOPICS
from coterie.server.security.access_rules import Each
from coterie.server.security.guard import ERRORS, Guard, Need, Needs, Rule

__all__ = [
    "AddPartitionsRule",
    "ConfigsRule",
    "ConsumerGroupDescribeRule",
    "CreateTopicsRule",
    "DeleteTopicsRule",
    "DescribeClusterRule",
    "DescribeTopicPartitionsRule",
    "DescribeTransactionsRule",
    "FindCoordinatorRule",
    "InitProducerIdRule",
    "MetadataRule",
    "ProduceRule",
    "SubscriptionRule",
]

_O, _R = Operation, ResourceType
_TOPIC_BITS: Final = operation_bits(_R.TOPIC)
_CLUSTER_BITS: Final = operation_bits(_R.CLUSTER)
_NOT_ASKED: Final = -(2**31)


class ProduceRule(Each):
    """Write on each topic. A producer that wants no answer learns of a refusal by losing the connection."""

    def __init__(self) -> None:
        super().__init__(_O.WRITE, _R.TOPIC, "topic_data", "name", goes_on_empty=True)

    def apply(self, guard: Guard, /) -> None:
        super().apply(guard)
        request = cast("ProduceRequest", guard.call.request)
        if guard.denied and request.acks == 0:
            guard.close("Produce with acks 0 was refused")
        elif guard.denied and not request.topic_data:
            guard.answer(ProduceResponse())


class MetadataRule(Each):
    """Describe on each topic, and Create for one that would be made. Of all, those that may be seen."""

    def __init__(self) -> None:
        super().__init__(_O.DESCRIBE, _R.TOPIC, "topics", "name", goes_on_empty=True)

    @property
    def needs(self) -> Needs:
        return (
            *super().needs,
            Need(_O.CREATE, _R.CLUSTER, "to create a topic on the way; or"),
            Need(_O.CREATE, _R.TOPIC),
        )

    def apply(self, guard: Guard, /) -> None:
        asked = cast("MetadataRequest", guard.call.request)
        guard.notes["all"] = asked.topics is None or (guard.call.version == 0 and not asked.topics)
        super().apply(guard)
        request = cast("MetadataRequest", guard.call.request)
        if request.topics and request.allow_auto_topic_creation:
            self._create(guard, request)

    def _create(self, guard: Guard, request: MetadataRequest) -> None:
        named = {each.name for each in request.topics or () if each.name}
        new = {name for name in named if guard.creates_topic(name)}
        if not new or guard.allows(_O.CREATE, _R.CLUSTER):
            return
        refused = new - guard.allowed(_O.CREATE, _R.TOPIC, new)
        if refused:
            topics = request.topics or ()
            guard.refused(_O.CREATE, _R.TOPIC, sorted(refused))
            part = tuple(each for each in topics if each.name in refused)
            guard.deny(replace(request, topics=part), ERRORS[_R.TOPIC])
            rest = tuple(each for each in topics if each.name not in refused)
            guard.call.request = replace(request, topics=rest)

    def finish(self, guard: Guard, response: Response, /) -> Response:
        answer = cast("MetadataResponse", response)
        request = cast("MetadataRequest", guard.call.request)
        topics = answer.topics
        if guard.notes["all"]:
            seen = guard.allowed(_O.DESCRIBE, _R.TOPIC, [each.name or "" for each in topics])
            topics = tuple(each for each in topics if each.name in seen)
        elif not request.topics:
            topics = ()  # to version 0 an empty list would mean all of them
        if request.include_topic_authorized_operations:
            topics = tuple(
                replace(
                    each,
                    topic_authorized_operations=guard.operations(
                        _R.TOPIC, each.name, all_of_them=_TOPIC_BITS
                    ),
                )
                if each.name and not each.error_code
                else each
                for each in topics
            )
        bits = answer.cluster_authorized_operations
        if request.include_cluster_authorized_operations:
            bits = _cluster_bits(guard)
        return replace(answer, topics=topics, cluster_authorized_operations=bits)


class DescribeClusterRule(Rule):
    """All callers see the brokers; allowed operations are returned to those who may describe the cluster."""

    @property
    def needs(self) -> Needs:
        return (Need(_O.DESCRIBE, _R.CLUSTER, "to see the allowed operations"),)

    def finish(self, guard: Guard, response: Response, /) -> Response:
        answer = cast("DescribeClusterResponse", response)
        if answer.cluster_authorized_operations == _NOT_ASKED:
            return answer
        return replace(answer, cluster_authorized_operations=_cluster_bits(guard))


def _cluster_bits(guard: Guard) -> int:
    if not guard.allows(_O.DESCRIBE, _R.CLUSTER):
        return 0
    return guard.operations(_R.CLUSTER, CLUSTER_NAME, all_of_them=_CLUSTER_BITS)


class FindCoordinatorRule(Rule):
    """Describe on the group or the transactional id; coordinators of share groups are the brokers' own."""

    _KINDS: Final = {0: _R.GROUP, 1: _R.TRANSACTIONAL_ID}

    @property
    def needs(self) -> Needs:
        return (
            Need(_O.DESCRIBE, _R.GROUP, "for a group"),
            Need(_O.DESCRIBE, _R.TRANSACTIONAL_ID, "for a transactional id"),
            Need(_O.CLUSTER_ACTION, _R.CLUSTER, "for a share partition"),
        )

    def apply(self, guard: Guard, /) -> None:
        request = cast("FindCoordinatorRequest", guard.call.request)
        kind = self._KINDS.get(request.key_type)
        if kind is None:
            if request.key_type == 2 and not guard.allows(_O.CLUSTER_ACTION, _R.CLUSTER):
                guard.refuse_all(_O.CLUSTER_ACTION, _R.CLUSTER, (CLUSTER_NAME,))
            return
        batched = guard.call.version >= 4
        keys = request.coordinator_keys if batched else (request.key,)
        allowed = guard.allowed(_O.DESCRIBE, kind, keys)
        refused = tuple(key for key in keys if key not in allowed)
        if not refused:
            return
        guard.refused(_O.DESCRIBE, kind, refused)
        error = ERRORS[kind]
        if not batched:
            answer = cast("FindCoordinatorResponse", guard.call.refusal(error))
            guard.answer(replace(answer, error_message=error.message))
            return
        guard.deny(replace(request, coordinator_keys=refused), error)
        denied = cast("FindCoordinatorResponse", guard.denied[-1])
        answers = tuple(replace(each, error_message=error.message) for each in denied.coordinators)
        guard.denied[-1] = replace(denied, coordinators=answers)
        rest = tuple(key for key in keys if key in allowed)
        guard.call.request = replace(request, coordinator_keys=rest)
        if not rest:
            guard.answer(FindCoordinatorResponse())


class InitProducerIdRule(Rule):
    """Write on the transactional id; without one, on any topic, or IdempotentWrite (KIP-679)."""

    @property
    def needs(self) -> Needs:
        return (
            Need(_O.WRITE, _R.TRANSACTIONAL_ID, "if there is one"),
            Need(_O.IDEMPOTENT_WRITE, _R.CLUSTER, "else; or"),
            Need(_O.WRITE, _R.TOPIC, "on any topic"),
        )

    def apply(self, guard: Guard, /) -> None:
        name = cast("InitProducerIdRequest", guard.call.request).transactional_id
        if name is not None:
            if guard.allows(_O.WRITE, _R.TRANSACTIONAL_ID, name):
                return
            kind, names = _R.TRANSACTIONAL_ID, (name,)
        else:
            if guard.allows(_O.IDEMPOTENT_WRITE, _R.CLUSTER):
                return
            if guard.allows_any(_O.WRITE, _R.TOPIC):
                return
            kind, names = _R.CLUSTER, (CLUSTER_NAME,)
        operation = _O.WRITE if name is not None else _O.IDEMPOTENT_WRITE
        guard.refused(operation, kind, names)
        guard.answer(InitProducerIdResponse(error_code=ERRORS[kind], producer_epoch=-1))


class AddPartitionsRule(Rule):
    """Write on the transactional id and on every topic, or nothing is added; many at once is for brokers."""

    @property
    def needs(self) -> Needs:
        return (
            Need(_O.WRITE, _R.TRANSACTIONAL_ID, "to version 3"),
            Need(_O.WRITE, _R.TOPIC, "to version 3"),
            Need(_O.CLUSTER_ACTION, _R.CLUSTER, "from version 4"),
        )

    def apply(self, guard: Guard, /) -> None:
        request = cast("AddPartitionsToTxnRequest", guard.call.request)
        if guard.call.version >= 4:
            if not guard.allows(_O.CLUSTER_ACTION, _R.CLUSTER):
                guard.refuse_all(_O.CLUSTER_ACTION, _R.CLUSTER, (CLUSTER_NAME,))
            return
        name = request.v3_and_below_transactional_id
        if not guard.allows(_O.WRITE, _R.TRANSACTIONAL_ID, name):
            guard.refuse_all(_O.WRITE, _R.TRANSACTIONAL_ID, (name,))
            return
        names = {each.name for each in request.v3_and_below_topics}
        allowed = guard.allowed(_O.WRITE, _R.TOPIC, names) - INTERNAL_TOPICS
        if names <= allowed:
            return
        guard.refused(_O.WRITE, _R.TOPIC, sorted(names - allowed))
        results = tuple(
            AddPartitionsToTxnTopicResult(
                topic.name,
                tuple(
                    AddPartitionsToTxnPartitionResult(
                        index,
                        ErrorCode.OPERATION_NOT_ATTEMPTED
                        if topic.name in allowed
                        else ERRORS[_R.TOPIC],
                    )
                    for index in topic.partitions
                ),
            )
            for topic in request.v3_and_below_topics
        )
        guard.answer(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))


class CreateTopicsRule(Each):
    """Create on the cluster or on each topic; settings are returned to those who may describe them."""

    def __init__(self) -> None:
        super().__init__(_O.CREATE, _R.TOPIC, "topics", "name")

    @property
    def needs(self) -> Needs:
        return (
            Need(_O.CREATE, _R.CLUSTER, "or"),
            *super().needs,
            Need(_O.DESCRIBE_CONFIGS, _R.TOPIC, "to see its settings"),
        )

    def names(self, request: Request, /) -> tuple[str, Iterable[str]]:
        topics = cast("CreateTopicsRequest", request).topics
        return _R.TOPIC.title, tuple(each.name for each in topics)

    def apply(self, guard: Guard, /) -> None:
        if not guard.allows(_O.CREATE, _R.CLUSTER):
            super().apply(guard)

    def finish(self, guard: Guard, response: Response, /) -> Response:
        answer = cast("CreateTopicsResponse", response)
        shown = guard.allowed(_O.DESCRIBE_CONFIGS, _R.TOPIC, [each.name for each in answer.topics])
        return replace(
            answer,
            topics=tuple(
                each
                if each.error_code or each.name in shown
                else replace(
                    each,
                    topic_config_error_code=ERRORS[_R.TOPIC],
                    num_partitions=-1,
                    replication_factor=-1,
                    configs=(),
                )
                for each in answer.topics
            ),
        )


class DeleteTopicsRule(Each):
    """Delete on each topic; a missing topic is reported to those who may describe it."""

    def __init__(self, field: str, name: str = "") -> None:
        on_all = Need(_O.DELETE, _R.CLUSTER, "or")
        super().__init__(_O.DELETE, _R.TOPIC, field, name, unless=on_all)

    def allowed(self, guard: Guard, names: set[str]) -> set[str]:
        deletable = super().allowed(guard, names)
        seen = guard.allowed(_O.DESCRIBE, _R.TOPIC, names)
        return {name for name in seen if name in deletable or not guard.has_topic(name)}


class ConfigsRule(Rule):
    """Settings of topics and groups belong to these, those of brokers to the cluster."""

    _KINDS: Final = {2: _R.TOPIC, 32: _R.GROUP}

    def __init__(self, operation: Operation) -> None:
        self._operation = operation

    @property
    def needs(self) -> Needs:
        return (
            Need(self._operation, _R.TOPIC, "for a topic"),
            Need(self._operation, _R.GROUP, "for a group"),
            Need(self._operation, _R.CLUSTER, "for a broker"),
        )

    def names(self, request: Any, /) -> tuple[str, Iterable[str]]:
        return "Config", tuple(each.resource_name for each in request.resources)

    def apply(self, guard: Guard, /) -> None:
        request = cast("Any", guard.call.request)
        refused = [each for each in request.resources if not self._allows(guard, each)]
        if not refused:
            return
        for each in refused:
            kind = self._KINDS.get(each.resource_type, _R.CLUSTER)
            guard.refused(self._operation, kind, (each.resource_name,))
            guard.deny(replace(request, resources=(each,)), ERRORS[kind])
        rest = tuple(each for each in request.resources if each not in refused)
        guard.call.request = replace(request, resources=rest)

    def _allows(self, guard: Guard, resource: Any) -> bool:
        kind = self._KINDS.get(resource.resource_type, _R.CLUSTER)
        name = CLUSTER_NAME if kind is _R.CLUSTER else resource.resource_name
        return guard.allows(self._operation, kind, name)


class DescribeTopicPartitionsRule(Each):
    """Describe on each topic; of all topics, those that may be seen."""

    def __init__(self) -> None:
        super().__init__(_O.DESCRIBE, _R.TOPIC, "topics", "name")

    def finish(self, guard: Guard, response: Response, /) -> Response:
        answer = cast("DescribeTopicPartitionsResponse", response)
        names = [each.name or "" for each in answer.topics]
        seen = guard.allowed(_O.DESCRIBE, _R.TOPIC, names)
        return replace(
            answer,
            topics=tuple(
                replace(
                    each,
                    topic_authorized_operations=guard.operations(
                        _R.TOPIC, each.name or "", all_of_them=_TOPIC_BITS
                    ),
                )
                for each in answer.topics
                if each.name in seen
            ),
        )


class DescribeTransactionsRule(Each):
    """Describe on the transactional id; of its topics, those that may be described."""

    def __init__(self) -> None:
        super().__init__(_O.DESCRIBE, _R.TRANSACTIONAL_ID, "transactional_ids")

    @property
    def needs(self) -> Needs:
        return (*super().needs, Need(_O.DESCRIBE, _R.TOPIC, "others are left out"))

    def finish(self, guard: Guard, response: Response, /) -> Response:
        answer = cast("DescribeTransactionsResponse", response)
        return replace(
            answer,
            transaction_states=tuple(
                replace(
                    state,
                    topics=tuple(
                        each
                        for each in state.topics
                        if guard.allows(_O.DESCRIBE, _R.TOPIC, each.topic)
                    ),
                )
                for state in answer.transaction_states
            ),
        )


class SubscriptionRule(Rule):
    """Describe on every topic that a member subscribes to by name, or the whole heartbeat is refused."""

    @property
    def needs(self) -> Needs:
        return (Need(_O.DESCRIBE, _R.TOPIC, "for topics that are subscribed to"),)

    def apply(self, guard: Guard, /) -> None:
        request = cast("ConsumerGroupHeartbeatRequest", guard.call.request)
        names = set(request.subscribed_topic_names or ())
        refused = names - guard.allowed(_O.DESCRIBE, _R.TOPIC, names)
        if refused:
            guard.refuse_all(_O.DESCRIBE, _R.TOPIC, sorted(refused))


class ConsumerGroupDescribeRule(Each):
    """Describe on the group, and on every topic that its members have or are to have."""

    def __init__(self) -> None:
        super().__init__(_O.DESCRIBE, _R.GROUP, "group_ids")

    @property
    def needs(self) -> Needs:
        return (*super().needs, Need(_O.DESCRIBE, _R.TOPIC, "for every topic assigned in it"))

    def finish(self, guard: Guard, response: Response, /) -> Response:
        answer = cast("ConsumerGroupDescribeResponse", response)
        return replace(answer, groups=tuple(self._seen(guard, each) for each in answer.groups))

    @staticmethod
    def _seen(guard: Guard, group: DescribedGroup) -> DescribedGroup:
        if group.error_code:
            return group
        topics = {
            topic.topic_name
            for member in group.members
            for assignment in (member.assignment, member.target_assignment)
            for topic in assignment.topic_partitions
        }
        if not topics <= guard.allowed(_O.DESCRIBE, _R.TOPIC, topics):
            return DescribedGroup(
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                error_message="The group has described topic(s) that the client is not "
                "authorized to describe.",
                group_id=group.group_id,
            )
        return group
