"""What surrounds a message on a connection: size, header, correlation id. No sockets here.

A server uses FrameBuffer, decode_request and encode_response; a client uses ReceiveBuffer and InFlight.
"""

from __future__ import annotations

import struct
from collections import deque
from functools import lru_cache
from typing import Final, NamedTuple

from coterie.errors import ProtocolError
from coterie.protocol.api import ApiKey
from coterie.protocol.codec import decode_prefix, encode
from coterie.protocol.messages.headers import RequestHeader, ResponseHeader
from coterie.protocol.repeated_list import RepeatedList, recent
from coterie.protocol.schema import Request, Response

__all__ = [
    "MAX_FRAME",
    "FrameBuffer",
    "InFlight",
    "ReceiveBuffer",
    "decode_request",
    "decode_request_header",
    "decode_response",
    "encode_request",
    "encode_response",
    "frame",
    "frame_response",
]

#: As large as a broker accepts by default (socket.request.max.bytes); a server should set far less.
MAX_FRAME: Final = 104_857_600

#: What a ReceiveBuffer keeps; frames that do not fit have memory of their own.
_ROOM: Final = 32 << 10

#: By number, since asking the enum for a member costs half a microsecond.
_APIS: Final = {api.value: api for api in ApiKey}

_SIZE: Final = struct.Struct(">i")
#: A response's size and correlation id; then, in header 1, the number of its tagged fields: none.
_RESPONSE_START: Final = struct.Struct(">ii")
_RESPONSE_START_TAGGED: Final = struct.Struct(">iiB")
#: API key and version.
_REQUEST_START: Final = struct.Struct(">hh")

#: Asked for every request; a bound, since versions come from outside.
_request_header_version = lru_cache(maxsize=1024)(ApiKey.request_header_version)
_response_header_version = lru_cache(maxsize=1024)(ApiKey.response_header_version)

#: First bytes of other protocols, which as a size would be absurd (KIP-498 found 352,518,912 in logs).
_STRANGERS: Final = {
    b"\x15\x03": "a TLS alert: the peer expects TLS, or gave up on it",
    b"\x16\x03": "a TLS handshake: the peer speaks TLS to a plaintext port",
    b"GET ": "an HTTP request",
    b"POST": "an HTTP request",
    b"HEAD": "an HTTP request",
    b"HTTP": "an HTTP response",
}


def frame(body: bytes) -> bytes:
    """A body with its size before it."""
    return len(body).to_bytes(4, "big") + body


class FrameBuffer:
    """Cuts a stream of bytes, however it arrives, into frames. Keeps at most one incomplete frame."""

    def __init__(self, max_frame: int = MAX_FRAME) -> None:
        self.max_frame = max_frame
        #: What is wrong with the stream; once it is set, no more frames come out.
        self.error: ProtocolError | None = None
        self._rest = bytearray()

    def __len__(self) -> int:
        """How many bytes of an incomplete frame are held."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that these bytes complete, without their sizes.

        A size is believed only after it was checked, and nothing is allocated for it: the buffer
        holds what has arrived. Frames before a bad size still come out; `error` then says what is
        wrong, and this raises it if there is nothing else to give.
        """
        if self.error is None and not self._rest and len(data) >= 4:
            size = _SIZE.unpack_from(data)[0]
            if size == len(data) - 4 and size <= self.max_frame:
                return [data[4:]]  # one request in one piece, as most come
        frames: list[bytes] = []
        if self.error is None:
            try:
                self._cut(data, frames)
            except ProtocolError as error:
                self.error = error
                self._rest.clear()
        if self.error is not None and not frames:
            raise self.error
        return frames

    def _cut(self, data: bytes, frames: list[bytes]) -> None:
        if self._rest:
            self._rest += data
            if len(self._rest) >= 4 and len(self._rest) - 4 < _size(self._rest, 0, self.max_frame):
                return
            data = bytes(self._rest)
            self._rest.clear()
        at, end = 0, len(data)
        while end - at >= 4:
            stop = at + 4 + _size(data, at, self.max_frame)
            if stop > end:
                break
            frames.append(data[at + 4 : stop])
            at = stop
        if at < end:
            self._rest += data[at:]


