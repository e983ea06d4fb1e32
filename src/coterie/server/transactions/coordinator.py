"""The transaction coordinator: who produces under a transactional id, in which partitions, to what end.

What this is: Kafka's TransactionCoordinator. Clients of transaction.version 0 and 1 add partitions to a
transaction before they write to them. For clients of version 2 (KIP-890) Produce and TxnOffsetCommit add
them, and every EndTxn raises the producer's epoch; the version of the request decides. One object serves all
brokers of a cluster; the leader of the id's partition of `__transaction_state` answers for it.
What this is not: the markers in the partitions; coterie.server.transactions.markers writes them.

The end of a transaction: PREPARE_COMMIT or PREPARE_ABORT is durable, then markers go to every partition, then
COMPLETE_*. From the first on the outcome is decided: a crash in between is made up for at the next start.
The answer to EndTxn leaves when the markers are durable, so that a producer whose commit has returned finds
its records readable, and its next transaction is not refused with CONCURRENT_TRANSACTIONS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from coterie.error_codes import ErrorCode
from coterie.server.clock import Clock
from coterie.server.metadata.features import ClusterFeatures
from coterie.server.metadata.topics import TRANSACTION_STATE, ClusterMetadata
from coterie.server.partitions.committer import CommitRound, when_all_end
from coterie.server.partitions.table import PartitionTable
from coterie.server.settings.config import ServerConfig
from coterie.server.transactions.markers import TransactionMarker, TransactionMarkers
from coterie.server.transactions.states import (
    EPOCH_BUMP_FROM,
    State,
    Transaction,
    encode_transaction,
    replay_batch,
    why_not_ended,
)
from coterie.storage.errors import StorageError

__all__ = ["Step", "TransactionCoordinator"]

#: Between two tries to write markers on a disk that is full.
_RETRY_SECONDS: Final = 1.0


class Step(NamedTuple):
    """The result of a request, and the round after which it may be returned."""

    error: ErrorCode
    round: CommitRound | None = None
    producer_id: int = -1
    producer_epoch: int = -1


class TransactionCoordinator:
    """All transactional ids of a cluster."""

    def __init__(
        self,
        *,
        config: ServerConfig,
        metadata: ClusterMetadata,
        features: ClusterFeatures,
        partitions: PartitionTable,
        markers: TransactionMarkers,
        clock: Clock,
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._features = features
        self._partitions = partitions
        self._markers = markers
        self._clock = clock
        self._transactions: dict[str, Transaction] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._endings: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()

    # -- life -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Read the log, end what was decided before a crash, and watch what is open."""
        self._transactions.clear()
        topic = self._metadata.topic(TRANSACTION_STATE)
        for index in range(len(topic.partitions) if topic else 0):
            partition = self._partitions.get(TRANSACTION_STATE, index)
            for batch in partition.log.batches() if partition else ():
                replay_batch(batch, self._transactions)
        for transaction in self._transactions.values():
            if transaction.state.is_ending:
                self._complete(transaction)
            elif transaction.state is State.ONGOING:
                self._watch(transaction)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for ending in self._endings:
            ending.cancel()
        self._endings.clear()

    def _restart(self) -> None:
        """An append failed: the state here differs from the log. Read the log again."""
        self.stop()
        self.start()

    # -- finding --------------------------------------------------------------------------------------

    def get(self, transactional_id: str) -> Transaction | None:
        return self._transactions.get(transactional_id)

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._transactions.values())

    def _find(self, transactional_id: str, producer_id: int, epoch: int) -> Transaction | ErrorCode:
        """The transactional id of a producer that still holds it."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        transaction = self._transactions.get(transactional_id)
        if transaction is None or transaction.producer_id != producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if transaction.producer_epoch != epoch:
            return ErrorCode.PRODUCER_FENCED
        return transaction

    # -- requests -------------------------------------------------------------------------------------

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: tuple[int, int] | None
    ) -> Step:
        """Give a producer its id and epoch, and fence those before it. `expected` is what a producer
        believes to have, which it tells to get a new epoch after an error (KIP-360)."""
        if not 0 < timeout_ms <= self._config.transaction_max_timeout_ms:
            return Step(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            transaction = Transaction(transactional_id, self._metadata.take_producer_id())
            self._transactions[transactional_id] = transaction
        elif transaction.state.is_ending:
            return Step(ErrorCode.CONCURRENT_TRANSACTIONS)
        elif not _holds(transaction, expected):
            return Step(ErrorCode.PRODUCER_FENCED)
        if transaction.state is State.ONGOING:
            return self._fence(transaction, holder=expected is not None)
        if expected is None or expected[1] != transaction.last_producer_epoch:
            self._take_epoch(transaction, keep_last=expected is not None)
        transaction.timeout_ms = timeout_ms
        transaction.previous_producer_id = transaction.producer_id
        transaction.state = State.EMPTY
        transaction.started_ms = -1
        return self._save(transaction)

    def _take_epoch(self, transaction: Transaction, *, keep_last: bool) -> None:
        if transaction.is_epoch_exhausted:
            transaction.producer_id = self._metadata.take_producer_id()
            transaction.producer_epoch = -1
        transaction.last_producer_epoch = transaction.producer_epoch if keep_last else -1
        transaction.producer_epoch += 1

    def _fence(self, transaction: Transaction, *, holder: bool = False) -> Step:
        """Abort an open transaction under a new epoch; the producer that asked has to ask again.

        If that is the present producer, which gave its epoch, the new epoch is the one it will get.
        """
        keeps = holder and transaction.client_version >= EPOCH_BUMP_FROM
        transaction.last_producer_epoch = transaction.producer_epoch if keeps else -1
        transaction.producer_epoch += 1
        step = self._prepare(transaction, commit=False)
        if step.error is ErrorCode.NONE:
            self._complete_after(step.round, transaction)
            return step._replace(error=ErrorCode.CONCURRENT_TRANSACTIONS)
        return step

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Iterable[tuple[str, int]],
        *,
        client_version: int = 0,
    ) -> Step:
        """Let partitions take part in the transaction, which thereby begins."""
        transaction = self._find(transactional_id, producer_id, epoch)
        if isinstance(transaction, ErrorCode):
            return Step(transaction)
        if transaction.state.is_ending:
            return Step(ErrorCode.CONCURRENT_TRANSACTIONS)
        ongoing = transaction.state is State.ONGOING
        new = set(partitions) - (transaction.partitions if ongoing else set())
        if ongoing and not new:
            return Step(ErrorCode.NONE, transaction.round)
        if not ongoing:
            transaction.state = State.ONGOING
            transaction.started_ms = self._clock.now_ms()
            transaction.partitions = set()
            self._watch(transaction)
        transaction.partitions |= new
        transaction.client_version = client_version
        return self._save(transaction)

    def verify(
        self, transactional_id: str, producer_id: int, epoch: int, partition: tuple[str, int]
    ) -> ErrorCode:
        """Whether a producer may write to a partition in its transaction (KIP-890)."""
        transaction = self._find(transactional_id, producer_id, epoch)
        if isinstance(transaction, ErrorCode):
            return transaction
        if transaction.state.is_ending:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if transaction.state is not State.ONGOING or partition not in transaction.partitions:
            return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.NONE

    def end(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        *,
        commit: bool,
        client_version: int,
        done: Callable[[Step], None],
    ) -> None:
        """Commit or abort; `done` is called when that is complete, or with the reason why not."""
        bumps = client_version >= EPOCH_BUMP_FROM
        known = self._transactions.get(transactional_id)
        repeated = bumps and known is not None and known.is_repeated_end(producer_id, epoch)
        found = known if repeated else self._find(transactional_id, producer_id, epoch)
        if not isinstance(found, Transaction):
            done(Step(found or ErrorCode.INVALID_PRODUCER_ID_MAPPING))
            return
        error = why_not_ended(found.state, commit=commit, bumps=bumps, repeated=repeated)
        if error is not None:
            answer = Step(error, None, found.producer_id, found.producer_epoch)
            when_all_end([found.round], lambda _failed: done(answer))
            return
        if found.state is not State.ONGOING:
            found.started_ms = self._clock.now_ms()
        found.client_version = client_version
        if bumps:
            found.raise_epoch(self._metadata.take_producer_id)
        step = self._prepare(found, commit=commit)
        if step.error is not ErrorCode.NONE:
            done(step)
            return
        self._complete_after(step.round, found, done)

    # -- the end of a transaction ---------------------------------------------------------------------

    def _prepare(self, transaction: Transaction, *, commit: bool) -> Step:
        self._unwatch(transaction)
        transaction.state = State.PREPARE_COMMIT if commit else State.PREPARE_ABORT
        return self._save(transaction)

    def _complete_after(
        self,
        round_: CommitRound | None,
        transaction: Transaction,
        done: Callable[[Step], None] = lambda _step: None,
    ) -> None:
        def decided(failed: set[CommitRound]) -> None:
            if failed:
                done(Step(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            else:
                self._complete(transaction, done)

        when_all_end([round_], decided)

    def _complete(
        self,
        transaction: Transaction,
        done: Callable[[Step], None] = lambda _step: None,
    ) -> None:
        """Write the markers of a transaction that is decided, in a task of its own."""
        ending = self._loop.create_task(self._finish(transaction))
        self._endings.add(ending)

        def ended(task: asyncio.Task[None]) -> None:
            self._endings.discard(task)
            if task.cancelled():
                done(Step(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            else:
                task.result()
                ended_as = (transaction.producer_id, transaction.producer_epoch)
                done(Step(ErrorCode.NONE, None, *ended_as))

        ending.add_done_callback(ended)

    async def _finish(self, transaction: Transaction) -> None:
        marker = TransactionMarker(
            transaction.producer_id,
            transaction.producer_epoch,
            commit=transaction.state is State.PREPARE_COMMIT,
            coordinator_epoch=self._partitions.transaction_partition(
                transaction.transactional_id
            ).leader_epoch,
        )
        while True:
            if await self._markers.write_all(marker, transaction.partitions):
                break
            await asyncio.sleep(_RETRY_SECONDS)
        transaction.complete()
        self._save(transaction)

    # -- time -----------------------------------------------------------------------------------------

    def _watch(self, transaction: Transaction) -> None:
        left = transaction.started_ms + transaction.timeout_ms - self._clock.now_ms()
        self._timers[transaction.transactional_id] = self._loop.call_later(
            max(0, left) / 1000, self._time_out, transaction
        )

    def _unwatch(self, transaction: Transaction) -> None:
        timer = self._timers.pop(transaction.transactional_id, None)
        if timer is not None:
            timer.cancel()

    def _time_out(self, transaction: Transaction) -> None:
        """Abort what was open for too long, under a new epoch: its producer must start again."""
        self._fence(transaction)

    # -- the log --------------------------------------------------------------------------------------

    @property
    def _record_version(self) -> int:
        """Flexible records from transaction.version 1 on, as in Kafka."""
        return min(1, self._features.level("transaction.version"))

    def _save(self, transaction: Transaction) -> Step:
        """Stage the record of a transactional id."""
        transaction.updated_ms = self._clock.now_ms()
        partition = self._partitions.transaction_partition(transaction.transactional_id)
        try:
            _, round_ = partition.append(encode_transaction(transaction, self._record_version))
        except StorageError:
            self._restart()
            return Step(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if round_ is not transaction.round:
            transaction.round = round_
            round_.when_durable(lambda error: self._restart() if error else None)
        return Step(ErrorCode.NONE, round_, transaction.producer_id, transaction.producer_epoch)


def _holds(transaction: Transaction, expected: tuple[int, int] | None) -> bool:
    """Whether a producer that asks for a new epoch has the present one, or asks for the second time."""
    if expected is None or transaction.producer_epoch < 0:
        return True
    producer_id, epoch = expected
    known = (transaction.producer_epoch, transaction.last_producer_epoch)
    return producer_id == transaction.producer_id and epoch in known and epoch >= 0
