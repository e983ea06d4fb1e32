"""A server that is stopped, paused or fails inside (F29-F31)."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.groups import ListGroupsRequest, ListGroupsResponse
from coterie.protocol.messages.membership import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from coterie.testing import EmbeddedCluster
from tests.compat import setting
from tests.kit.wire_client import WireClient


@contextmanager
def running(
    *options: str, stderr: int | None = None
) -> Iterator[tuple[subprocess.Popen[str], str, int]]:
    command = [str(Path(sys.executable).parent / "coterie"), "server", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as process:
        try:
            assert process.stdout is not None
            host, port = process.stdout.readline().split()[3].split(":")
            yield process, host, int(port)
        finally:
            process.kill()


def test_f29_sigterm_answers_parked_joins_and_ends_with_0() -> None:
    options = ("--memory", "--set", "group.initial.rebalance.delay.ms=60000")
    with running(*options) as (process, host, port), WireClient(host, port) as client:
        setting.find_coordinators(client, "parked")
        request = JoinGroupRequest(
            group_id="parked",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol("range", b""),),
        )
        _, data = client._in_flight.send(request, 3)
        client._socket.sendall(data)
        # A second request on the connection: when its answer is due, the first is parked.
        with WireClient(host, port) as other:
            other.ask(ListGroupsRequest(), ListGroupsResponse)
        process.send_signal(signal.SIGTERM)
        _, response = client._in_flight.receive(client._read_frame())
        assert getattr(response, "error_code", None) == ErrorCode.NOT_COORDINATOR
        process.communicate(timeout=5)
        assert process.returncode == 0


@pytest.mark.breaks("I9", reason="a handler fails, to see that the server lives")
def test_f30_a_handler_that_fails_answers_an_error_and_the_server_lives(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("on purpose")

    with EmbeddedCluster() as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        with WireClient(host, int(port)) as client:
            assert client.ask(ListGroupsRequest(), ListGroupsResponse).error_code == 0
            monkeypatch.setattr("coterie.server.group_service.GroupService.hosted", broken)
            answer = client.ask(ListGroupsRequest(), ListGroupsResponse)
            assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
            monkeypatch.undo()
            assert client.ask(ListGroupsRequest(), ListGroupsResponse).error_code == 0
    assert "failed on LIST_GROUPS" in caplog.text


def test_f31_a_pause_of_the_whole_process_counts_nobody_out() -> None:
    """Heartbeats that wait in the socket are heard before sessions are judged."""
    options = (
        "--set",
        "group.min.session.timeout.ms=300",
        "--set",
        "group.initial.rebalance.delay.ms=0",
    )
    with running("--memory", *options) as (process, host, port), WireClient(host, port) as client:
        setting.create_topic(client)
        setting.find_coordinators(client, "paused")
        member_id = join_with_short_session(client)
        os.kill(process.pid, signal.SIGSTOP)
        _, data = client._in_flight.send(HeartbeatRequest("paused", 1, member_id), 4)
        client._socket.sendall(data)
        # Longer than the session; the clock of the stopped process goes on.
        client._socket.settimeout(0.6)
        with pytest.raises(TimeoutError):
            client._socket.recv(1)
        client._socket.settimeout(30)
        os.kill(process.pid, signal.SIGCONT)
        _, response = client._in_flight.receive(client._read_frame())
        assert isinstance(response, HeartbeatResponse)
        assert response.error_code == ErrorCode.NONE


def join_with_short_session(client: WireClient) -> str:
    member_id = ""
    while True:
        request = JoinGroupRequest(
            group_id="paused",
            session_timeout_ms=400,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol("range", b""),),
        )
        joined = client.ask(request, JoinGroupResponse)
        member_id = joined.member_id
        if joined.error_code == ErrorCode.NONE:
            break
    sync = SyncGroupRequest("paused", joined.generation_id, member_id, None, "consumer", "range")
    assert client.ask(sync, SyncGroupResponse).error_code == ErrorCode.NONE
    return member_id


def test_f26_a_server_out_of_files_recovers_when_they_are_free_again() -> None:
    with running("--memory", stderr=subprocess.PIPE) as (process, host, port):
        assert process.stderr is not None
        held = [socket.create_connection((host, port), timeout=30) for _ in range(20)]
        _, most = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (8, most))
        # The kernel takes these; the server cannot accept them, and must not spin or end over it.
        more = [socket.create_connection((host, port), timeout=30) for _ in range(5)]
        said = iter(process.stderr.readline, "")
        told = next(line for line in said if "Too many open files" in line)
        assert " ERROR coterie.server: cannot accept connections: " in told
        assert "ulimit -n" in told
        for each in (*held, *more):
            each.close()
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (64, most))
        with WireClient(host, port) as client:
            assert client.ask(ListGroupsRequest(), ListGroupsResponse).error_code == 0
        process.terminate()
        assert "Traceback" not in process.stderr.read()


def test_f24_idle_connections_cost_the_active_one_nothing_but_memory() -> None:
    with EmbeddedCluster() as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        idle = [socket.create_connection((host, int(port)), timeout=30) for _ in range(400)]
        with WireClient(host, int(port)) as client:
            for _ in range(50):
                assert client.ask(ListGroupsRequest(), ListGroupsResponse).error_code == 0
        for each in idle:
            each.close()
