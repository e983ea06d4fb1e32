"""Transactions: what producers ask of them (InitProducerId to EndTxn), and what tools ask about them.

What they do is in coterie.server.transactions.coordinator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from coterie.coordinator.consumer.subscriptions import whole_match
from coterie.error_codes import ErrorCode
from coterie.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsTransactionState,
    PartitionResponse,
    ProducerState,
    TopicData,
    TopicResponse,
    TransactionState,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from coterie.protocol.schema import Response
from coterie.server.data.leading import led_partition
from coterie.server.handlers.groups import about_one_group
from coterie.server.metadata.topics import CONSUMER_OFFSETS
from coterie.server.partitions.committer import CommitRound, when_all_end
from coterie.server.partitions.state import state_of
from coterie.server.requests.calls import Call
from coterie.server.services import Services
from coterie.server.transactions.coordinator import Step
from coterie.server.transactions.states import EPOCH_BUMP_FROM, State, Transaction, by_topic

__all__ = [
    "add_offsets_to_txn",
    "add_partitions_to_txn",
    "describe_producers",
    "describe_transactions",
    "end_txn",
    "init_producer_id",
    "list_transactions",
    "txn_offset_commit",
]

#: The versions from which PRODUCER_FENCED is understood (KIP-588); before, it is INVALID_PRODUCER_EPOCH.
_FENCED_FROM: Final = 2
_FENCED_FROM_IN_INIT: Final = 4
_BATCHED_FROM: Final = 4  # AddPartitionsToTxn, KIP-890
_EPOCH_BUMPED_FROM: Final = 5  # EndTxn, KIP-890
_OFFSETS_ADDED_FROM: Final = 5  # TxnOffsetCommit, KIP-890
_ABORTABLE_FROM: Final = 4  # TxnOffsetCommit, TRANSACTION_ABORTABLE (KIP-890)
#: Answers of the coordinator that a group coordinator gives as something to retry (KIP-890).
_TRY_AGAIN: Final = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR})
_TITLES: Final = {state.title: state for state in State}


def init_producer_id(
    services: Services, call: Call, request: InitProducerIdRequest
) -> Response | None:
    """InitProducerId 0-5. Without a transactional id everybody gets a new producer id."""
    if request.transactional_id is None:
        producer_id = services.metadata.take_producer_id()
        return InitProducerIdResponse(producer_id=producer_id)
    if not request.transactional_id or (request.producer_id < 0) is not (
        request.producer_epoch < 0
    ):
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=-1)
    if not _coordinates(services, request.transactional_id):
        return InitProducerIdResponse(error_code=ErrorCode.NOT_COORDINATOR, producer_epoch=-1)
    expected = None
    if request.producer_id >= 0:
        expected = (request.producer_id, request.producer_epoch)
    step = services.transactions.init_producer_id(
        request.transactional_id, request.transaction_timeout_ms, expected
    )

    def response(error: ErrorCode) -> Response:
        if error:
            fenced = _old_name(error, call.version, _FENCED_FROM_IN_INIT)
            return InitProducerIdResponse(error_code=fenced, producer_epoch=-1)
        return InitProducerIdResponse(
            producer_id=step.producer_id, producer_epoch=step.producer_epoch
        )

    _answer(call, step, response)
    return None


def add_partitions_to_txn(
    services: Services, call: Call, request: AddPartitionsToTxnRequest
) -> Response | None:
    """AddPartitionsToTxn 0-5: one transaction, or from version 4 many, some only to be verified."""
    if call.version >= _BATCHED_FROM:
        asked = request.transactions
    else:
        asked = (
            AddPartitionsToTxnTransaction(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            ),
        )
    added = [_add(services, call, each) for each in asked]

    def done(failed: set[CommitRound]) -> None:
        results = tuple(
            _added_results(each, dict.fromkeys(codes, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            if round_ in failed
            else _added_results(each, codes)
            for each, (codes, round_) in zip(asked, added, strict=True)
        )
        if call.version >= _BATCHED_FROM:
            call.answer(AddPartitionsToTxnResponse(results_by_transaction=results))
        else:
            only = results[0].topic_results
            call.answer(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=only))

    when_all_end([round_ for _, round_ in added], done)
    return None


_Codes = dict[tuple[str, int], ErrorCode]


def _add(
    services: Services, call: Call, asked: AddPartitionsToTxnTransaction
) -> tuple[_Codes, CommitRound | None]:
    """An error code for every partition, and the round of the change."""
    partitions = [(topic.name, index) for topic in asked.topics for index in topic.partitions]
    if not _coordinates(services, asked.transactional_id):
        return dict.fromkeys(partitions, ErrorCode.NOT_COORDINATOR), None
    coordinator = services.transactions
    if asked.verify_only:
        codes = {}
        for each in partitions:
            error = coordinator.verify(
                asked.transactional_id, asked.producer_id, asked.producer_epoch, each
            )
            not_added = error is ErrorCode.INVALID_TXN_STATE
            codes[each] = ErrorCode.TRANSACTION_ABORTABLE if not_added else error
        return codes, None
    if any(services.partitions.get(*each) is None for each in partitions):
        return {
            each: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if services.partitions.get(*each) is None
            else ErrorCode.OPERATION_NOT_ATTEMPTED
            for each in partitions
        }, None
    step = coordinator.add_partitions(
        asked.transactional_id, asked.producer_id, asked.producer_epoch, partitions
    )
    error = _old_name(step.error, call.version, _FENCED_FROM)
    return dict.fromkeys(partitions, error), step.round


def _added_results(asked: AddPartitionsToTxnTransaction, codes: _Codes) -> AddPartitionsToTxnResult:
    return AddPartitionsToTxnResult(
        asked.transactional_id,
        tuple(
            AddPartitionsToTxnTopicResult(
                topic.name,
                tuple(
                    AddPartitionsToTxnPartitionResult(index, codes[topic.name, index])
                    for index in topic.partitions
                ),
            )
            for topic in asked.topics
        ),
    )


def add_offsets_to_txn(
    services: Services, call: Call, request: AddOffsetsToTxnRequest
) -> Response | None:
    """AddOffsetsToTxn 0-4: the offsets partition of a group takes part."""
    if not _coordinates(services, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.NOT_COORDINATOR)
    offsets = services.partitions.offsets_partition(request.group_id)
    step = services.transactions.add_partitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [(CONSUMER_OFFSETS, offsets.index)],
    )
    _answer(
        call,
        step,
        lambda error: AddOffsetsToTxnResponse(
            error_code=_old_name(error, call.version, _FENCED_FROM)
        ),
    )
    return None


def txn_offset_commit(
    services: Services, call: Call, request: TxnOffsetCommitRequest
) -> Response | None:
    """TxnOffsetCommit 0-5. Offsets in a transaction that does not have their partition would stay pending
    forever: up to version 4 it must have been added, from version 5 on it is added here (KIP-890)."""
    offsets = (CONSUMER_OFFSETS, services.partitions.offsets_partition(request.group_id).index)
    coordinator = services.transactions
    producer = (request.transactional_id, request.producer_id, request.producer_epoch)
    if call.version >= _OFFSETS_ADDED_FROM:
        step = coordinator.add_partitions(*producer, [offsets], client_version=EPOCH_BUMP_FROM)
    else:
        step = Step(coordinator.verify(*producer, offsets))

    def added(failed: set[CommitRound]) -> None:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE if failed else step.error
        response: Response | None
        if error is ErrorCode.NONE:
            response = about_one_group(services, call, request)
        else:
            response = _refused_offsets(services, request, _of_group_coordinator(error, call))
        if response is not None:
            call.answer(response)

    when_all_end([step.round], added)
    return None


def _refused_offsets(
    services: Services, request: TxnOffsetCommitRequest, error: ErrorCode
) -> TxnOffsetCommitResponse:
    """The error for every partition that exists; Kafka sorts out the others before."""

    def code(topic: str, index: int) -> ErrorCode:
        missing = services.partitions.get(topic, index) is None
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if missing else error

    return TxnOffsetCommitResponse(
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                topic.name,
                tuple(
                    TxnOffsetCommitResponsePartition(
                        each.partition_index, code(topic.name, each.partition_index)
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _of_group_coordinator(error: ErrorCode, call: Call) -> ErrorCode:
    """An error of the transaction coordinator as the group coordinator returns it."""
    if error in _TRY_AGAIN:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.INVALID_TXN_STATE and call.version >= _ABORTABLE_FROM:
        return ErrorCode.TRANSACTION_ABORTABLE
    return error


def end_txn(services: Services, call: Call, request: EndTxnRequest) -> Response | None:
    """EndTxn 0-5. Version 5 raises the epoch and returns it (KIP-890)."""
    if not _coordinates(services, request.transactional_id):
        return EndTxnResponse(error_code=ErrorCode.NOT_COORDINATOR)
    bumps = call.version >= _EPOCH_BUMPED_FROM

    def done(step: Step) -> None:
        if step.error:
            error = _old_name(step.error, call.version, _FENCED_FROM)
            call.answer(EndTxnResponse(error_code=error))
        elif bumps:
            ended = (step.producer_id, step.producer_epoch)
            call.answer(EndTxnResponse(producer_id=ended[0], producer_epoch=ended[1]))
        else:
            call.answer(EndTxnResponse())

    services.transactions.end(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        commit=request.committed,
        client_version=EPOCH_BUMP_FROM if bumps else 0,
        done=done,
    )
    return None


def describe_transactions(
    services: Services, call: Call, request: DescribeTransactionsRequest
) -> Response:
    """DescribeTransactions 0."""
    return DescribeTransactionsResponse(
        transaction_states=tuple(_describe(services, each) for each in request.transactional_ids)
    )


def _describe(services: Services, transactional_id: str) -> TransactionState:
    found = services.transactions.get(transactional_id)
    error = ErrorCode.NONE
    if not transactional_id:
        error = ErrorCode.INVALID_REQUEST
    elif not _coordinates(services, transactional_id):
        error = ErrorCode.NOT_COORDINATOR
    elif found is None:
        error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    if error or found is None:
        return TransactionState(error, transactional_id)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=found.state.title,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=tuple(
            TopicData(topic, indexes) for topic, indexes in by_topic(found.partitions).items()
        ),
    )


def list_transactions(services: Services, call: Call, request: ListTransactionsRequest) -> Response:
    """ListTransactions 0-2: those that this broker coordinates and the filters let through."""
    now = services.clock.now_ms()
    matches: Callable[[str], object] | None = bool
    if request.transactional_id_pattern:
        matches = whole_match(request.transactional_id_pattern)
    if matches is None:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    found = [
        each
        for each in services.transactions
        if _coordinates(services, each.transactional_id)
        and matches(each.transactional_id)
        and _passes(each, request, now)
    ]
    return ListTransactionsResponse(
        unknown_state_filters=tuple(each for each in request.state_filters if each not in _TITLES),
        transaction_states=tuple(
            ListTransactionsTransactionState(
                each.transactional_id, each.producer_id, each.state.title
            )
            for each in found
        ),
    )


def _passes(transaction: Transaction, request: ListTransactionsRequest, now: int) -> bool:
    if request.producer_id_filters and transaction.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and transaction.state.title not in request.state_filters:
        return False
    return request.duration_filter < 0 or now - transaction.started_ms > request.duration_filter


def describe_producers(
    services: Services, call: Call, request: DescribeProducersRequest
) -> Response:
    """DescribeProducers 0."""
    return DescribeProducersResponse(
        topics=tuple(
            TopicResponse(
                topic.name,
                tuple(_producers(services, topic.name, index) for index in topic.partition_indexes),
            )
            for topic in request.topics
        )
    )


def _producers(services: Services, topic: str, index: int) -> PartitionResponse:
    partition = led_partition(services, topic, index)
    if isinstance(partition, ErrorCode):
        return PartitionResponse(index, partition)
    return PartitionResponse(
        index,
        active_producers=tuple(
            ProducerState(
                producer_id,
                each.epoch,
                each.last_sequence,
                each.last_timestamp,
                each.coordinator_epoch,
                each.first_offset,
            )
            for producer_id, each in state_of(partition).producers
        ),
    )


def _coordinates(services: Services, transactional_id: str) -> bool:
    return services.partitions.transaction_partition(transactional_id).leader == services.node_id


def _old_name(error: ErrorCode, version: int, fenced_from: int) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED and version < fenced_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def _answer(call: Call, step: Step, response: Callable[[ErrorCode], Response]) -> None:
    """Answer when what the step wrote is durable."""

    def done(failed: set[CommitRound]) -> None:
        call.answer(response(ErrorCode.COORDINATOR_NOT_AVAILABLE if failed else step.error))

    when_all_end([step.round], done)
