"""Frames are the same however the stream is cut, and sizes and correlation ids are not taken on trust.

The names of tests begin with the number of the case in the project's campaign of bad input.
"""

from __future__ import annotations

import itertools
import tracemalloc
from contextlib import suppress
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import CoterieError, ProtocolError, UnsupportedVersion
from coterie.protocol.api import ApiKey
from coterie.protocol.frames import (
    MAX_FRAME,
    FrameBuffer,
    InFlight,
    ReceiveBuffer,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    frame,
)
from coterie.protocol.messages.groups import ListGroupsRequest, ListGroupsResponse
from coterie.protocol.messages.membership import HeartbeatRequest, HeartbeatResponse
from coterie.protocol.messages.session import ApiVersionsRequest
from tests.property.strategies import examples, messages

INT_MAX: Final = 0x7FFFFFFF
INT_MIN: Final = -(1 << 31)
#: What a refusal may cost: the error and its texts, but nothing of what a size claims.
MAX_COST: Final = 64 * 1024

bodies = st.lists(
    st.binary(max_size=40) | st.sampled_from((bytes(5000), b"\xff" * 255)), max_size=12
)
#: Sizes and bytes that need not belong together.
streams = st.lists(st.tuples(st.integers(-1, 60), st.binary(max_size=60)), max_size=5).map(
    lambda found: b"".join(size(number) + body for number, body in found)
)


def size(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)


def fed(buffer: FrameBuffer, stream: bytes, cuts: list[int]) -> list[bytes]:
    """What the buffer gives for a stream that arrives in pieces."""
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    found = []
    for start, stop in itertools.pairwise(edges):
        found += buffer.feed(stream[start:stop])
    return found


# -- the stream ----------------------------------------------------------------------------------


@given(frames=bodies, cuts=st.lists(st.integers(0, 1 << 20), max_size=30))
def test_f05_frames_do_not_depend_on_the_cuts(frames: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(frame, frames))
    buffer = FrameBuffer()
    assert fed(buffer, stream, cuts) == frames
    assert len(buffer) == 0


@given(frames=bodies)
def test_f05_one_byte_at_a_time(frames: list[bytes]) -> None:
    stream = b"".join(map(frame, frames))
    assert fed(FrameBuffer(), stream, list(range(len(stream)))) == frames


@given(frames=st.lists(st.binary(max_size=40), min_size=50, max_size=50))
def test_f05_fifty_frames_in_one_write(frames: list[bytes]) -> None:
    assert FrameBuffer().feed(b"".join(map(frame, frames))) == frames


@given(frames=bodies, cuts=st.lists(st.integers(0, 1 << 20), max_size=30), last=st.integers(1, 50))
def test_f04_an_incomplete_frame_is_held_and_not_given(
    frames: list[bytes], cuts: list[int], last: int
) -> None:
    whole = frame(bytes(last))
    for cut in range(len(whole)):
        buffer = FrameBuffer()
        assert fed(buffer, b"".join(map(frame, frames)) + whole[:cut], cuts) == frames
        assert len(buffer) == cut
    assert buffer.feed(whole[cut:]) == [bytes(last)]


@examples(20)
@given(data=st.data(), cuts=st.lists(st.integers(0, 1 << 20), max_size=30))
def test_f05_requests_and_responses_survive_any_cuts(data: st.DataObject, cuts: list[int]) -> None:
    requests = data.draw(st.lists(messages(ListGroupsRequest, 5), max_size=4))
    stream = b"".join(
        encode_request(request, 5, correlation_id=number, client_id="me")
        for number, request in enumerate(requests)
    )
    found = [decode_request(each) for each in fed(FrameBuffer(), stream, cuts)]
    assert [each.request for each in found] == requests
    assert [each.header.correlation_id for each in found] == list(range(len(requests)))

    responses = data.draw(st.lists(messages(ListGroupsResponse, 5), max_size=4))
    stream = b"".join(encode_response(each, 5, correlation_id=7) for each in responses)
    answers = [
        decode_response(ApiKey.LIST_GROUPS, 5, each) for each in fed(FrameBuffer(), stream, cuts)
    ]
    assert answers == [(7, response) for response in responses]


