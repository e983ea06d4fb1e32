"""The two questions the kit asks a broker, in bytes made by hand.

What this is: ApiVersions v0, Metadata v1 and the frame around them over a plain blocking socket.
It shares no code with src/coterie on purpose: what judges an implementation must not be built
on it.
What this is not: a Kafka client.
Who calls it: tests/kit/kafka.py to learn when a broker answers, and tests that compare versions.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

API_METADATA = 3
API_FIND_COORDINATOR = 10
API_LIST_GROUPS = 16
API_API_VERSIONS = 18

Address = tuple[str, int]


class ProbeError(Exception):
    """The broker did not give a well-formed answer (yet)."""


@dataclass(frozen=True)
class ClusterView:
    """What one broker says the cluster is."""

    brokers: dict[int, Address]
    controller_id: int


def exchange(address: Address, api_key: int, version: int, body: bytes, timeout: float) -> bytes:
    """Send one request with header v1 and no client id; returns the response after its header."""
    correlation_id = 0x0C07E81E
    request = struct.pack(">hhih", api_key, version, correlation_id, -1) + body
    try:
        with socket.create_connection(address, timeout) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", _receive(connection, 4))
            response = _receive(connection, size)
    except OSError as error:
        raise ProbeError(f"{address[0]}:{address[1]}: {error}") from error
    if struct.unpack_from(">i", response)[0] != correlation_id:
        raise ProbeError(f"{address[0]}:{address[1]}: a response to some other request")
    return response[4:]


def api_versions(address: Address, timeout: float = 5.0) -> dict[int, tuple[int, int]]:
    """ApiVersions v0: for each API key, the lowest and the highest version the broker takes."""
    response = exchange(address, API_API_VERSIONS, 0, b"", timeout)
    error_code, count = struct.unpack_from(">hi", response)
    if error_code != 0:
        raise ProbeError(f"{address[0]}:{address[1]}: ApiVersions error code {error_code}")
    rows = struct.iter_unpack(">hhh", response[6 : 6 + 6 * count])
    return {key: (lowest, highest) for key, lowest, highest in rows}


def cluster_view(address: Address, timeout: float = 5.0) -> ClusterView:
    """Metadata v1 about no topic: the registered brokers and the controller."""
    response = exchange(address, API_METADATA, 1, struct.pack(">i", 0), timeout)
    (count,) = struct.unpack_from(">i", response)
    at = 4
    brokers: dict[int, Address] = {}
    for _ in range(count):
        (node_id,) = struct.unpack_from(">i", response, at)
        host, at = _string(response, at + 4)
        (port,) = struct.unpack_from(">i", response, at)
        _rack, at = _string(response, at + 4)
        brokers[node_id] = (host, port)
    (controller_id,) = struct.unpack_from(">i", response, at)
    return ClusterView(brokers, controller_id)


def _string(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, at)
    at += 2
    if length < 0:
        return "", at
    return data[at : at + length].decode(), at + length


def _receive(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionError("closed in the middle of a response")
        parts += part
    return bytes(parts)