class ReceiveBuffer:
    """The same for sockets that write into a buffer of ours: for answers of many megabytes.

    Small frames share a buffer and are copied out of it. A larger one has memory of its own, where the
    socket writes it and where it stays. That memory grows by what has arrived, to twice of it, and not by
    what a size promises, unless a frame of that size has come whole before.
    """

    def __init__(self, max_frame: int = MAX_FRAME) -> None:
        self.max_frame = max_frame
        #: As in FrameBuffer.
        self.error: ProtocolError | None = None
        self._shared = bytearray(_ROOM)
        #: Of the frame that has memory of its own: how large it will be, 0 if there is none.
        self._size = 0
        self._own = bytearray()
        #: How much of the one that is written to is used.
        self._used = 0
        #: The largest frame with memory of its own that has come whole.
        self._largest = 0

    def __len__(self) -> int:
        """How many bytes of an incomplete frame are held."""
        return self._used + (4 if self._size else 0)

    def room(self) -> memoryview:
        """Where the next bytes may be written; tell `received` how many there were."""
        if not self._size:
            return memoryview(self._shared)[self._used :]
        if self._used == len(self._own):
            # A new one: whoever was given room may still hold it, and then the old one cannot grow.
            grown = bytearray(min(self._size, 2 * self._used))
            grown[: self._used] = self._own
            self._own = grown
        return memoryview(self._own)[self._used :]

    def received(self, count: int) -> list[bytes | memoryview]:
        """The frames that so many bytes complete, without their sizes; errors are as in FrameBuffer."""
        self._used += count
        frames: list[bytes | memoryview] = []
        if self.error is None:
            try:
                if self._size:
                    self._complete(frames)
                else:
                    self._cut(frames)
            except ProtocolError as error:
                self.error = error
        if self.error is not None:
            self._used = 0
            if not frames:
                raise self.error
        return frames

    def _complete(self, frames: list[bytes | memoryview]) -> None:
        """Hand out the frame with memory of its own, if it is all there."""
        if self._used == self._size:
            frames.append(memoryview(self._own).toreadonly())
            self._largest = max(self._largest, self._size)
            self._own = bytearray()
            self._size = self._used = 0

    def _cut(self, frames: list[bytes | memoryview]) -> None:
        """Hand out what is whole of the shared buffer, and move the rest to where it can become so."""
        at, end = 0, self._used
        view = memoryview(self._shared)
        while end - at >= 4:
            size = _size(self._shared, at, self.max_frame)
            stop = at + 4 + size
            if stop > end:
                if 4 + size > len(self._shared):
                    self._begin(size, view[at + 4 : end])
                    return
                break
            frames.append(bytes(view[at + 4 : stop]))
            at = stop
        if at:
            rest = bytes(view[at:end])
            self._shared[: len(rest)] = rest
            self._used = len(rest)

    def _begin(self, size: int, start: memoryview) -> None:
        """Give a frame memory of its own; it begins with what has arrived of it."""
        self._size = size
        self._used = len(start)
        self._own = bytearray(min(size, max(2 * self._used, _ROOM, self._largest)))
        self._own[: self._used] = start


def _size(data: bytes | bytearray, at: int, max_frame: int) -> int:
    """The size of the frame that begins here, if it can be one."""
    size: int = _SIZE.unpack_from(data, at)[0]
    if 0 <= size <= max_frame:
        return size
    head = bytes(data[at : at + 4])
    stranger = _STRANGERS.get(head[:2]) or _STRANGERS.get(head)
    reason = f"this looks like {stranger}" if stranger else f"the limit is {max_frame}"
    raise ProtocolError(f"a frame of {size} bytes is refused; {reason}", offset=at)


class RequestFrame(NamedTuple):
    """A request as it came: its API, its header, and the body if it could be read."""

    api: ApiKey
    header: RequestHeader
    request: Request