# -- sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", range(4))
@pytest.mark.parametrize("number", [-1, -2, INT_MIN, MAX_FRAME + 1, INT_MAX])
def test_f01_f02_absurd_sizes_are_refused_at_once(number: int, cut: int) -> None:
    buffer = FrameBuffer()
    head = size(number)
    assert buffer.feed(head[:cut]) == []
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match=str(number)) as caught:
            buffer.feed(head[cut:])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MAX_COST
    assert caught.value.offset == 0


@given(limit=st.integers(0, 100), number=st.integers(0, 200))
def test_f02_the_limit_is_the_last_size_that_is_taken(limit: int, number: int) -> None:
    buffer = FrameBuffer(max_frame=limit)
    if number <= limit:
        assert buffer.feed(frame(bytes(number))) == [bytes(number)]
    else:
        with pytest.raises(ProtocolError):
            buffer.feed(size(number))


def test_f02_a_size_that_is_allowed_takes_no_memory_until_the_bytes_come() -> None:
    buffer = FrameBuffer()
    tracemalloc.start()
    try:
        assert buffer.feed(size(MAX_FRAME)) == []
        assert buffer.feed(bytes(1000)) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MAX_COST
    assert len(buffer) == 1004


def test_f03_an_empty_frame_is_a_frame() -> None:
    assert FrameBuffer().feed(size(0) + size(0)) == [b"", b""]


@pytest.mark.parametrize("length", range(8))
def test_f03_a_header_cut_short_is_refused(length: int) -> None:
    whole = encode_request(ApiVersionsRequest(), 3, correlation_id=1, client_id="me")[4:]
    with pytest.raises(ProtocolError):
        decode_request_header(whole[:length])
    with pytest.raises(ProtocolError):
        decode_response(ApiKey.HEARTBEAT, 4, bytes(length % 4))


@pytest.mark.parametrize(
    ("start", "hint"),
    [
        (b"\x16\x03\x01\x02", "TLS handshake"),
        (b"\x16\x03\x03\x00", "TLS handshake"),
        (b"\x15\x03\x03\x00", "TLS alert"),
        (b"GET / HTTP/1.1\r\n", "HTTP request"),
        (b"POST /x HTTP/1.1\r\n", "HTTP request"),
        (b"HEAD / HTTP/1.1\r\n", "HTTP request"),
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP response"),
    ],
)
def test_f02_other_protocols_are_named(start: bytes, hint: str) -> None:
    for step in (1, 3, len(start)):
        with pytest.raises(ProtocolError, match=hint):
            fed(FrameBuffer(), start, list(range(0, len(start), step)))


@given(stream=streams, cuts=st.lists(st.integers(0, 200), max_size=10))
def test_f01_any_stream_gives_the_same_frames_and_error_however_it_is_cut(
    stream: bytes, cuts: list[int]
) -> None:
    outcomes = []
    for each in (sorted({0, *cuts}), list(range(len(stream)))):
        buffer = FrameBuffer(max_frame=50)
        frames: list[bytes] = []
        for start, stop in pairwise([*each, len(stream)]):
            with suppress(ProtocolError):
                frames += buffer.feed(stream[start:stop])
        reason = None if buffer.error is None else buffer.error.reason
        outcomes.append((frames, reason, len(buffer)))
    assert outcomes[0] == outcomes[1]


def received(buffer: ReceiveBuffer, data: bytes) -> list[bytes | memoryview]:
    """What the buffer gives when a socket writes into it, as much as there is room for at a time."""
    found = []
    while data:
        room = buffer.room()
        count = min(len(room), len(data))
        room[:count] = data[:count]
        found += buffer.received(count)
        data = data[count:]
    return found


