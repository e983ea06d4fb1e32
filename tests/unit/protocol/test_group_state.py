"""States and types by name."""

from __future__ import annotations

from coterie.protocol.group_state import GroupState, GroupType


def test_kip40_states_map_onto_kafkas() -> None:
    by_word: dict[str, set[str]] = {}
    for state in GroupState:
        by_word.setdefault(state.kip40, set()).add(state.value)
    assert by_word == {
        "Dead": {"Dead", "Empty"},
        "Rebalancing": {
            "PreparingRebalance",
            "CompletingRebalance",
            "Assigning",
            "Reconciling",
            "NotReady",
        },
        "Stable": {"Stable"},
        "": {"Unknown"},
    }


def test_names_are_read_in_any_case_as_kafka_does() -> None:
    assert GroupState.parse(" stable ") is GroupState.STABLE
    assert GroupState.parse("PREPARINGREBALANCE") is GroupState.PREPARING_REBALANCE
    assert GroupState.parse("sleeping") is GroupState.UNKNOWN
    assert GroupType.parse("CLASSIC") is GroupType.CLASSIC
    assert GroupType.parse(" classic") is GroupType.UNKNOWN  # Kafka trims states, not types
