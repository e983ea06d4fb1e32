"""A shard with all that a server puts around it, played by numbers and lists.

Time is a number that the test moves. The log is a list, but what goes into it is encoded and decoded, and
so are the answers: a value that does not survive the wire shows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import count
from typing import Any, TypeVar

from coterie.coordinator import (
    CoordinatorShard,
    GroupConfig,
    Outcome,
    Record,
    RequestContext,
    Topic,
)
from coterie.coordinator.group import ClassicGroup
from coterie.error_codes import ErrorCode
from coterie.protocol.codec import decode, encode
from coterie.protocol.group_records import decode_record, encode_key, encode_value
from coterie.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from coterie.protocol.messages.groups import (
    DeletableGroupResult,
    DeleteGroupsResponse,
    DescribedGroup,
)
from coterie.protocol.messages.membership import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from coterie.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequestGroup,
)
from coterie.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from coterie.protocol.schema import RecordKey, RecordValue, Request, Response
from coterie.protocol.types import Uuid
from coterie.protocol.versioned import Undecoded, encode_versioned
from tests.kit.invariants import Log, Marker, Written, check_live_equals_replay, load

__all__ = [
    "ORDERS",
    "PAYMENTS",
    "START_MS",
    "Driver",
    "Topics",
    "commit_in_transaction",
    "delete",
    "protocols",
    "subscription",
]

START_MS = 1_794_775_000_000
ORDERS = Topic("orders", Uuid(b"orders----------"), 4)
PAYMENTS = Topic("payments", Uuid(b"payments--------"), 2)

R = TypeVar("R", bound=Response)


class Topics:
    """A TopicView over a list, which a test may put another in the place of."""

    def __init__(self, *topics: Topic, version: int = 1) -> None:
        self._topics = topics
        self.version = version

    def names(self) -> list[str]:
        return [each.name for each in self._topics]

    def changed(self, *topics: Topic) -> Topics:
        """The topics after some change."""
        return Topics(*topics, version=self.version + 1)

    def by_name(self, name: str, /) -> Topic | None:
        return next((each for each in self._topics if each.name == name), None)

    def by_id(self, topic_id: Uuid, /) -> Topic | None:
        return next((each for each in self._topics if each.topic_id == topic_id), None)


def subscription(*topics: str) -> bytes:
    return encode_versioned(ConsumerProtocolSubscription(topics=topics), 1)


def protocols(*names: str, metadata: bytes | None = None) -> tuple[JoinGroupRequestProtocol, ...]:
    blob = subscription("orders") if metadata is None else metadata
    return tuple(JoinGroupRequestProtocol(name=name, metadata=blob) for name in names)


class Driver:
    """Sends requests to a shard, writes what it asks for, and collects what it answers."""

    def __init__(
        self, config: GroupConfig | None = None, topics: tuple[Topic, ...] = (ORDERS, PAYMENTS)
    ) -> None:
        self.config = config or GroupConfig()
        self.topics = Topics(*topics)
        self.monotonic = 100.0
        self.now_ms = START_MS
        self.log: Log = []
        self.answers: dict[Hashable, Response] = {}
        self.parked: dict[Hashable, tuple[Request, int]] = {}
        self._tokens = count(1)
        self._members = count(1)
        #: What callers may see of topics; None for all.
        self.visible: Callable[[Iterable[str]], set[str]] | None = None
        self.shard = self._load()

    def _load(self) -> CoordinatorShard:
        shard = load(self.log, self.config)
        shard.load_finished(self.monotonic, self.now_ms)
        return shard

    def restart(self, away_seconds: float = 0) -> None:
        """Lose everything but the log."""
        self.monotonic += away_seconds
        self.now_ms += int(away_seconds * 1000)
        self.parked.clear()
        self.shard = self._load()

    # Requests

    def request(
        self, request: Request, version: int, *, client_id: str = "client"
    ) -> tuple[Hashable, Outcome]:
        token = next(self._tokens)
        on_the_wire = decode(type(request), encode(request, version), version)
        context = RequestContext(
            now_ms=self.now_ms,
            monotonic=self.monotonic,
            api_version=version,
            client_id=client_id,
            client_host="/127.0.0.1",
            token=token,
            new_member_id=lambda prefix: f"{prefix}-{next(self._members)}",
            topics=self.topics,
            visible=self.visible,
        )
        outcome = self.shard.handle(on_the_wire, context)
        self.parked[token] = (request, version)
        self.apply(outcome)
        if outcome.response is not None:
            self._answer(token, outcome.response)
        return token, outcome

    def send(self, request: Request, version: int, *, client_id: str = "client") -> Any:
        """The answer, which must come at once."""
        token, outcome = self.request(request, version, client_id=client_id)
        assert outcome.response is not None, "parked"
        return self.answers[token]

    def park(self, request: Request, version: int, *, client_id: str = "client") -> Hashable:
        """The token of a request that must be parked."""
        token, outcome = self.request(request, version, client_id=client_id)
        assert outcome.response is None, outcome.response
        return token

    def take(self, token: Hashable, kind: type[R]) -> R:
        """The answer that a parked request has got meanwhile."""
        answer = self.answers[token]
        assert isinstance(answer, kind)
        return answer

    def delete_groups(self, *group_ids: str) -> tuple[DeletableGroupResult, ...]:
        outcome = self.shard.delete_groups(group_ids)
        self.apply(outcome)
        assert isinstance(outcome.response, DeleteGroupsResponse)
        return outcome.response.results

    def apply(self, outcome: Outcome) -> None:
        for record in outcome.records:
            self.write(record, outcome.producer_id)
        for token, response in outcome.released:
            self._answer(token, response)

    def _answer(self, token: Hashable, response: Response) -> None:
        assert token not in self.answers, "answered twice"
        _, version = self.parked.pop(token)
        # The same on the wire, for the version that it was asked in.
        encode(response, version)
        self.answers[token] = response

    # The log

    def write(self, record: Record, producer_id: int = -1) -> None:
        value = None if record.value is None else encode_value(record.value, record.version)
        stored = decode_record(encode_key(record.key), value)
        assert (stored.key, stored.value) == (record.key, record.value), "changed by being written"
        entry = Written(stored.key, stored.value, producer_id)
        self.log.append(entry)
        entry.apply(self.shard)

    def replay(
        self, key: RecordKey | Undecoded, value: RecordValue | Undecoded | None = None
    ) -> None:
        """A record that came from elsewhere."""
        entry = Written(key, value)
        self.log.append(entry)
        entry.apply(self.shard)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        entry = Marker(producer_id, commit)
        self.log.append(entry)
        entry.apply(self.shard)

    def written(self) -> list[tuple[RecordKey | Undecoded, RecordValue | Undecoded | None]]:
        return [(entry.key, entry.value) for entry in self.log if isinstance(entry, Written)]

    # Time

    def advance(self, seconds: float, *, wall_seconds: float | None = None) -> list[Outcome]:
        """Let time pass, deadline by deadline; the wall clock may do something else."""
        end = self.monotonic + seconds
        start_ms = self.now_ms
        wall = seconds if wall_seconds is None else wall_seconds
        outcomes: list[Outcome] = []
        while (at := self.shard.next_deadline()) is not None and at <= end:
            part = (max(at, self.monotonic) - (end - seconds)) / seconds if seconds else 1.0
            self.monotonic = max(at, self.monotonic)
            self.now_ms = start_ms + round(wall * 1000 * part)
            for outcome in self.shard.tick(self.monotonic, self.now_ms, self.topics):
                self.apply(outcome)
                outcomes.append(outcome)
        self.monotonic = end
        self.now_ms = start_ms + round(wall * 1000)
        return outcomes

    # Common requests

    def join_request(self, member_id: str = "", **fields: Any) -> JoinGroupRequest:
        fields.setdefault("protocols", protocols("range"))
        return JoinGroupRequest(
            **{
                "group_id": "group",
                "session_timeout_ms": 10_000,
                "rebalance_timeout_ms": 60_000,
                "member_id": member_id,
                "protocol_type": "consumer",
                **fields,
            }
        )

    def form(
        self,
        size: int = 1,
        *,
        sync: bool = True,
        assign: Callable[[str], bytes] = lambda member_id: f"for {member_id}".encode(),
        instance_ids: Iterable[str] = (),
        **fields: Any,
    ) -> list[JoinGroupResponse]:
        """A group of new members, dynamic ones or static ones; Stable, or only joined."""
        instances: list[str | None] = list(instance_ids) or [None] * size
        version = 5 if instances[0] is not None else 3
        tokens = [
            self.park(self.join_request(group_instance_id=each, **fields), version)
            for each in instances
        ]
        while tokens[-1] not in self.answers:
            self.advance(self.config.initial_rebalance_delay_ms / 1000)
        members = [self.take(token, JoinGroupResponse) for token in tokens]
        if sync:
            self.sync_all(members, assign, **fields)
        return members

    def sync_all(
        self, members: list[JoinGroupResponse], assign: Callable[[str], bytes], **fields: Any
    ) -> list[SyncGroupResponse]:
        """Every member syncs, the leader last."""
        group_id = fields.get("group_id", "group")
        ordered = sorted(members, key=lambda each: each.member_id == each.leader)
        tokens: list[Hashable] = []
        for member in ordered:
            leads = member.member_id == member.leader
            assignments = tuple(
                SyncGroupRequestAssignment(
                    member_id=each.member_id, assignment=assign(each.member_id)
                )
                for each in (member.members if leads else ())
            )
            request = SyncGroupRequest(
                group_id=group_id,
                generation_id=member.generation_id,
                member_id=member.member_id,
                assignments=assignments,
            )
            tokens.append(self.request(request, 3)[0])
        return [self.take(token, SyncGroupResponse) for token in tokens]

    def heartbeat(self, member: JoinGroupResponse, **fields: Any) -> ErrorCode:
        request = HeartbeatRequest(
            **{
                "group_id": "group",
                "generation_id": member.generation_id,
                "member_id": member.member_id,
                **fields,
            }
        )
        answer: HeartbeatResponse = self.send(request, 4)
        return ErrorCode.of(answer.error_code)

    def leave(self, *members: MemberIdentity, group_id: str = "group") -> list[ErrorCode]:
        answer: LeaveGroupResponse = self.send(
            LeaveGroupRequest(group_id=group_id, members=members), 5
        )
        assert answer.error_code == 0
        return [ErrorCode.of(each.error_code) for each in answer.members]

    def commit(
        self,
        offset: int = 1,
        *,
        topic: str = "orders",
        partition: int = 0,
        version: int = 9,
        metadata: str | None = "",
        **fields: Any,
    ) -> ErrorCode:
        """One partition; from outside of the group unless fields say otherwise."""
        each = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        request = OffsetCommitRequest(
            **{
                "group_id": "group",
                "topics": (OffsetCommitRequestTopic(name=topic, partitions=(each,)),),
                **fields,
            }
        )
        (answer,) = self.send(request, version).topics[0].partitions
        return ErrorCode.of(answer.error_code)

    def commit_as(self, member: JoinGroupResponse, offset: int = 1, **fields: Any) -> ErrorCode:
        fields.setdefault("generation_id_or_member_epoch", member.generation_id)
        return self.commit(offset, member_id=member.member_id, **fields)

    def fetched(self, group_id: str = "group") -> dict[tuple[str, int], int]:
        """All committed offsets of a group."""
        group = OffsetFetchRequestGroup(group_id=group_id, topics=None)
        answer = self.shard.fetch_offsets(group, 9, require_stable=False, topics=self.topics)
        assert answer.error_code == 0
        return {
            (topic.name, each.partition_index): each.committed_offset
            for topic in answer.topics
            for each in topic.partitions
        }

    def described(self, group_id: str = "group") -> DescribedGroup:
        return self.shard.describe_group(group_id, 6)

    def group(self, group_id: str = "group") -> ClassicGroup:
        """The object inside."""
        group = self.shard._state.groups[group_id]
        assert isinstance(group, ClassicGroup)
        return group

    def state(self, group_id: str = "group") -> str:
        return self.described(group_id).group_state


def commit_in_transaction(
    driver: Driver, offset: int = 1, *, producer: int = 7, version: int = 5, **fields: Any
) -> ErrorCode:
    each = TxnOffsetCommitRequestPartition(
        partition_index=fields.pop("partition", 0),
        committed_offset=offset,
        committed_metadata=fields.pop("metadata", None),
    )
    topic = TxnOffsetCommitRequestTopic(name=fields.pop("topic", "orders"), partitions=(each,))
    request = TxnOffsetCommitRequest(
        **{
            "transactional_id": "t",
            "group_id": "group",
            "producer_id": producer,
            "producer_epoch": 3,
            "topics": (topic,),
            **fields,
        }
    )
    _, outcome = driver.request(request, version)
    assert (outcome.producer_id, outcome.producer_epoch) == (producer, 3)
    check_live_equals_replay(driver.shard, driver.log, driver.config)
    (answer,) = outcome.response.topics[0].partitions  # type: ignore[union-attr]
    return ErrorCode.of(answer.error_code)


def delete(driver: Driver, *topics: tuple[str, tuple[int, ...]], group_id: str = "group") -> object:
    answer = driver.send(
        OffsetDeleteRequest(
            group_id=group_id,
            topics=tuple(
                OffsetDeleteRequestTopic(
                    name=name,
                    partitions=tuple(
                        OffsetDeleteRequestPartition(partition_index=i) for i in indexes
                    ),
                )
                for name, indexes in topics
            ),
        ),
        0,
    )
    if answer.error_code:
        return ErrorCode.of(answer.error_code)
    return [ErrorCode.of(each.error_code) for topic in answer.topics for each in topic.partitions]