@given(
    stream=streams | bodies.map(lambda found: b"".join(map(frame, found))),
    cuts=st.lists(st.integers(0, 200), max_size=10),
)
def test_f05_a_buffer_that_sockets_write_into_gives_what_the_other_gives(
    stream: bytes, cuts: list[int]
) -> None:
    edges = sorted({0, *(min(cut, len(stream)) for cut in cuts), len(stream)})
    one, other = FrameBuffer(max_frame=5000), ReceiveBuffer(max_frame=5000)
    frames: tuple[list[bytes], list[bytes | memoryview]] = ([], [])
    for start, stop in pairwise(edges):
        with suppress(ProtocolError):
            frames[0].extend(one.feed(stream[start:stop]))
        with suppress(ProtocolError):
            frames[1].extend(received(other, stream[start:stop]))
    assert frames[0] == frames[1]
    assert len(one) == len(other)
    assert str(one.error) == str(other.error)


@pytest.mark.parametrize("length", [0, 100, 32_764, 32_765, 100_000, 20_000_000])
def test_f02_room_grows_by_what_has_arrived_and_is_given_back(length: int) -> None:
    buffer = ReceiveBuffer()
    start = len(buffer.room())
    body = bytes(range(256)) * (length // 256) + bytes(length % 256)
    assert received(buffer, size(length)[:3]) == []
    assert received(buffer, size(length)[3:] + body[:-1])[:1] == ([] if length else [b""])
    assert len(buffer.room()) <= max(start, len(buffer))
    if length:
        assert received(buffer, body[-1:] + frame(b"next")) == [body, b"next"]
    assert len(buffer) == 0
    assert len(buffer.room()) <= 8 << 20


# -- requests and correlation --------------------------------------------------------------------


@given(data=st.binary(max_size=60))
def test_any_frame_is_a_request_or_an_error_of_ours(data: bytes) -> None:
    for body in (data, b"\0" + data, b"\0\x10\0\x05" + data, b"\0\x12\0\x03" + data):
        try:
            decode_request_header(body)
        except ProtocolError:
            continue
        try:
            decode_request(body)
        except CoterieError as error:
            assert isinstance(error, ProtocolError | UnsupportedVersion)  # noqa: PT017


@pytest.mark.parametrize("key", [-1, 4, 9999, -32768])
def test_f06_unknown_apis_are_named(key: int) -> None:
    with pytest.raises(ProtocolError, match=str(key)) as caught:
        decode_request(key.to_bytes(2, "big", signed=True) + bytes(20))
    assert caught.value.field == "request_api_key"


def answer(correlation_id: int) -> bytes:
    return encode_response(HeartbeatResponse(), 4, correlation_id=correlation_id)[4:]


@given(count=st.integers(1, 20))
def test_answers_come_in_the_order_of_the_requests(count: int) -> None:
    flight = InFlight("me")
    sent = [flight.send(HeartbeatRequest(), 4)[0] for _ in range(count)]
    assert len(set(sent)) == count
    for index, correlation_id in enumerate(sent):
        assert len(flight) == count - index
        assert flight.receive(answer(correlation_id)) == (correlation_id, HeartbeatResponse())
    assert len(flight) == 0


@given(count=st.integers(1, 6), stray=st.integers(INT_MIN, INT_MAX))
def test_answers_out_of_order_or_unknown_are_refused(count: int, stray: int) -> None:
    flight = InFlight()
    sent = [flight.send(HeartbeatRequest(), 4)[0] for _ in range(count)]
    for wrong in {stray, *sent[1:]} - {sent[0]}:
        with pytest.raises(ProtocolError, match=f"{wrong} where {sent[0]} "):
            flight.receive(answer(wrong))
    assert len(flight) == count


def test_an_answer_that_comes_twice_is_refused() -> None:
    flight = InFlight()
    first, second = (flight.send(HeartbeatRequest(), 4)[0] for _ in range(2))
    flight.receive(answer(first))
    with pytest.raises(ProtocolError, match=f"{first} where {second} "):
        flight.receive(answer(first))
    flight.receive(answer(second))
    with pytest.raises(ProtocolError, match="nothing had asked"):
        flight.receive(answer(second))


@given(data=st.binary(max_size=30))
def test_any_bytes_are_an_answer_or_a_protocol_error(data: bytes) -> None:
    for body in (data, bytes(4) + data):
        flight = InFlight()
        flight.send(HeartbeatRequest(), 4)
        try:
            flight.receive(body)
        except ProtocolError:
            assert len(flight) == 1
        else:
            assert len(flight) == 0
