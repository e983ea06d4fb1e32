"""Requests and responses as they stand on a connection."""

from __future__ import annotations

import pytest

from coterie.errors import ProtocolError
from coterie.protocol.api import ApiKey
from coterie.protocol.frames import (
    FrameBuffer,
    InFlight,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    frame,
)
from coterie.protocol.messages.groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from coterie.protocol.messages.session import ApiVersionsRequest, ApiVersionsResponse
from coterie.protocol.schema import Response


@pytest.mark.parametrize("version", ApiKey.LIST_GROUPS.versions.each())
def test_a_request_and_its_response_travel(version: int) -> None:
    data = encode_request(ListGroupsRequest(), version, correlation_id=5, client_id="größe")
    (body,) = FrameBuffer().feed(data)
    api, header, request = decode_request(body)
    assert (api, request) == (ApiKey.LIST_GROUPS, ListGroupsRequest())
    assert (header.correlation_id, header.client_id) == (5, "größe")
    assert header.request_api_version == version
    response = ListGroupsResponse(groups=(ListedGroup("g", "consumer"),))
    (body,) = FrameBuffer().feed(encode_response(response, version, correlation_id=5))
    assert decode_response(api, version, body) == (5, response)


def test_an_answer_to_api_versions_never_has_a_flexible_header() -> None:
    """KIP-511: it must be readable by a client that does not yet know which version it will be."""
    data = encode_response(ApiVersionsResponse(), 4, correlation_id=1)
    assert data[4:10] == b"\0\0\0\1\0\0"


def test_a_version_that_is_not_served_still_has_a_header() -> None:
    body = encode_request(ApiVersionsRequest(), 4, correlation_id=1, client_id=None)[4:]
    future = body[:2] + (99).to_bytes(2, "big") + body[4:]
    api, header, _ = decode_request_header(future)
    assert (api, header.request_api_version) == (ApiKey.API_VERSIONS, 99)
    with pytest.raises(ProtocolError, match="ApiVersions has versions 0-4, and 99 is not one"):
        decode_request(future)


def test_an_unknown_api_is_named() -> None:
    with pytest.raises(ProtocolError, match="API key 9999 is not known"):
        decode_request(b"\x27\x0f\0\0\0\0\0\1\xff\xff")


def test_frames_come_out_whole_however_they_went_in() -> None:
    buffer = FrameBuffer()
    stream = frame(b"one") + frame(b"") + frame(b"three")
    assert buffer.feed(stream) == [b"one", b"", b"three"]
    assert [f for i in range(len(stream)) for f in buffer.feed(stream[i : i + 1])] == [
        b"one",
        b"",
        b"three",
    ]
    assert buffer.feed(stream[:6]) == []
    assert len(buffer) == 6


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (b"\xff\xff\xff\xff", "a frame of -1 bytes is refused; the limit is 100"),
        (b"\0\0\0\x65", "a frame of 101 bytes is refused"),
        (b"\x16\x03\x01\x02", "this looks like a TLS handshake"),
        (b"\x15\x03\x03\x00", "this looks like a TLS alert"),
        (b"GET ", "this looks like an HTTP request"),
        (b"HTTP", "this looks like an HTTP response"),
    ],
)
def test_a_size_that_cannot_be_is_refused_at_once(head: bytes, says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        FrameBuffer(100).feed(head)
    buffer = FrameBuffer(100)
    buffer.feed(head[:2])
    with pytest.raises(ProtocolError, match=says):
        buffer.feed(head[2:])


def test_good_frames_before_a_bad_size_come_out_and_then_nothing_more() -> None:
    buffer = FrameBuffer(100)
    assert buffer.feed(frame(b"good") + b"\xff\xff\xff\xff" + frame(b"never")) == [b"good"]
    assert buffer.error is not None
    with pytest.raises(ProtocolError, match="-1 bytes"):
        buffer.feed(frame(b"never"))


def test_answers_are_matched_with_their_questions() -> None:
    client = InFlight("me")
    first, _ = client.send(ListGroupsRequest(), 5)
    second, _ = client.send(ApiVersionsRequest(), 0)
    assert len(client) == 2
    listed = encode_response(ListGroupsResponse(), 5, correlation_id=first)[4:]
    versions = encode_response(ApiVersionsResponse(), 0, correlation_id=second)[4:]
    with pytest.raises(ProtocolError, match=r"correlation id 1 where 0 \(ListGroups\) was due"):
        client.receive(versions)
    assert client.receive(listed) == (first, ListGroupsResponse())
    assert client.receive(versions) == (second, ApiVersionsResponse())
    with pytest.raises(ProtocolError, match="nothing had asked for"):
        client.receive(versions)


def test_a_list_that_has_not_changed_is_decoded_once() -> None:
    client = InFlight()

    def listed(state: str, version: int = 5) -> Response:
        number, _ = client.send(ListGroupsRequest(), version)
        message = ListGroupsResponse(groups=(ListedGroup("orders", "consumer", state),))
        return client.receive(encode_response(message, version, correlation_id=number)[4:])[1]

    first = listed("Stable")
    assert listed("Stable") is first
    changed = listed("Empty")
    assert changed == ListGroupsResponse(groups=(ListedGroup("orders", "consumer", "Empty"),))
    assert listed("Stable") == first
    older = listed("Stable", 3)
    assert older == ListGroupsResponse(groups=(ListedGroup("orders", "consumer"),))


def test_lists_are_remembered_by_what_was_asked_for() -> None:
    client = InFlight()

    def listed(*states: str) -> Response:
        number, _ = client.send(ListGroupsRequest(states_filter=states), 5)
        groups = tuple(ListedGroup("orders", "consumer", state) for state in states or ("Empty",))
        message = ListGroupsResponse(groups=groups)
        return client.receive(encode_response(message, 5, correlation_id=number)[4:])[1]

    everything, stable = listed(), listed("Stable")
    assert listed() is everything
    assert listed("Stable") is stable
    # But not without a bound.
    for state in ("Dead", "Empty", "Assigning", "Reconciling"):
        listed(state)
    assert listed() is not everything


def test_correlation_ids_stay_positive() -> None:
    client = InFlight()
    client._next_id = 2**31 - 1
    assert client.send(ListGroupsRequest(), 5)[0] == 2**31 - 1
    assert client.send(ListGroupsRequest(), 5)[0] == 0
