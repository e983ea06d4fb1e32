"""Histories of a consumer group: whatever happens, no partition has two owners, and all find their place.

Members join, heartbeat, lose answers, leave and die; topics are created, grow and go; the coordinator
restarts. After each step the live state is what the log replays to (I4), epochs have only grown (I5), no
partition has two owners (I6), and nobody reads what another one reads. In the end, when nothing happens any
more, everything is assigned and the group is Stable.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    precondition,
    rule,
)

from coterie.coordinator import GroupConfig, Topic
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.error_codes import ErrorCode
from coterie.protocol.messages.consumer_groups import ConsumerGroupHeartbeatResponse
from coterie.protocol.types import Uuid
from tests.kit.campaign import EXAMPLES
from tests.kit.invariants import Fencing, check_consumer_group, check_live_equals_replay
from tests.unit.coordinator.consumer.members import ConsumerDriver, owned

E = ErrorCode
FIRST = (Topic("a", Uuid(b"a" * 16), 3), Topic("b", Uuid(b"b" * 16), 2))
SUBSCRIPTIONS: list[dict[str, Any]] = [
    {"subscribed_topic_names": ("a",)},
    {"subscribed_topic_names": ("a", "b")},
    {"subscribed_topic_names": ("b", "c")},
    {"subscribed_topic_names": None, "subscribed_topic_regex": "[ab]"},
    {"subscribed_topic_names": ("c",), "subscribed_topic_regex": ".*"},
]
assignors = st.sampled_from((None, None, "uniform", "range"))


class Consumer:
    """A client that does what KIP-848 asks of it, and remembers what it reads."""

    def __init__(self, number: int, fields: dict[str, Any], instance: str | None) -> None:
        self.member_id = f"member-{number}"
        self.fields = fields | {"rebalance_timeout_ms": 30_000, "instance_id": instance}
        self.instance = instance
        self.epoch = 0
        self.reads: set[tuple[Uuid, int]] = set()
        self.told: set[tuple[Uuid, int]] = set()
        self.news = True

    def request(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"instance_id": self.instance} if self.instance else {}
        if self.epoch == 0:
            return fields | self.fields
        return fields | ({"topic_partitions": owned(self.reads)} if self.news else {})

    def gives_up(self) -> None:
        """Stop reading what is no longer its own; what is new it reads once it has stopped."""
        self.news = self.news or self.reads != self.told
        self.reads = set(self.told)

    def fenced(self) -> None:
        self.epoch, self.reads, self.told, self.news = 0, set(), set(), True


class ConsumerGroups(RuleBasedStateMachine):
    """One group, its members, its topics and its coordinator."""

    consumers = Bundle("consumers")

    def __init__(self) -> None:
        super().__init__()
        self.driver = ConsumerDriver(GroupConfig(consumer_assignment_interval_ms=1_000), FIRST)
        self.existing = {topic.name: topic for topic in FIRST}
        self.members: list[Consumer] = []
        self.fencing = Fencing()
        self.made = 0

    # What members do

    @rule(
        target=consumers,
        fields=st.sampled_from(SUBSCRIPTIONS),
        assignor=assignors,
        seat=st.sampled_from((None, None, None, "x", "y")),
    )
    def join(self, fields: dict[str, Any], assignor: str | None, seat: str | None) -> Any:
        self.made += 1
        consumer = Consumer(self.made, fields | {"server_assignor": assignor}, seat)
        answer = self._send(consumer)
        if answer.error_code:
            assert answer.error_code == E.UNRELEASED_INSTANCE_ID
            return multiple()
        self.members.append(consumer)
        return consumer

    @rule(consumer=consumers, lost=st.booleans())
    def heartbeat(self, consumer: Consumer, *, lost: bool) -> None:
        """A heartbeat whose answer may get lost."""
        if consumer in self.members:
            consumer.gives_up()
            self._send(consumer, lost=lost)

    @rule(consumer=consumers, fields=st.sampled_from(SUBSCRIPTIONS))
    def resubscribe(self, consumer: Consumer, fields: dict[str, Any]) -> None:
        if consumer in self.members and consumer.epoch > 0:
            news = {"subscribed_topic_names": (), "subscribed_topic_regex": ""} | {
                name: value for name, value in fields.items() if value is not None
            }
            consumer.fields |= news
            self._send(consumer, **news)

    @rule(consumer=consumes(consumers), for_now=st.booleans())
    def leave(self, consumer: Consumer, *, for_now: bool) -> None:
        if consumer not in self.members:
            return
        for_now = for_now and consumer.instance is not None
        fields: dict[str, Any] = {"instance_id": consumer.instance} if consumer.instance else {}
        answer = self.driver.beat(consumer.member_id, -2 if for_now else -1, **fields)
        gone = (E.NONE, E.UNKNOWN_MEMBER_ID, E.GROUP_ID_NOT_FOUND, E.FENCED_INSTANCE_ID)
        assert answer.error_code in gone
        self.members.remove(consumer)

    @rule(consumer=consumes(consumers))
    def die(self, consumer: Consumer) -> None:
        """It says nothing more, and reads nothing more."""
        if consumer in self.members:
            self.members.remove(consumer)

    @rule(consumer=consumers, epoch=st.integers(-1, 40))
    def lie(self, consumer: Consumer, epoch: int) -> None:
        """Another epoch than its own, from somebody else: nothing is written for it."""
        group = self._group()
        if epoch < 1 or group is None or consumer.instance is not None:
            return
        known = group.members.get(consumer.member_id)
        if known is not None and epoch not in (known.epoch, known.previous_epoch):
            before = len(self.driver.log)
            assert self.driver.refused(consumer.member_id, epoch) == E.FENCED_MEMBER_EPOCH
            assert len(self.driver.log) == before

    # What happens to them

    @rule(seconds=st.sampled_from((0.0, 0.4, 1.0, 5.0, 12.0)))
    def time_passes(self, seconds: float) -> None:
        self.driver.advance(seconds)

    @rule()
    def a_long_silence(self) -> None:
        """Everybody's session ends; clients know it, for they have not reached anyone."""
        self.driver.advance(46)
        for consumer in self.members:
            consumer.fenced()

    @rule(away=st.sampled_from((0.0, 3.0)))
    def restart(self, away: float) -> None:
        """The coordinator moves, or comes back after a kill -9."""
        self.driver.shard.unload()
        self.driver.restart(away)

    @rule(name=st.sampled_from("abc"))
    def topic_grows(self, name: str) -> None:
        topic = self.existing.get(name)
        if topic is None:
            topic = Topic(name, Uuid(name.encode() * 15 + bytes([self.made % 250 + 1])), 0)
        if topic.partitions < 5:
            self.existing[name] = Topic(name, topic.topic_id, topic.partitions + 1)
            self._topics_changed()

    @precondition(lambda self: "c" in self.existing)
    @rule()
    def topic_goes(self) -> None:
        topic = self.existing.pop("c")
        self._topics_changed()
        for consumer in self.members:
            for mine in (consumer.reads, consumer.told):
                mine -= {each for each in mine if each[0] == topic.topic_id}

    def _topics_changed(self) -> None:
        self.driver.topics = self.driver.topics.changed(*self.existing.values())

    # The wire

    def _send(
        self, consumer: Consumer, *, lost: bool = False, **fields: Any
    ) -> ConsumerGroupHeartbeatResponse:
        answer = self.driver.beat(
            consumer.member_id, consumer.epoch, **(consumer.request() | fields)
        )
        fenced = (
            E.FENCED_MEMBER_EPOCH,
            E.UNKNOWN_MEMBER_ID,
            E.GROUP_ID_NOT_FOUND,
            E.FENCED_INSTANCE_ID,
        )
        if answer.error_code in fenced:
            consumer.fenced()
        elif not answer.error_code and not lost:
            self._heard(consumer, answer)
        return answer

    def _heard(self, consumer: Consumer, answer: ConsumerGroupHeartbeatResponse) -> None:
        assert answer.member_epoch >= consumer.epoch, "I5: a member's epoch went back"
        consumer.epoch = answer.member_epoch
        consumer.news = False
        if answer.assignment is not None:
            consumer.told = {
                (each.topic_id, partition)
                for each in answer.assignment.topic_partitions
                for partition in each.partitions
            }
            # It reads what is new at once, and lets go of the rest before its next heartbeat.
            consumer.reads |= consumer.told
            consumer.news = consumer.reads != consumer.told

    def _group(self) -> ConsumerGroup | None:
        group = self.driver.shard._state.groups.get("group")
        assert group is None or isinstance(group, ConsumerGroup)
        return group

    # Promises

    @invariant()
    def live_is_what_the_log_says(self) -> None:
        check_live_equals_replay(self.driver.shard, self.driver.log, self.driver.config)

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        group = self._group()
        if group is not None:
            check_consumer_group(group)

    @invariant()
    def members_that_are_alive_do_not_read_the_same(self) -> None:
        """Clients, not books: what is read by those that the group still knows by their epoch."""
        group = self._group()
        if group is None:
            return
        reading = Counter(
            each
            for consumer in self.members
            if (known := group.members.get(consumer.member_id)) is not None
            and consumer.epoch in (known.epoch, known.previous_epoch)
            for each in consumer.reads
        )
        assert all(times == 1 for times in reading.values()), "two clients read a partition"

    @invariant()
    def epochs_only_grow(self) -> None:
        group = self._group()
        if group is None:
            self.fencing.forget("group")
            return
        self.fencing.seen("group", group.epoch)

    def teardown(self) -> None:
        """Nothing happens any more but heartbeats: everything that someone wants finds an owner."""
        for _ in range(16):
            for consumer in self.members:
                consumer.gives_up()
                self._send(consumer)
            self.driver.advance(5)
        group = self._group()
        if group is None or not self.members:
            return
        present = {each.member_id for each in self.members}
        assert group.members.keys() <= present, "the dead are still there"
        wanted = {
            (topic.topic_id, partition)
            for topic in self.existing.values()
            if group.is_subscribed_to(topic.name)
            for partition in range(topic.partitions)
        }
        assert group.state == "Stable", group.state
        assert set().union(*(each.reads for each in self.members)) == wanted


TestConsumerGroups = ConsumerGroups.TestCase
TestConsumerGroups.settings = settings(
    max_examples=60 * EXAMPLES, stateful_step_count=40, deadline=None
)
