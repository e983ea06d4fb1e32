"""KIP-181's additions to DescribeGroups, as tagged fields."""

from __future__ import annotations

import pytest
from kafka.protocol.admin import DescribeGroupsResponse as KafkaPythonResponse

from coterie.protocol.codec import decode, encode
from coterie.protocol.messages.groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)

DESCRIBED = DescribeGroupsResponse(
    groups=(
        DescribedGroup(
            group_id="orders",
            group_state="Stable",
            protocol_type="consumer",
            protocol_data="range",
            members=(
                DescribedGroupMember(
                    member_id="m1",
                    client_id="c1",
                    client_host="/127.0.0.1",
                    member_metadata=b"\0\1",
                    member_assignment=b"\0\1",
                    member_subscription=b"\0\1\xff",
                    member_protocols=("range", "cooperative-sticky"),
                ),
            ),
            generation_id=7,
            leader_id="m1",
            new_member_added=True,
            received_consumer_offset_commits=True,
            received_transactional_offset_commits=True,
        ),
    )
)


@pytest.mark.parametrize("version", [5, 6])
def test_kip181_fields_travel_as_tags(version: int) -> None:
    assert decode(DescribeGroupsResponse, encode(DESCRIBED, version), version) == DESCRIBED


@pytest.mark.parametrize("version", [5, 6])
def test_stock_decoders_skip_the_kip181_tags(version: int) -> None:
    """Another implementation reads our bytes and sees what it knows."""
    seen = KafkaPythonResponse.decode(encode(DESCRIBED, version), version=version, header=False)
    (group,) = seen.groups
    (member,) = group.members
    assert (group.group_id, group.group_state, group.protocol_data) == ("orders", "Stable", "range")
    assert (member.member_id, member.client_host) == ("m1", "/127.0.0.1")


def test_versions_before_tags_carry_what_they_can() -> None:
    (group,) = decode(DescribeGroupsResponse, encode(DESCRIBED, 4), 4).groups
    assert (group.group_id, group.generation_id, group.leader_id) == ("orders", -1, None)
    assert group.members[0].member_protocols is None


def test_a_broker_that_does_not_tell_is_not_one_that_says_no() -> None:
    (group,) = decode(
        DescribeGroupsResponse,
        encode(DescribeGroupsResponse(groups=(DescribedGroup(group_id="g"),)), 6),
        6,
    ).groups
    assert (group.generation_id, group.leader_id) == (-1, None)
