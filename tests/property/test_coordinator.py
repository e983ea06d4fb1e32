"""The coordinator against a model of a few dictionaries, through any sequence of events.

Clients behave as clients do, and sometimes do not: they are late, ask twice, and claim generations that
are over. The promises are those of tests.kit.invariants, and hold after every step, restarts included.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from coterie.coordinator import GroupConfig, Outcome
from coterie.coordinator.group import ClassicGroup
from coterie.error_codes import ErrorCode
from coterie.protocol.codec import encode_element
from coterie.protocol.group_state import GroupState
from coterie.protocol.messages.groups import DescribeGroupsResponse
from coterie.protocol.messages.membership import (
    HeartbeatRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from coterie.protocol.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from coterie.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from coterie.protocol.schema import Response
from tests.kit.campaign import EXAMPLES
from tests.kit.invariants import (
    Assignments,
    CommitLedger,
    Fencing,
    Parking,
    check_lists_agree,
    check_live_equals_replay,
)
from tests.unit.coordinator.driver import Driver, protocols, subscription

GROUPS = ("a", "b")
CLIENTS = 5
CONFIG = GroupConfig(
    initial_rebalance_delay_ms=3_000,
    max_size=3,
    new_member_join_timeout_ms=60_000,
    offsets_retention_check_interval_ms=600_000,
)
SESSION_MS = 10_000
REBALANCE_MS = 20_000
#: A join waits for one join phase, or for several if only static members are late; never longer than
#: it takes for every session to end, and a new one never longer than its own timeout.
LONGEST_WAIT = 60.0 + REBALANCE_MS / 1000 + SESSION_MS / 1000

clients = st.integers(0, CLIENTS - 1)
groups = st.sampled_from(GROUPS)
partitions = st.integers(0, 1)
offsets = st.integers(0, 1_000)


class Client:
    """What a consumer remembers."""

    def __init__(self, number: int) -> None:
        self.group_id = GROUPS[number % 2]
        self.instance_id = f"i-{number}" if number >= 3 else None
        #: Not for its own use: under which member id it was last in the group.
        self.former_id = ""
        self.forget()

    def forget(self) -> None:
        self.member_id = ""
        self.generation = -1
        self.joined: JoinGroupResponse | None = None
        self.waits_for: Hashable = None


class CoordinatorMachine(RuleBasedStateMachine):
    """Rules are events; the invariants at the end are the promises."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = CommitLedger()
        self.fencing = Fencing()
        self.assignments = Assignments()
        self.parking = Parking()
        self.clients = [Client(number) for number in range(CLIENTS)]
        #: Offsets of open transactions, oldest first: place, offset.
        self.transactions: dict[int, list[tuple[tuple[str, str, int], int]]] = {}

    @initialize()
    def start(self) -> None:
        self.driver = Driver(CONFIG)

    # Answers

    def send(self, request: Any, version: int, client: Client | None = None) -> Response | None:
        """Send a request; if it is parked, the client waits."""
        token, outcome = self.driver.request(request, version)
        if outcome.response is None:
            assert client is not None, "only members wait"
            self.parking.parked(token, self.driver.monotonic + LONGEST_WAIT)
            client.waits_for = token
        self.deliver(outcome)
        return outcome.response

    def deliver(self, outcome: Outcome) -> None:
        for token, response in outcome.released:
            self.parking.answered(token)
            for client in self.clients:
                if client.waits_for == token:
                    client.waits_for = None
                    self.heard(client, response)

    def heard(self, client: Client, response: Response) -> None:
        if isinstance(response, JoinGroupResponse):
            self.heard_join(client, response)
        elif isinstance(response, SyncGroupResponse):
            if response.error_code == 0:
                self.assignments.received(
                    client.group_id, client.generation, client.member_id, response.assignment
                )
            self.heard_error(client, response.error_code)

    def heard_join(self, client: Client, response: JoinGroupResponse) -> None:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = response.member_id
        elif response.error_code == 0:
            client.member_id = response.member_id
            client.generation = response.generation_id
            client.joined = response
            self.fencing.seen(client.group_id, response.generation_id)
            self.assignments.renamed(
                client.group_id, client.generation, client.former_id, client.member_id
            )
            client.former_id = client.member_id
            assert (response.member_id == response.leader) == bool(response.members)
        else:
            self.heard_error(client, response.error_code)

    def heard_error(self, client: Client, error: int) -> None:
        if error in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.GROUP_MAX_SIZE_REACHED,
        ):
            client.forget()

    # Members

    @rule(number=clients, version=st.sampled_from([3, 4, 9]), variant=st.integers(0, 2))
    def join(self, number: int, version: int, variant: int) -> None:
        client = self.clients[number]
        if client.waits_for is not None:
            return
        if client.instance_id is not None:
            version = max(version, 5)
        metadata = subscription("orders" if variant else "payments")
        request = self.driver.join_request(
            member_id=client.member_id,
            group_id=client.group_id,
            group_instance_id=client.instance_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocols=protocols("range", *("sticky",) * (variant == 2), metadata=metadata),
        )
        response = self.send(request, version, client)
        if response is not None:
            self.heard(client, response)

    @rule(group_id=groups, variant=st.integers(0, 2))
    def rebalance(self, group_id: str, variant: int) -> None:
        """All clients of a group do what is asked of them, so that it gets somewhere."""
        ours = [number for number in range(CLIENTS) if self.clients[number].group_id == group_id]
        for _ in range(2):
            for number in ours:
                self.join(number, 9, variant)
        self.pass_time(6.5)  # the initial delay, extended once because more than one came
        for number in ours:
            self.sync(number)

    @rule(number=clients, version=st.sampled_from([3, 8, 9]), variant=st.integers(0, 2))
    def start_over(self, number: int, version: int, variant: int) -> None:
        """A process restarts; its former self may still be parked, or a member."""
        self.clients[number].forget()
        self.join(number, version, variant)

    @rule(number=clients)
    def sync(self, number: int) -> None:
        client = self.clients[number]
        joined = client.joined
        if client.waits_for is not None or joined is None:
            return
        decided = {
            each.member_id: f"{client.generation}:{each.member_id}".encode()
            for each in joined.members
        }
        if decided and not joined.skip_assignment:
            self.assignments.decided(client.group_id, client.generation, decided)
        else:
            decided = {}
        request = SyncGroupRequest(
            group_id=client.group_id,
            generation_id=client.generation,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in decided.items()
            ),
        )
        response = self.send(request, 3, client)
        if isinstance(response, SyncGroupResponse):
            if response.error_code == 0 and not client.member_id:
                raise AssertionError("an assignment for nobody")
            self.heard(client, response)

    @rule(number=clients)
    def heartbeat(self, number: int) -> None:
        client = self.clients[number]
        if client.joined is None:
            return
        response: Any = self.send(
            HeartbeatRequest(
                group_id=client.group_id,
                generation_id=client.generation,
                member_id=client.member_id,
                group_instance_id=client.instance_id,
            ),
            4,
        )
        self.heard_error(client, response.error_code)

    @rule(number=clients)
    def leave(self, number: int) -> None:
        client = self.clients[number]
        identity = MemberIdentity(member_id=client.member_id, group_instance_id=client.instance_id)
        response = self.send(LeaveGroupRequest(group_id=client.group_id, members=(identity,)), 5)
        assert isinstance(response, LeaveGroupResponse)
        if response.members[0].error_code == 0:
            client.forget()

    # Offsets

    @rule(number=clients, partition=partitions, offset=offsets, behind=st.integers(0, 2))
    def commit_as_member(self, number: int, partition: int, offset: int, behind: int) -> None:
        client = self.clients[number]
        if client.joined is None:
            return
        before = self.driver.shard.durable_state()
        # Below 0 it would be a commit from outside, which an empty group takes.
        generation = max(client.generation - behind, 0)
        error = self.driver.commit(
            offset,
            partition=partition,
            group_id=client.group_id,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            generation_id_or_member_epoch=generation,
        )
        if error:
            # I5: whoever is refused has changed nothing.
            assert self.driver.shard.durable_state() == before
        else:
            described = self.driver.described(client.group_id)
            assert described.generation_id == generation, "I5: a stale commit"
            self.committed((client.group_id, "orders", partition), offset)

    @rule(group_id=groups, partition=partitions, offset=offsets)
    def commit_from_outside(self, group_id: str, partition: int, offset: int) -> None:
        state = self.driver.state(group_id)
        error = self.driver.commit(offset, partition=partition, group_id=group_id)
        assert (error == 0) == (state in ("Empty", "Dead"))
        if not error:
            self.committed((group_id, "orders", partition), offset)

    def committed(self, place: tuple[str, str, int], offset: int) -> None:
        self.ledger.committed(place, offset)
        self.overtake(place)

    def overtake(self, place: tuple[str, str, int]) -> None:
        """What open transactions have for this place was written earlier, and will not show."""
        for pending in self.transactions.values():
            pending[:] = [each for each in pending if each[0] != place]

    @rule(
        producer=st.integers(0, 1),
        group_id=groups,
        partition=partitions,
        offset=offsets,
    )
    def commit_in_transaction(
        self, producer: int, group_id: str, partition: int, offset: int
    ) -> None:
        place = (group_id, "orders", partition)
        if any(
            each[0] == place
            for other, pending in self.transactions.items()
            if other != producer
            for each in pending
        ):
            return  # two transactions in one place are in the unit tests
        each = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id="t",
            group_id=group_id,
            producer_id=producer,
            topics=(TxnOffsetCommitRequestTopic(name="orders", partitions=(each,)),),
        )
        response: Any = self.send(request, 2)
        assert response.topics[0].partitions[0].error_code == 0
        self.transactions.setdefault(producer, []).append((place, offset))

    @rule(producer=st.integers(0, 1), commit=st.booleans())
    def end_transaction(self, *, producer: int, commit: bool) -> None:
        self.driver.end_transaction(producer, commit=commit)
        for place, offset in self.transactions.pop(producer, []):
            if commit:
                self.ledger.committed(place, offset)

    @rule(group_id=groups, partition=partitions)
    def delete_offset(self, group_id: str, partition: int) -> None:
        topic = OffsetDeleteRequestTopic(
            name="orders", partitions=(OffsetDeleteRequestPartition(partition_index=partition),)
        )
        response: Any = self.send(OffsetDeleteRequest(group_id=group_id, topics=(topic,)), 0)
        if response.error_code == 0 and response.topics[0].partitions[0].error_code == 0:
            self.deleted((group_id, "orders", partition))

    def deleted(self, place: tuple[str, str, int]) -> None:
        self.ledger.deleted(place)
        self.overtake(place)

    @rule(group_id=groups)
    def delete_group(self, group_id: str) -> None:
        state = self.driver.state(group_id)
        outcome = self.driver.shard.delete_groups([group_id])
        self.driver.apply(outcome)
        response: Any = outcome.response
        deleted = response.results[0].error_code == 0
        assert deleted == (state == "Empty")
        if deleted:
            self.forget_group(group_id)

    def forget_group(self, group_id: str) -> None:
        for partition in range(2):
            self.deleted((group_id, "orders", partition))
        self.fencing.forget(group_id)
        self.assignments.forget(group_id)
        for client in self.clients:
            if client.group_id == group_id and client.waits_for is None:
                client.forget()

    # Time

    @rule(seconds=st.sampled_from([0.5, 3.0, 9.0, 25.0, 70.0]))
    def advance(self, seconds: float) -> None:
        self.pass_time(seconds)

    @rule(steps=st.integers(1, 8))
    def advance_with_heartbeats(self, steps: int) -> None:
        for _ in range(steps):
            self.pass_time(3.0)
            for number in range(CLIENTS):
                self.heartbeat(number)

    def pass_time(self, seconds: float) -> None:
        before = {group_id: self.driver.state(group_id) for group_id in GROUPS}
        for outcome in self.driver.advance(seconds):
            self.deliver(outcome)
        for group_id, state in before.items():
            if state != "Dead" and self.driver.state(group_id) == "Dead":
                # Empty and without offsets, so it went with the retention check.
                self.forget_group(group_id)

    @rule()
    def restart(self) -> None:
        self.parking.closed()
        self.driver.restart()
        for client in self.clients:
            client.waits_for = None
        for group_id in GROUPS:
            # A generation that nobody was assigned in is forgotten, and its number used again.
            generation = self.driver.described(group_id).generation_id
            self.fencing.restarted(group_id, generation)
            self.assignments.forget_after(group_id, generation)
            for client in self.clients:
                if client.group_id == group_id and client.generation > generation:
                    client.forget()

    # Promises

    @precondition(lambda self: hasattr(self, "driver"))
    @invariant()
    def nothing_is_lost_or_made_up(self) -> None:
        self.ledger.check(
            {
                (group_id, *place): offset
                for group_id in GROUPS
                for place, offset in self.driver.fetched(group_id).items()
            }
        )

    @precondition(lambda self: hasattr(self, "driver"))
    @invariant()
    def live_is_what_the_log_says(self) -> None:
        check_live_equals_replay(self.driver.shard, self.driver.log, CONFIG)

    @precondition(lambda self: hasattr(self, "driver"))
    @invariant()
    def generations_only_grow(self) -> None:
        for group_id in GROUPS:
            described = self.driver.described(group_id)
            if described.error_code == 0:
                self.fencing.seen(group_id, described.generation_id)

    @precondition(lambda self: hasattr(self, "driver"))
    @invariant()
    def parked_requests_end_in_time(self) -> None:
        self.parking.check(self.driver.monotonic)

    @precondition(lambda self: hasattr(self, "driver"))
    @invariant()
    def lists_agree(self) -> None:
        check_lists_agree(self.driver.shard, GROUPS)

    @precondition(lambda self: hasattr(self, "driver"))
    @invariant()
    def kept_descriptions_are_fresh(self) -> None:
        """What is kept encoded must be what would be encoded now, after every step."""
        shard = self.driver.shard
        for group_id in GROUPS:
            now = encode_element(shard.describe_group(group_id, 6), DescribeGroupsResponse, 6)
            assert shard.describe_encoded(group_id, 6) == now

    @precondition(lambda self: hasattr(self, "driver"))
    @invariant()
    def the_volatile_part_is_in_order(self) -> None:
        for group in self.driver.shard._state.groups.values():
            assert isinstance(group, ClassicGroup)
            rebalance = group.rebalance
            if rebalance is None:
                continue
            members = rebalance.members
            assert not rebalance.is_idle()
            assert (rebalance.leader in members) == bool(members)
            assert rebalance.awaiting_joins == sum(
                each.awaiting_join is not None for each in members.values()
            )
            assert rebalance.pending_syncs <= members.keys()
            assert not members.keys() & rebalance.pending_joins.keys()
            assert rebalance.awaiting_joins <= CONFIG.max_size
            assert rebalance.static_members == {
                each.instance_id: each.member_id
                for each in members.values()
                if each.instance_id is not None
            }
            for each in members.values():
                waits = each.awaiting_join is not None or each.awaiting_sync is not None
                assert waits or (each.session is not None and each.session.at is not None)
            if rebalance.state is GroupState.STABLE:
                # What members are told is what the log has, but for the time of the last transition.
                assert group.value is not None
                durable = type(rebalance).restored(group.value).value()
                live = rebalance.value()
                assert durable.members == live.members
                assert (durable.generation, durable.leader, durable.protocol) == (
                    live.generation,
                    live.leader,
                    live.protocol,
                )


TestCoordinator = CoordinatorMachine.TestCase
TestCoordinator.settings = settings(
    max_examples=100 * EXAMPLES, stateful_step_count=40, deadline=None
)
