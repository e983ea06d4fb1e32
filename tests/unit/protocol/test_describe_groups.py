"""KIP-181's additions to DescribeGroups, as tagged fields."""

from __future__ import annotations

import pytest
from kafka.protocol.admin import DescribeGroupsResponse as KafkaPythonResponse
from msgspec.structs import replace

from coterie.errors import ProtocolError
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


PLAIN = DescribedGroupMember(
    member_id="m1",
    client_id="c1",
    client_host="/127.0.0.1",
    member_metadata=b"\0\1",
    member_assignment=b"\0\1",
)
#: Members that are not all short strings, each in its own way.
ODD = {
    "instance": replace(PLAIN, group_instance_id="seat-1"),
    "empty": replace(PLAIN, client_id="", member_metadata=b"", group_instance_id=""),
    "the longest short": replace(PLAIN, member_id="m" * 126, member_metadata=b"m" * 126),
    "long": replace(PLAIN, member_id="m" * 127),
    "long blob": replace(PLAIN, member_assignment=b"a" * 127),
    "very long": replace(PLAIN, client_id="c" * 20_000, member_metadata=b"m" * 70_000),
    "not ASCII": replace(
        PLAIN, member_id="gr\u00fc\u00df", client_id="\u6f22\u5b57", client_host="\U0001f600"
    ),
    "tagged": replace(PLAIN, member_protocols=("range",)),
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_every_kind_of_member_at_every_place(odd: DescribedGroupMember, place: int) -> None:
    members = [PLAIN, PLAIN, PLAIN]
    members[place] = odd
    group = DescribedGroup(group_id="orders", members=tuple(members))
    message = DescribeGroupsResponse(groups=(group, group))
    assert decode(DescribeGroupsResponse, encode(message, 6), 6) == message


@pytest.mark.parametrize("field", ["member_id", "client_id", "client_host", "member_assignment"])
def test_a_member_that_lacks_a_value_is_told_by_its_field(field: str) -> None:
    whole = DescribedGroup(group_id="orders", members=(PLAIN, PLAIN))
    data = encode(DescribeGroupsResponse(groups=(whole,)), 6)
    before = {"member_id": b"", "client_id": b"\x03m1\0", "client_host": b"\x03c1"}
    before["member_assignment"] = b"\x03\0\1"
    at = data.rindex(b"\x03m1\0\x03c1")
    at = data.index(before[field], at) + len(before[field])
    with pytest.raises(ProtocolError, match=rf"groups\.members\.{field}.*null where"):
        decode(DescribeGroupsResponse, data[:at] + b"\0" + data[at + 1 :], 6)


def test_every_cut_of_members_is_told() -> None:
    message = DescribeGroupsResponse(groups=(DescribedGroup(members=(PLAIN, PLAIN)),))
    data = encode(message, 6)
    for end in range(len(data)):
        with pytest.raises(ProtocolError):
            decode(DescribeGroupsResponse, data[:end], 6)


def test_a_member_that_is_no_text_is_told() -> None:
    data = encode(DescribeGroupsResponse(groups=(DescribedGroup(members=(PLAIN,)),)), 6)
    with pytest.raises(ProtocolError, match=r"groups\.members\.client_id.*UTF-8"):
        decode(DescribeGroupsResponse, data.replace(b"\x03c1", b"\x03c\xff"), 6)
