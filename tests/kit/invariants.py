"""The promises of the coordinator and its client, as code that any history can be held against.

    I1 no acknowledged commit is lost     I2 what was deleted stays deleted
    I3 no offset is made up               I4 the live state is what the log replays to
    I5 stale members change nothing, generations only grow
    I6 in a generation everybody sees the leader's assignment; in a consumer group no partition has two
       owners, and no member is ahead of its group
    I7 a parked request ends, exactly once and in time
    I8 answers come in the order of the requests, with their correlation ids
    I9 only expected errors: nothing fails that nobody has thought of
    I10 bounded: memory, buffers and turns of the loop, and nothing is left after the end
    I11 no secret in any output           I12 a partial answer is never presented as complete

tests.kit.invariant_watch holds all twelve after every test. Where each is found broken:

    I1-I7, I9 tests.kit.shard_history, for every CoordinatorShard (tests.kit.coordinator_watch)
    I1-I4, I7, I8, I10 tests.kit.server_watch, for every server in the process, with the bytes of its logs;
        tests.kit.reloaded, for the directory of one that was killed
    I9 also tests.kit.expected_errors and tests.kit.log_watch; decoders: tests/property/test_hostile_bytes.py
    I10 also tests.kit.invariant_watch (memory) and bench/scale.py (time)
    I11 tests.kit.secret_watch            I12 tests.kit.client_watch

tests/integration/kit/test_invariant_watch.py breaks each of them. A test may check more histories with
what is here: it feeds what it sent and what it was answered. A broken promise is an AssertionError that
names it. Time is a number that the test passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

from coterie.coordinator import CoordinatorShard, GroupConfig
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.protocol.messages.groups import ListGroupsRequest
from coterie.protocol.schema import RecordKey, RecordValue
from coterie.protocol.versioned import Undecoded

__all__ = [
    "Assignments",
    "CommitLedger",
    "Fencing",
    "Log",
    "Marker",
    "Parking",
    "Written",
    "check_consumer_group",
    "check_lists_agree",
    "check_live_equals_replay",
    "load",
]


class Written(NamedTuple):
    """A record of a log; with a producer id it is part of a transaction."""

    key: RecordKey | Undecoded
    value: RecordValue | Undecoded | None
    producer_id: int = -1

    def apply(self, shard: CoordinatorShard) -> None:
        if self.producer_id < 0:
            shard.replay(self.key, self.value)
        else:
            shard.replay_transactional(self.producer_id, self.key, self.value)


class Marker(NamedTuple):
    """The end of a transaction, in a log."""

    producer_id: int
    commit: bool

    def apply(self, shard: CoordinatorShard) -> None:
        shard.end_transaction(self.producer_id, commit=self.commit)


Log = list[Written | Marker]


def load(log: Iterable[Written | Marker], config: GroupConfig) -> CoordinatorShard:
    """What a restart makes of a log, before its timers are started."""
    shard = CoordinatorShard(0, config)
    for entry in log:
        entry.apply(shard)
    return shard


def check_live_equals_replay(
    shard: CoordinatorShard, log: Iterable[Written | Marker], config: GroupConfig
) -> None:
    """I4."""
    replayed = load(log, config).durable_state()
    assert shard.durable_state() == replayed, "I4: the live state is not what the log replays to"


def check_lists_agree(shard: CoordinatorShard, group_ids: Iterable[str]) -> None:
    """The index agrees with the groups: each is listed once, in the state that it is described in."""
    listed = shard.list_groups(ListGroupsRequest())
    by_id = {each.group_id: each for each in listed}
    assert len(by_id) == len(listed), "a group is listed twice"
    for group_id in group_ids:
        state = shard.describe_group(group_id, 5).group_state
        assert (group_id in by_id) == (state != "Dead"), f"{group_id} is {state}"
        if group_id in by_id:
            assert by_id[group_id].group_state == state
    for each in listed:
        filtered = shard.list_groups(
            ListGroupsRequest(states_filter=(each.group_state,), types_filter=(each.group_type,))
        )
        assert each in filtered


def check_consumer_group(group: ConsumerGroup) -> None:
    """I6 by epochs, and that what the group counts of its members is what they are."""
    members = group.members.values()
    owners = Counter(each for member in members for each in member.owns())
    assert all(times == 1 for times in owners.values()), "I6: two members own a partition"
    counted = {(topic, each) for topic, partitions in group.owners.items() for each in partitions}
    assert counted == set(owners)
    targets = Counter(
        (topic_id, partition)
        for target in group.target.values()
        for topic_id, partitions in target.items()
        for partition in partitions
    )
    assert all(times == 1 for times in targets.values()), "I6: a target has a partition twice"
    assert group.epoch >= group.target_epoch, "I6: a target is ahead of its group"
    assert all(member.epoch <= group.target_epoch for member in members), "I6: a member is ahead"
    assert group.topic_counts == Counter(name for each in members for name in each.topic_names)
    assert group.regex_counts == Counter(each.regex for each in members if each.regex)
    assert group.regexes.keys() <= group.regex_counts.keys()
    assert group.static_members == {
        each.instance_id: each.member_id for each in members if each.instance_id is not None
    }


class CommitLedger:
    """I1, I2 and I3: what was acknowledged is there, and nothing else.

    A commit or deletion whose answer got lost is `unsure`: it may be there or not, until a later
    acknowledged one settles it. One in a transaction is `pending` until the transaction has `ended`; of
    several for a place the one written last shows, whenever its transaction ends.
    """

    def __init__(self) -> None:
        self._sure: dict[Hashable, int | None] = {}
        self._unsure: dict[Hashable, set[int | None]] = {}
        self._count = 0
        #: When that which shows was written, and what waits for its transaction: producer, place, when.
        self._written: dict[Hashable, int] = {}
        self._pending: dict[int, dict[Hashable, tuple[int, int]]] = {}

    def committed(self, place: Hashable, offset: int) -> None:
        self._settle(place, offset, self._now())

    def deleted(self, place: Hashable) -> None:
        self._settle(place, None, self._now())
        for places in self._pending.values():
            places.pop(place, None)

    def unsure(self, place: Hashable, offset: int | None) -> None:
        self._unsure.setdefault(place, set()).add(offset)

    def pending(self, producer_id: int, place: Hashable, offset: int) -> None:
        self._pending.setdefault(producer_id, {})[place] = (self._now(), offset)

    def ended(self, producer_id: int, *, commit: bool) -> None:
        for place, (written, offset) in self._pending.pop(producer_id, {}).items():
            if commit and written > self._written.get(place, 0):
                self._settle(place, offset, written)

    def places(self) -> set[Hashable]:
        """Where an offset is for sure."""
        return {place for place, offset in self._sure.items() if offset is not None}

    def all_places(self) -> set[Hashable]:
        """Wherever something was committed, in a transaction or not."""
        return set(self._sure).union(*self._pending.values())

    def check(self, fetched: Mapping[Any, int]) -> None:
        """Compare with all offsets that there are."""
        for place in self._sure.keys() | self._unsure.keys() | fetched.keys():
            found = fetched.get(place)
            expected = self._sure.get(place)
            if found == expected or found in self._unsure.get(place, ()):
                continue
            if found is None:
                raise AssertionError(f"I1: {place} was committed as {expected} and is gone")
            if expected is None:
                raise AssertionError(f"I2, I3: {place} has {found}, deleted or never committed")
            raise AssertionError(f"I1, I3: {place} was committed as {expected} and has {found}")

    def _now(self) -> int:
        self._count += 1
        return self._count

    def _settle(self, place: Hashable, offset: int | None, written: int) -> None:
        self._sure[place] = offset
        self._written[place] = written
        self._unsure.pop(place, None)


class Fencing:
    """I5: generations only grow, across restarts too, for as long as the group is not deleted."""

    def __init__(self) -> None:
        self._highest: dict[str, int] = {}

    def seen(self, group_id: str, generation: int) -> None:
        highest = self._highest.get(group_id, -1)
        assert generation >= highest, f"I5: {group_id} went from {highest} back to {generation}"
        self._highest[group_id] = generation

    def acted(self, group_id: str, generation: int) -> None:
        """Somebody's request in this generation was granted."""
        highest = self._highest.get(group_id, -1)
        assert generation >= highest, f"I5: {group_id} is in {highest} and let {generation} act"

    def forget(self, group_id: str) -> None:
        """The group was deleted: one of the same name begins anew."""
        self._highest.pop(group_id, None)

    def restarted(self, group_id: str, durable: int) -> None:
        """A generation without an assignment is forgotten in a restart; nobody may act in it."""
        self._highest[group_id] = durable


