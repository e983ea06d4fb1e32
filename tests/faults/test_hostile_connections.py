"""Bad clients: what they send closes their connection, and nobody else notices (F01-F08, F16, F21-F27)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from coterie.protocol.codec import decode, encode
from coterie.protocol.frames import encode_request, frame
from coterie.protocol.messages.groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from coterie.protocol.messages.headers import RequestHeader
from coterie.protocol.messages.membership import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from coterie.protocol.messages.session import ApiVersionsRequest, ApiVersionsResponse
from coterie.testing import EmbeddedCluster
from tests.kit.wire_client import WireClient


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as running:
        yield running


@pytest.fixture
def bystander(cluster: EmbeddedCluster) -> Iterator[WireClient]:
    """A well-behaved client that was there before, and must still be served after."""
    with WireClient(*address(cluster)) as client:
        yield client
        assert client.ask(ListGroupsRequest(), ListGroupsResponse).error_code == 0


def address(cluster: EmbeddedCluster) -> tuple[str, int]:
    host, port = cluster.bootstrap_servers.split(":")
    return host, int(port)


def answer_to(cluster: EmbeddedCluster, data: bytes) -> bytes:
    """All that a server answers to some bytes until it closes the connection."""
    with socket.create_connection(address(cluster), timeout=30) as raw:
        raw.sendall(data)
        received = b""
        while chunk := raw.recv(65536):
            received += chunk
    return received


GOOD = encode_request(ListGroupsRequest(), 5, correlation_id=7, client_id="me")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(struct.pack(">i", -1), id="F01 negative size"),
        pytest.param(struct.pack(">i", -(2**31)), id="F01 smallest size"),
        pytest.param(struct.pack(">i", 104_857_601), id="F02 too large"),
        pytest.param(struct.pack(">i", 2**31 - 1), id="F02 largest size"),
        pytest.param(frame(b""), id="F03 empty frame"),
        pytest.param(frame(b"\0\x10\0"), id="F03 cut header"),
        pytest.param(frame(b"\xff\xff\0\0\0\0\0\1\xff\xff"), id="F06 api key -1"),
        pytest.param(frame(b"\x27\x0f\0\0\0\0\0\1\xff\xff"), id="F06 api key 9999"),
        pytest.param(frame(b"\0\x10\0\x63\0\0\0\1\xff\xff\0"), id="F07 version too high"),
        pytest.param(frame(b"\0\x08\0\0\0\0\0\1\xff\xff"), id="F07 version too low"),
        pytest.param(
            frame(b"\0\x2a\0\1\0\0\0\1\xff\xff\x7f\xff\xff\xff"), id="F08 array of two billion"
        ),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="F27 HTTP"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01", id="F27 TLS"),
    ],
)
def test_nonsense_closes_the_connection(
    cluster: EmbeddedCluster, bystander: WireClient, data: bytes
) -> None:
    assert answer_to(cluster, data) == b""


def test_f04_a_frame_cut_anywhere_changes_nothing(
    cluster: EmbeddedCluster, bystander: WireClient
) -> None:
    for end in range(len(GOOD)):
        with socket.create_connection(address(cluster)) as raw:
            raw.sendall(GOOD[:end])
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_f05_bytes_may_come_one_by_one_or_fifty_frames_at_once(cluster: EmbeddedCluster) -> None:
    with WireClient(*address(cluster)) as client:
        expected = client.ask(ListGroupsRequest(), ListGroupsResponse)
        _, data = client._in_flight.send(ListGroupsRequest(), 5)
        for i in range(len(data)):
            client._socket.sendall(data[i : i + 1])
        assert client._in_flight.receive(client._read_frame())[1] == expected
        sent = [client._in_flight.send(ListGroupsRequest(), 5) for _ in range(50)]
        client._socket.sendall(b"".join(data for _, data in sent))
        frames: list[bytes] = []
        while len(frames) < 50:
            frames += client._frames.feed(client._socket.recv(65536))
        assert [client._in_flight.receive(each) for each in frames] == [
            (correlation_id, expected) for correlation_id, _ in sent
        ]


def test_f22_a_peer_that_is_gone_without_a_word_leaves_its_group_and_its_socket() -> None:
    """One member is silent, the other waits in its join and then is silent too."""
    settings = {
        "group.min.session.timeout.ms": "1",
        "group.initial.rebalance.delay.ms": "0",
        "connections.max.idle.ms": "2000",
    }
    protocols = (JoinGroupRequestProtocol("range", b""),)
    join = JoinGroupRequest(
        group_id="gone",
        session_timeout_ms=300,
        rebalance_timeout_ms=300,
        protocol_type="consumer",
        protocols=protocols,
    )
    with (
        EmbeddedCluster(config=settings) as cluster,
        WireClient(*address(cluster)) as first,
        WireClient(*address(cluster)) as second,
    ):
        assert cluster.coordinator_of("gone") == 1
        # Version 3 needs no second join to learn its member id.
        member = first.ask(join, JoinGroupResponse, 3)
        first.ask(
            SyncGroupRequest(
                group_id="gone",
                generation_id=1,
                member_id=member.member_id,
                protocol_type="consumer",
            ),
            SyncGroupResponse,
            3,
        )
        assert second.ask(join, JoinGroupResponse, 3).generation_id == 2
        # The first was removed by its session; now the second says nothing more either.
        with pytest.raises(ConnectionError):
            second._read_frame()
        with pytest.raises(ConnectionError):
            first._read_frame()
        with WireClient(*address(cluster)) as bystander:
            (group,) = bystander.ask(
                DescribeGroupsRequest(groups=("gone",)), DescribeGroupsResponse
            ).groups
        assert (group.group_state, group.members) == ("Empty", ())


def test_f07_api_versions_from_the_future_is_answered_in_version_0(
    cluster: EmbeddedCluster,
) -> None:
    header = RequestHeader(18, 99, 5, "me")
    request = frame(encode(header, 2) + encode(ApiVersionsRequest("a", "1"), 4))
    with socket.create_connection(address(cluster), timeout=30) as raw:
        raw.sendall(request)
        size = struct.unpack(">i", raw.recv(4))[0]
        body = raw.recv(size)
        answer = decode(ApiVersionsResponse, body, 0, offset=4)
        assert body[:4] == struct.pack(">i", 5)
        assert answer.error_code == 35
        assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [
            (18, 0, 4)
        ]
        # The connection lives, and the client asks again in a version that is there.
        raw.sendall(
            encode_request(ApiVersionsRequest("a", "1"), 3, correlation_id=6, client_id="me")
        )
        assert raw.recv(4)


def test_f16_bytes_behind_a_request_are_tolerated(cluster: EmbeddedCluster) -> None:
    with socket.create_connection(address(cluster), timeout=30) as raw:
        raw.sendall(frame(GOOD[4:] + b"more"))
        assert raw.recv(8)[4:] == struct.pack(">i", 7)


def test_f21_a_frame_that_is_never_finished_ends(bystander: WireClient) -> None:
    with (
        EmbeddedCluster(config={"coterie.frame.deadline.ms": 100}) as strict,
        socket.create_connection(address(strict), timeout=30) as raw,
    ):
        raw.sendall(GOOD[:6])
        assert raw.recv(1) == b""


def test_idle_connections_end() -> None:
    with (
        EmbeddedCluster(config={"connections.max.idle.ms": 100}) as strict,
        socket.create_connection(address(strict), timeout=30) as raw,
    ):
        assert raw.recv(1) == b""


def test_f23_a_client_that_never_reads_is_cut_off_and_hurts_nobody() -> None:
    with EmbeddedCluster(config={"coterie.socket.write.buffer.max.bytes": 1_000}) as strict:
        for i in range(40):
            strict.scene("empty_group", f"a-group-with-a-long-name-to-fill-the-answers-{i}")
        with (
            WireClient(*address(strict)) as polite,
            socket.create_connection(address(strict), timeout=30) as raw,
        ):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            with pytest.raises(OSError, match=r"reset|Broken|timed out"):
                raw.sendall(GOOD * 1_000_000)
            assert polite.ask(ListGroupsRequest(), ListGroupsResponse).error_code == 0


def test_f25_too_many_connections_are_refused() -> None:
    with EmbeddedCluster(config={"max.connections": 3}) as strict:
        clients = [WireClient(*address(strict)) for _ in range(3)]
        with socket.create_connection(address(strict), timeout=30) as raw:
            assert raw.recv(1) == b""
        for client in clients:
            client.close()
    with (
        EmbeddedCluster(config={"max.connections.per.ip": 1}) as strict,
        WireClient(*address(strict)),
        socket.create_connection(address(strict), timeout=30) as raw,
    ):
        assert raw.recv(1) == b""


def test_f25_a_storm_of_connections_ends_with_its_second() -> None:
    """A hundred at once, of which five a second are served; whoever was there before notices nothing."""
    with (
        EmbeddedCluster(config={"max.connection.creation.rate": 5}) as strict,
        WireClient(*address(strict)) as bystander,
    ):
        links = [socket.create_connection(address(strict), timeout=30) for _ in range(100)]
        served = sum(answers(link) for link in links)
        assert 0 < served < 100
        assert bystander.ask(ListGroupsRequest(), ListGroupsResponse).error_code == 0
        while True:
            with socket.create_connection(address(strict), timeout=30) as later:
                if answers(later):
                    break


def answers(link: socket.socket) -> bool:
    """Whether a connection is served, or was closed instead."""
    with link:
        try:
            link.sendall(GOOD)
            return bool(link.recv(4))
        except ConnectionError:
            return False
