"""The small parts: partitioner, timers, states, index, settings; and what the package must not import."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import coterie.coordinator
from coterie.coordinator import GroupConfig, partition_for
from coterie.coordinator.durable import GroupIndex
from coterie.coordinator.group import ClassicGroup
from coterie.coordinator.states import ACTIONS, TRANSITIONS, Event, diagram, next_state
from coterie.coordinator.timers import Deadline, Timers
from coterie.protocol.group_state import GroupState, utf16_length

# The partitioner


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [
        ("", 0),
        ("foo", 24),
        ("group1", 40),
        ("test-group", 12),
        ("my-group", 12),
        ("polygenelubricants", 0),  # the hash is the smallest int
    ],
)
def test_partitions_are_javas(group_id: str, partition: int) -> None:
    assert partition_for(group_id, 50) == partition


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [
        ("life-classic", 3),
        ("life-coop", 2),
        ("life-deleted", 0),
        ("life-offdel", 1),
        ("life-txn-open", 2),
        ("life-connect", 3),
    ],
)
def test_partitions_of_a_real_broker(group_id: str, partition: int) -> None:
    assert partition_for(group_id, 4) == partition


@given(st.text(), st.integers(1, 100))
def test_the_hash_is_over_utf16_units(group_id: str, partitions: int) -> None:
    units = group_id.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) % 2**32
    value = value - 2**32 if value >= 2**31 else value
    expected = 0 if value == -(2**31) else abs(value) % partitions
    assert partition_for(group_id, partitions) == expected
    assert utf16_length(group_id) == len(units) // 2


# Timers


def test_deadlines_come_in_order() -> None:
    timers: Timers[str] = Timers()
    for name, at in (("b", 2.0), ("a", 1.0), ("c", 3.0)):
        timers.schedule(Deadline(name), at)
    assert timers.next_deadline() == 1.0
    assert timers.pop_due(0.9) is None
    assert [_pop(timers, 2.5), _pop(timers, 2.5), _pop(timers, 2.5)] == ["a", "b", None]
    assert timers.next_deadline() == 3.0


def _pop(timers: Timers[str], now: float) -> str | None:
    deadline = timers.pop_due(now)
    return None if deadline is None else deadline.subject


def test_a_deadline_that_is_moved_away_costs_nothing() -> None:
    timers: Timers[str] = Timers()
    deadline = Deadline("session")
    for at in range(1000):
        timers.schedule(deadline, 10.0 + at)
    assert len(timers) == 1
    assert timers.pop_due(500) is None
    assert timers.next_deadline() == 1009.0
    assert _pop(timers, 1009) == "session"
    assert timers.next_deadline() is None


def test_a_deadline_that_is_moved_nearer_comes_once() -> None:
    timers: Timers[str] = Timers()
    deadline = Deadline("session")
    timers.schedule(deadline, 10)
    timers.schedule(deadline, 5)
    assert _pop(timers, 5) == "session"
    assert _pop(timers, 20) is None


def test_a_cancelled_deadline_does_not_come_unless_it_is_set_again() -> None:
    timers: Timers[str] = Timers()
    deadline = Deadline("session")
    timers.schedule(deadline, 10)
    timers.cancel(deadline)
    assert timers.next_deadline() is None
    timers.schedule(deadline, 12)
    timers.cancel(deadline)
    timers.schedule(deadline, 15)
    assert timers.next_deadline() == 15
    timers.clear()
    assert timers.next_deadline() is None


@given(st.lists(st.tuples(st.integers(0, 3), st.none() | st.integers(0, 20)), max_size=40))
def test_timers_are_a_dictionary_of_times(operations: list[tuple[int, int | None]]) -> None:
    timers: Timers[int] = Timers()
    deadlines = [Deadline(number) for number in range(4)]
    model: dict[int, int] = {}
    for number, at in operations:
        if at is None:
            timers.cancel(deadlines[number])
            model.pop(number, None)
        else:
            timers.schedule(deadlines[number], at)
            model[number] = at
        expected = min(model.values(), default=None)
        assert timers.next_deadline() == expected
    came: list[tuple[int, int]] = []
    for now in range(21):
        while (deadline := timers.pop_due(now)) is not None:
            came.append((now, deadline.subject))
    assert sorted(came) == sorted((at, number) for number, at in model.items())


# States


def test_the_table_is_kafkas() -> None:
    previous: dict[str, set[str]] = {}
    for state, events in TRANSITIONS.items():
        for target in events.values():
            previous.setdefault(target.value, set()).add(state.value)
    # ClassicGroupState's validPreviousStates, but for Dead after Dead, which means nothing.
    assert previous == {
        "Empty": {"PreparingRebalance"},
        "PreparingRebalance": {"Stable", "CompletingRebalance", "Empty"},
        "CompletingRebalance": {"PreparingRebalance"},
        "Stable": {"CompletingRebalance"},
        "Dead": {"Stable", "PreparingRebalance", "CompletingRebalance", "Empty"},
    }
    assert ACTIONS.keys() == TRANSITIONS.keys()


def test_other_transitions_are_mistakes() -> None:
    for state, events in TRANSITIONS.items():
        for event in Event:
            if event in events:
                assert next_state(state, event) is events[event]
            else:
                with pytest.raises(AssertionError, match=f"in state {state} does not expect"):
                    next_state(state, event)


def test_the_diagram_has_every_transition() -> None:
    lines = diagram().splitlines()
    assert lines[0] == "stateDiagram-v2"
    assert len(lines) == 3 + sum(len(events) for events in TRANSITIONS.values())
    assert "    Stable --> PreparingRebalance: a member joins, changes, leaves or fails" in lines


# The index


def test_the_index_lists_each_group_once() -> None:
    index = GroupIndex()
    group = ClassicGroup("g")
    index.place(group)
    index.place(group)
    rebalance = group.rebalance = group.membership()
    rebalance.transition(Event.REBALANCE, 0)
    index.place(group)
    found = [(state, list(ids)) for _, state, ids in index.find((), ()) if ids]
    assert found == [(GroupState.PREPARING_REBALANCE, ["g"])]
    index.remove(group)
    index.remove(group)
    assert not any(ids for _, _, ids in index.find((), ()))


# Settings


def test_settings_are_kafkas() -> None:
    ours = {each.metadata["kafka"]: each.default for each in fields(GroupConfig)}
    kafka = {
        "group.consumer.assignment.interval.ms": 1000,
        "group.consumer.heartbeat.interval.ms": 5000,
        "group.consumer.max.size": 2147483647,
        "group.consumer.migration.policy": "bidirectional",
        "group.consumer.regex.refresh.interval.ms": 600000,
        "group.consumer.session.timeout.ms": 45000,
        "group.initial.rebalance.delay.ms": 3000,
        "group.max.session.timeout.ms": 1800000,
        "group.max.size": 2147483647,
        "group.min.session.timeout.ms": 6000,
        "offset.metadata.max.bytes": 4096,
        "offsets.retention.check.interval.ms": 600000,
        "offsets.retention.minutes": 10080,
    }
    named_by_kafka = {k: v for k, v in ours.items() if not k.startswith("coterie.")}
    assert named_by_kafka == kafka | {"group.max.size": 1000, "group.consumer.max.size": 1000}
    assert all(each.metadata["doc"] for each in fields(GroupConfig))
    assert GroupConfig().offsets_retention_ms == 7 * 86_400_000


# Purity

BANNED = {
    "asyncio", "os", "time", "datetime", "random", "uuid", "socket", "threading", "logging",
    "pathlib", "io", "secrets", "selectors", "ssl", "subprocess",
}  # fmt: skip


def test_the_package_touches_nothing_outside() -> None:
    (package,) = coterie.coordinator.__path__
    modules = sorted(Path(package).glob("*.py"))
    assert len(modules) > 10
    for module in modules:
        tree = ast.parse(module.read_text(encoding="utf-8"))
        names = {
            name.split(".")[0]
            for node in ast.walk(tree)
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        assert not names & BANNED, module.name
        calls = {
            node.func.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert not calls & {"open", "print", "input"}, module.name