def encode_request(
    request: Request, version: int, *, correlation_id: int, client_id: str | None
) -> bytes:
    """A whole frame: size, header, body."""
    api = _APIS[type(request).__key__]
    header = RequestHeader(
        request_api_key=api,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    return frame(encode(header, _request_header_version(api, version)) + encode(request, version))


def decode_request_header(data: bytes) -> tuple[ApiKey, RequestHeader, int]:
    """The API, the header and the offset of the body.

    The version in the header may be one that is not served: the caller decides what to answer (for
    ApiVersions there is an answer, KIP-511), so that only an unknown API is an error here.
    """
    key, version = _REQUEST_START.unpack_from(data.ljust(_REQUEST_START.size, b"\0"))
    api = _APIS.get(key)
    if api is None:
        raise ProtocolError(
            f"API key {key} is not known",
            message="RequestHeader",
            field="request_api_key",
            offset=0,
        )
    header, at = decode_prefix(RequestHeader, data, _request_header_version(api, version))
    return api, header, at


def decode_request(data: bytes) -> RequestFrame:
    """A frame's header and request; bytes after the request are ignored, as Kafka does."""
    api, header, at = decode_request_header(data)
    version = header.request_api_version
    if version not in api.versions:
        raise ProtocolError(
            f"{api.api_name} has versions {api.versions}, and {version} is not one of them",
            message="RequestHeader",
            field="request_api_version",
            offset=2,
        )
    request, _ = decode_prefix(api.request, data, version, offset=at)
    return RequestFrame(api, header, request)


def encode_response(response: Response, version: int, *, correlation_id: int) -> bytes:
    """A whole frame: size, header, body."""
    api = _APIS[type(response).__key__]
    return frame_response(api, encode(response, version), version, correlation_id=correlation_id)


def frame_response(api: ApiKey, body: bytes, version: int, *, correlation_id: int) -> bytes:
    """A whole frame around a response that is bytes already."""
    if _response_header_version(api, version):
        return _RESPONSE_START_TAGGED.pack(len(body) + 5, correlation_id, 0) + body
    return _RESPONSE_START.pack(len(body) + 4, correlation_id) + body


def decode_response(api: ApiKey, version: int, data: bytes | memoryview) -> tuple[int, Response]:
    """The correlation id and the response in a frame."""
    header, at = decode_prefix(ResponseHeader, data, _response_header_version(api, version))
    response, _ = decode_prefix(api.response, data, version, offset=at)
    return header.correlation_id, response


class _Pending(NamedTuple):
    correlation_id: int
    request: Request
    version: int

    @property
    def api(self) -> ApiKey:
        return _APIS[self.request.__key__]


class InFlight:
    """The requests of one connection that wait for an answer. Kafka answers in order; we insist on it."""

    def __init__(self, client_id: str | None = None) -> None:
        self.client_id = client_id
        self._pending: deque[_Pending] = deque()
        self._next_id = 0
        #: Lists of groups by what was asked for.
        self._lists: dict[tuple[Request, int], RepeatedList[Response]] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def send(self, request: Request, version: int) -> tuple[int, bytes]:
        """The frame to write, and the correlation id by which the answer will be known."""
        correlation_id = self._next_id
        data = encode_request(
            request, version, correlation_id=correlation_id, client_id=self.client_id
        )
        self._next_id = (correlation_id + 1) & 0x7FFFFFFF
        self._pending.append(_Pending(correlation_id, request, version))
        return correlation_id, data

    def receive(self, data: bytes | memoryview) -> tuple[int, Response]:
        """The answer in a frame. After a ProtocolError the connection is of no further use.

        Bytes in an answer are slices of the frame: of a view they are views.
        """
        if not self._pending:
            raise ProtocolError("a response came that nothing had asked for")
        expected = self._pending[0]
        found = int.from_bytes(data[:4], "big", signed=True)
        if found != expected.correlation_id:
            raise ProtocolError(
                f"a response has correlation id {found} where {expected.correlation_id} "
                f"({expected.api.api_name}) was due"
            )
        response = self._decode(expected, data)
        self._pending.popleft()
        return found, response

    def _decode(self, expected: _Pending, data: bytes | memoryview) -> Response:
        api, version = expected.api, expected.version
        if api is not ApiKey.LIST_GROUPS:
            return decode_response(api, version, data)[1]
        # Who watches a cluster gets nearly the same thousands of groups again and again.
        asked = (expected.request, version)
        listed = recent(self._lists, asked, lambda: RepeatedList(api.response, version))
        _, at = decode_prefix(ResponseHeader, data, _response_header_version(api, version))
        return listed.decode(bytes(data[at:]))
