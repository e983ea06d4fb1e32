"""What encode and decode promise beyond the golden bytes."""

from __future__ import annotations

import pytest

from coterie.errors import InvalidMessage, ProtocolError, UnsupportedVersion
from coterie.protocol.codec import (
    decode,
    decode_prefix,
    encode,
    encode_element,
    encode_with_elements,
)
from coterie.protocol.messages.cluster import FindCoordinatorRequest, MetadataRequest
from coterie.protocol.messages.groups import (
    DeleteGroupsRequest,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from coterie.protocol.messages.membership import HeartbeatRequest

pytestmark = pytest.mark.usefixtures("codecs")


def test_messages_are_immutable_values() -> None:
    group = ListedGroup(group_id="orders", group_state="Stable")
    assert group == ListedGroup("orders", group_state="Stable")
    assert len({group, ListedGroup("orders", group_state="Stable")}) == 1
    assert repr(group) == "ListedGroup(group_id='orders', group_state='Stable')"
    with pytest.raises(AttributeError):
        setattr(group, "group_id", "payments")  # noqa: B010 - mypy knows that it cannot be


def test_a_filter_that_the_version_cannot_carry_is_refused() -> None:
    """KIP-518: an older broker must not be sent the question without its filter."""
    request = ListGroupsRequest(states_filter=("Stable",))
    with pytest.raises(UnsupportedVersion, match=r"ListGroupsRequest v3 has no statesFilter.* 4\+"):
        encode(request, 3)
    assert encode(ListGroupsRequest(), 3) == b"\0"


def test_a_batched_lookup_that_the_version_cannot_carry_is_refused() -> None:
    """KIP-699: batches need v4; below, each key is asked for alone."""
    request = FindCoordinatorRequest(coordinator_keys=("a", "b"))
    with pytest.raises(UnsupportedVersion, match="v3 has no coordinatorKeys"):
        encode(request, 3)
    with pytest.raises(UnsupportedVersion, match=r"v4 has no key; .* 0-3"):
        encode(FindCoordinatorRequest(key="a"), 4)


def test_an_ignorable_field_is_dropped_in_versions_without_it() -> None:
    response = ListGroupsResponse(groups=(ListedGroup("a", "consumer", "Stable", "classic"),))
    assert decode(ListGroupsResponse, encode(response, 3), 3).groups == (
        ListedGroup("a", "consumer"),
    )


def test_null_is_refused_where_the_version_has_none() -> None:
    with pytest.raises(UnsupportedVersion, match="MetadataRequest v0 cannot say null for topics"):
        encode(MetadataRequest(topics=None), 0)


def test_versions_that_do_not_exist_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedVersion, match="ListGroupsRequest has versions 0 to 5, and 6"):
        encode(ListGroupsRequest(), 6)
    with pytest.raises(UnsupportedVersion, match="and -1 is not"):
        decode(ListGroupsRequest, b"", -1)


@pytest.mark.parametrize("version", [0, 4])
def test_values_that_do_not_fit_are_the_callers_mistake(version: int) -> None:
    with pytest.raises(InvalidMessage, match=rf"HeartbeatRequest v{version}\.generation_id|member"):
        encode(HeartbeatRequest(generation_id=2**40), version)
    with pytest.raises(InvalidMessage, match="group_id"):
        encode(HeartbeatRequest(group_id=7), version)  # type: ignore[arg-type]
    with pytest.raises(InvalidMessage, match="group_id"):
        encode(HeartbeatRequest(group_id="\ud800"), version)


@pytest.mark.parametrize("version", [0, 4])
def test_strings_have_kafkas_limit(version: int) -> None:
    longest = HeartbeatRequest(group_id="g" * 32767)
    assert decode(HeartbeatRequest, encode(longest, version), version) == longest
    with pytest.raises(InvalidMessage):
        encode(HeartbeatRequest(group_id="g" * 32768), version)


def test_a_broken_field_is_named_with_its_place() -> None:
    data = encode(
        ListGroupsResponse(groups=(ListedGroup("a", "consumer", "Stable", "classic"),)), 5
    )
    with pytest.raises(ProtocolError) as caught:
        decode(ListGroupsResponse, data[:-5], 5)
    error = caught.value
    assert (error.message, error.version, error.field) == (
        "ListGroupsResponse",
        5,
        "groups.group_type",
    )
    assert error.offset is not None
    assert str(error).startswith("ListGroupsResponse v5.groups.group_type at byte ")


@pytest.mark.parametrize(
    ("data", "offset"),
    [(b"\0\x09abc", 2), (b"\0\2\xff\xff" + bytes(40), 2), (b"\0", 0)],
    ids=["cut text", "text that is not UTF-8", "cut length"],
)
def test_the_place_is_where_the_value_begins(data: bytes, offset: int) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode(HeartbeatRequest, data, 0)
    assert (caught.value.field, caught.value.offset) == ("group_id", offset)


def test_each_number_in_a_row_is_named() -> None:
    with pytest.raises(ProtocolError) as caught:
        decode(ListGroupsResponse, b"\0\0\0\0\0", 1)
    assert (caught.value.field, caught.value.offset) == ("error_code", 4)


def test_text_beyond_ascii_is_strict_utf_8() -> None:
    request = DeleteGroupsRequest(groups_names=("größe", "日本", "🎧", "plain"))
    for version in (1, 2):
        assert decode(DeleteGroupsRequest, encode(request, version), version) == request
    with pytest.raises(ProtocolError, match="text is not UTF-8") as caught:
        decode(DeleteGroupsRequest, b"\x02\x03\xc0\x80\0", 2)
    assert caught.value.field == "groups_names"


def test_bytes_behind_a_message_are_left_alone() -> None:
    data = encode(ListGroupsRequest(), 5)
    assert decode(ListGroupsRequest, data + b"later", 5) == ListGroupsRequest()
    assert decode_prefix(ListGroupsRequest, data + b"later", 5)[1] == len(data)


def test_repeated_strings_are_read_right_when_they_stop_repeating() -> None:
    """Elements like the one before take a short cut; every mixture must come out as it went in."""
    states = ["Stable"] * 40 + ["Empty", "Dead"] * 40 + ["Größe"] * 3 + ["Stable"] * 5
    response = ListGroupsResponse(
        groups=tuple(
            ListedGroup(f"group-{i}", "consumer" if i % 7 else "", state, "classic")
            for i, state in enumerate(states)
        )
    )
    assert decode(ListGroupsResponse, encode(response, 5), 5) == response


@pytest.mark.parametrize("version", range(6))
def test_elements_may_be_encoded_beforehand(version: int) -> None:
    groups = tuple(ListedGroup(f"g{i}", "consumer", "Größe", "classic") for i in range(200))
    whole = ListGroupsResponse(throttle_time_ms=5, error_code=15, groups=groups)
    elements = [encode_element(group, ListGroupsResponse, version) for group in groups]
    bare = ListGroupsResponse(throttle_time_ms=5, error_code=15)
    assert encode_with_elements(bare, version, "groups", elements) == encode(whole, version)


def test_requests_have_a_budget_of_elements_and_the_caller_may_set_it() -> None:
    data = encode(DeleteGroupsRequest(groups_names=("",) * 11), 2)
    assert len(decode(DeleteGroupsRequest, data, 2, max_elements=11).groups_names) == 11
    with pytest.raises(ProtocolError, match=r"11 elements do not fit .* the 10 that are allowed"):
        decode(DeleteGroupsRequest, data, 2, max_elements=10)
