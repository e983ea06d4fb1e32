"""A simulated consumer: joins, leads, reads at its pace, commits, and leaves or dies.

It speaks the classic protocol through a Stage and believes only what the coordinator answers. Where it has
read to is kept per group, by coterie.simulation.reading.
"""

from __future__ import annotations

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from coterie.protocol.messages.membership import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from coterie.protocol.schema import Response
from coterie.protocol.versioned import (
    Undecoded,
    decode_assignment,
    decode_subscription,
    encode_versioned,
)
from coterie.simulation.assignors import Assignment, assign_range, assign_sticky
from coterie.simulation.chronicle import Cause
from coterie.simulation.reading import Reader, Reading
from coterie.simulation.stage import Stage

__all__ = ["SESSION_MS", "Consumer"]

SESSION_MS = 45_000  # the Java consumer's default since Kafka 3.0
_REBALANCE_MS = 300_000  # max.poll.interval.ms
_BLOB_VERSION = 3


class Consumer(Reader):
    """One process of a group."""

    def __init__(
        self,
        stage: Stage,
        reading: Reading,
        *,
        client_id: str,
        host: str,
        instance_id: str | None,
        topics: tuple[str, ...],
        assignor: str,
        assign_ms: tuple[int, int] = (1, 40),
    ) -> None:
        super().__init__(stage, reading, client_id=client_id, host=host, topics=topics)
        self.instance_id = instance_id
        self._assignor = assignor
        #: How long it thinks about an assignment when it leads: the least and the most.
        self._assign_ms = assign_ms
        self._joining = False
        self._leads = False

    @property
    def waits(self) -> bool:
        return self._joining

    @property
    def leads(self) -> bool:
        return self._leads

    # Joining

    def join(self) -> None:
        """Ask to be let in, or for a rebalance."""
        if not self.alive:
            return
        self._joining = True
        owned = _blob(self.assignment)
        subscription = ConsumerProtocolSubscription(
            topics=self.topics,
            owned_partitions=owned,
            generation_id=self.generation if owned else -1,
        )
        if self._assignor == "range":
            subscription = ConsumerProtocolSubscription(topics=self.topics)
        request = JoinGroupRequest(
            group_id=self.reading.group_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=_REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=(
                JoinGroupRequestProtocol(
                    self._assignor, encode_versioned(subscription, _BLOB_VERSION)
                ),
            ),
        )
        response = self._stage.send(self, request, 9)
        if response is not None:
            self.answered(response)
        self._stage.stir()

    def answered(self, response: Response) -> None:
        if not self.alive:
            return
        if isinstance(response, JoinGroupResponse):
            self._joined(response)
        elif isinstance(response, SyncGroupResponse):
            self._synced(response)

    def _joined(self, response: JoinGroupResponse) -> None:
        error = response.error_code
        if error == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif error == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if error:
            self._stage.soon(1, 200, self.join)
            return
        self.member_id = response.member_id
        self.generation = response.generation_id
        self._leads = response.leader == self.member_id
        shares: dict[str, Assignment] = {}
        thinking = (1, 40)
        if self._leads and not response.skip_assignment:
            shares = self._assign(response)
            thinking = self._assign_ms
        self._stage.soon(*thinking, self._sync, response, shares)

    def _assign(self, response: JoinGroupResponse) -> dict[str, Assignment]:
        """Decide for all, from what they said."""
        subscriptions: dict[str, tuple[str, ...]] = {}
        owned: dict[str, Assignment] = {}
        for each in response.members:
            said = decode_subscription(each.metadata)
            if isinstance(said, Undecoded):
                continue
            subscriptions[each.member_id] = said.topics
            owned[each.member_id] = {tp.topic: tp.partitions for tp in said.owned_partitions}
        topics = sorted({topic for said in subscriptions.values() for topic in said})
        counts = {topic: self._stage.topics[topic].count(self._stage.now_ms) for topic in topics}
        if self.reading.knows_other_counts(counts):
            self._stage.chronicle.because(Cause.PARTITIONS, "partitions added", self._stage.now_ms)
        if self._assignor == "range":
            return assign_range(subscriptions, counts)
        return assign_sticky(subscriptions, counts, owned)

    def _sync(self, joined: JoinGroupResponse, shares: dict[str, Assignment]) -> None:
        if not self.alive or joined.generation_id != self.generation:
            return
        request = SyncGroupRequest(
            group_id=self.reading.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=self._assignor,
            assignments=tuple(
                SyncGroupRequestAssignment(
                    member_id,
                    encode_versioned(
                        ConsumerProtocolAssignment(assigned_partitions=_blob(share)), _BLOB_VERSION
                    ),
                )
                for member_id, share in shares.items()
            ),
        )
        response = self._stage.send(self, request, 5)
        if response is not None:
            self.answered(response)

    def _synced(self, response: SyncGroupResponse) -> None:
        if response.error_code:
            if response.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self._stage.soon(1, 200, self.join)
            return
        self._joining = False
        given = decode_assignment(response.assignment)
        if isinstance(given, Undecoded):
            return
        self.assignment = {each.topic: each.partitions for each in given.assigned_partitions}
        self.reading.take_over(self)

    # In the group

    def heartbeat(self) -> None:
        if not self.alive or self._joining or not self.member_id:
            return
        request = HeartbeatRequest(
            self.reading.group_id, self.generation, self.member_id, self.instance_id
        )
        answer = self._stage.send(self, request, 4)
        error = answer.error_code if isinstance(answer, HeartbeatResponse) else ErrorCode.NONE
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if error:
            self.join()

    def rejoin(self, generation: int) -> None:
        """Join again, unless it has done so since that generation."""
        if not self._joining and self.generation == generation:
            self.join()

    def resubscribe(self, topics: tuple[str, ...]) -> None:
        """Read other topics from now on, which takes a rebalance."""
        self.topics = topics
        self.join()

    # Leaving

    def leave(self, reason: str) -> None:
        """Go properly: commit, and say goodbye."""
        if not self.alive:
            return
        self.reading.commit(self)
        self.alive = False
        request = LeaveGroupRequest(
            group_id=self.reading.group_id,
            members=(MemberIdentity(self.member_id, self.instance_id, reason),),
        )
        self._gone()
        self._stage.send(self, request, 5)
        self._stage.stir()

    def crash(self) -> None:
        """Go without a word; the last heartbeat was just now."""
        self.heartbeat()
        self.alive = False
        self._stage.watch(SESSION_MS + 5_000)
        self._gone()

    def _gone(self) -> None:
        self._joining = False
        self._stage.actors.remove(self)


def _blob(assignment: Assignment) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, indexes) for topic, indexes in assignment.items())