class Assignments:
    """I6: each member gets what the leader of its generation decided for it."""

    def __init__(self) -> None:
        self._decided: dict[tuple[str, int], Mapping[str, bytes]] = {}

    def decided(self, group_id: str, generation: int, assignments: Mapping[str, bytes]) -> None:
        """The leader's SyncGroup. A second one for the same generation must not change anything."""
        self._decided.setdefault((group_id, generation), assignments)

    def received(self, group_id: str, generation: int, member_id: str, assignment: bytes) -> None:
        decided = self._decided.get((group_id, generation))
        assert decided is not None, f"I6: {group_id} has an assignment that nobody made"
        expected = decided.get(member_id, b"")
        assert assignment == expected, f"I6: {member_id} got {assignment!r}, not {expected!r}"

    def renamed(self, group_id: str, generation: int, old_id: str, new_id: str) -> None:
        """A static member came back under a new member id, and keeps what it had."""
        decided = self._decided.get((group_id, generation))
        if decided is not None and old_id in decided:
            self._decided[group_id, generation] = {**decided, new_id: decided[old_id]}

    def forget(self, group_id: str) -> None:
        """The group was deleted: its generations begin anew."""
        self.forget_after(group_id, -1)

    def forget_after(self, group_id: str, generation: int) -> None:
        """A restart forgot all later generations, which were never completed."""
        for key in [key for key in self._decided if key[0] == group_id and key[1] > generation]:
            del self._decided[key]


class Parking:
    """I7: a parked request is answered once, within its time."""

    def __init__(self) -> None:
        self._until: dict[Hashable, float] = {}

    def __len__(self) -> int:
        return len(self._until)

    def parked(self, token: Hashable, until: float) -> None:
        """Also for one that is parked already, and may wait longer now."""
        self._until[token] = until

    def answered(self, token: Hashable) -> None:
        assert token in self._until, f"I7: {token} was answered twice, or never parked"
        del self._until[token]

    def closed(self) -> None:
        """All connections are gone, and with them what they waited for."""
        self._until.clear()

    def check(self, now: float) -> None:
        late = [token for token, until in self._until.items() if now > until]
        assert not late, f"I7: {late} wait for an answer that is overdue"
