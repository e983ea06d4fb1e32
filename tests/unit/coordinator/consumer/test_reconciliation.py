"""Reconciliation: give up first, take what is free, wait for the rest."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from coterie.coordinator.consumer.assignment import MemberState, Owned, Partitions
from coterie.coordinator.consumer.member import Member
from coterie.coordinator.consumer.reconciliation import Course, reconcile
from coterie.coordinator.outcome import Refused
from coterie.error_codes import ErrorCode
from coterie.protocol.messages.consumer_groups import TopicPartitions
from coterie.protocol.types import Uuid

A, B = Uuid(b"a" * 16), Uuid(b"b" * 16)
S = MemberState


def member(
    epoch: int = 1,
    state: int = S.STABLE,
    assigned: Owned | None = None,
    pending: Owned | None = None,
) -> Member:
    return Member(
        "m",
        epoch=epoch,
        previous_epoch=epoch - 1,
        state=state,
        assigned=assigned or {},
        pending_revocation=pending or {},
    )


def course(
    target: Partitions,
    epoch: int = 2,
    *,
    others: dict[Uuid, dict[int, str]] | None = None,
    reported: tuple[TopicPartitions, ...] | None = None,
    subscribed: tuple[Uuid, ...] = (A, B),
    changed: bool = False,
) -> Course:
    return Course(epoch, target, subscribed, others or {}, reported, changed)


def to(*partitions: int) -> Partitions:
    return {A: frozenset(partitions)}


def has(*partitions: int, since: int = 1) -> Owned:
    return {A: dict.fromkeys(partitions, since)}


def says(*partitions: int) -> tuple[TopicPartitions, ...]:
    return (TopicPartitions(A, partitions),)


def test_free_partitions_are_taken_at_once() -> None:
    after = reconcile(member(), course(to(0, 1)))
    assert after == member(2, assigned=has(0, 1, since=2))


def test_partitions_of_others_are_waited_for() -> None:
    after = reconcile(member(), course(to(0, 1), others={A: {1: "other"}}))
    assert after == member(2, S.UNRELEASED_PARTITIONS, has(0, since=2))
    still = reconcile(after, course(to(0, 1), others={A: {0: "m", 1: "other"}}))
    assert (still.state, still.assigned) == (after.state, after.assigned)
    done = reconcile(still, course(to(0, 1), others={A: {0: "m"}}))
    assert (done.epoch, done.state) == (2, S.STABLE)
    assert done.assigned == has(0, 1, since=2)


def test_nothing_is_taken_before_what_must_go_is_gone() -> None:
    start = member(assigned=has(0, 1))
    way = course(to(1, 2), others={A: {0: "m", 1: "m"}})
    asked = reconcile(start, way)
    assert (asked.epoch, asked.previous_epoch) == (1, 1)
    assert asked.state == S.UNREVOKED_PARTITIONS
    assert (asked.assigned, asked.pending_revocation) == (has(1), has(0))
    assert reconcile(asked, way) is asked
    assert reconcile(asked, replace(way, reported=says(0, 1))) is asked
    done = reconcile(asked, replace(way, reported=says(1)))
    assert (done.epoch, done.state, done.pending_revocation) == (2, S.STABLE, {})
    assert done.assigned == {A: {1: 1, 2: 2}}


def test_who_says_that_it_owns_nothing_has_nothing_to_give_up() -> None:
    after = reconcile(member(assigned=has(0)), course(to(1), reported=()))
    assert (after.state, after.assigned) == (S.STABLE, has(1, since=2))


def test_a_partition_that_was_to_go_can_come_back() -> None:
    start = member(state=S.UNREVOKED_PARTITIONS, assigned=has(1), pending=has(0))
    owners = {A: {0: "m", 1: "m"}}
    after = reconcile(start, course(to(0, 1), 3, others=owners, reported=says(1)))
    assert (after.epoch, after.state) == (3, S.STABLE)
    assert after.assigned == {A: {1: 1, 0: 3}}


def test_topics_that_it_no_longer_subscribes_to_are_not_given() -> None:
    after = reconcile(member(), course({A: frozenset({0}), B: frozenset({0})}, subscribed=(B,)))
    assert after.assigned == {B: {0: 2}}


def test_an_unsubscribed_topic_goes_before_there_is_a_new_target() -> None:
    both = {A: {0: 1}, B: {0: 1}}
    way = course({A: frozenset({0}), B: frozenset({0})}, 1, subscribed=(B,), changed=True)
    asked = reconcile(member(assigned=both), way)
    assert (asked.state, asked.epoch) == (S.UNREVOKED_PARTITIONS, 1)
    assert (asked.assigned, asked.pending_revocation) == ({B: {0: 1}}, {A: {0: 1}})
    gone = reconcile(member(assigned=both), replace(way, reported=()))
    assert (gone.state, gone.assigned) == (S.STABLE, {B: {0: 1}})
    kept = member(assigned={B: {0: 1}})
    assert reconcile(kept, way) is kept


def test_a_settled_member_is_left_alone() -> None:
    settled = member(2, assigned=has(0))
    assert reconcile(settled, course(to(0))) is settled


def test_a_state_from_the_future_begins_anew() -> None:
    strange = member(state=S.UNKNOWN, assigned=has(0))
    for reported in (None, says(0)):
        with pytest.raises(Refused) as refused:
            reconcile(strange, course(to(0), reported=reported))
        assert refused.value.error is ErrorCode.FENCED_MEMBER_EPOCH
    after = reconcile(strange, course(to(0), reported=()))
    assert (after.epoch, after.state) == (2, S.STABLE)
