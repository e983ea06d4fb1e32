"""FindCoordinator and ListGroups where versions differ in what they can say (KIP-518, KIP-699)."""

from __future__ import annotations

import pytest

from coterie.errors import UnsupportedVersion
from coterie.protocol.api import ApiKey
from coterie.protocol.codec import decode, encode
from coterie.protocol.messages.cluster import FindCoordinatorRequest
from coterie.protocol.messages.groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

TRANSACTION = 1


def test_find_coordinator_keeps_its_name_in_all_versions() -> None:
    """KIP-699 renamed it; Kafka did not, and a name is nothing that bytes could tell."""
    assert ApiKey.FIND_COORDINATOR.api_name == "FindCoordinator"
    assert ApiKey.FIND_COORDINATOR.request is FindCoordinatorRequest


def test_a_kind_of_key_is_never_dropped_silently() -> None:
    """Version 0 can only ask for groups: a question about a transaction would become another one."""
    asked = FindCoordinatorRequest(key="orders", key_type=TRANSACTION)
    with pytest.raises(UnsupportedVersion, match="keyType"):
        encode(asked, 0)
    assert decode(FindCoordinatorRequest, encode(asked, 1), 1) == asked


def test_many_keys_are_never_cut_down_to_none() -> None:
    with pytest.raises(UnsupportedVersion, match="coordinatorKeys"):
        encode(FindCoordinatorRequest(coordinator_keys=("a", "b")), 3)


def test_a_state_is_left_out_where_there_is_no_place_for_it() -> None:
    told = ListGroupsResponse(groups=(ListedGroup("orders", "consumer", "Stable"),))
    before = decode(ListGroupsResponse, encode(told, 3), 3)
    assert before.groups == (ListedGroup("orders", "consumer"),)
    assert decode(ListGroupsResponse, encode(told, 4), 4) == told


def test_a_filter_by_state_is_not_left_out() -> None:
    with pytest.raises(UnsupportedVersion, match="statesFilter"):
        encode(ListGroupsRequest(states_filter=("Stable",)), 3)
