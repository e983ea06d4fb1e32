"""Connections: strangers, garbage, cancelled calls, hooks; one bad connection is not the client's end."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator, Iterator
from typing import Any

import pytest

from coterie.client import AdminClient, To, TopicPartition
from coterie.client.connection import RequestNote
from coterie.errors import BrokerUnreachable, CoterieError, DeadlineExceeded, ProtocolError
from coterie.protocol.frames import encode_response
from coterie.protocol.messages.groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsResponse,
)
from coterie.testing import EmbeddedCluster
from tests.integration.client.talk import ScriptedBroker, played, run

GROUPS = [f"group-{number}" for number in range(6)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3) as running:
        for group in GROUPS:
            running.scene("empty_group", group)
        yield running


# -- what is not a broker ---------------------------------------------------------------------------------


def stranger(says: bytes) -> Callable[[], Coroutine[Any, Any, CoterieError]]:
    async def scene() -> CoterieError:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(10)
            writer.write(says)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, AdminClient(bootstrap_servers=f"127.0.0.1:{port}") as admin:
            with pytest.raises(CoterieError) as caught:
                await admin.list_groups()
        await asyncio.sleep(0.01)
        return caught.value

    return scene


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "an HTTP response"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "TLS"),
        (b"", "hung up before it said which versions"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "check the port"),
    ],
)
def test_a_stranger_is_named_at_once(says: bytes, expected: str) -> None:
    error = run(stranger(says)())
    assert expected in str(error)
    assert "127.0.0.1:" in str(error)
    # At once: waiting for a better answer would end in this one.
    assert not isinstance(error, DeadlineExceeded)


def test_nobody_listens() -> None:
    async def scene() -> None:
        async with AdminClient(bootstrap_servers="127.0.0.1:1") as admin:
            with pytest.raises(BrokerUnreachable, match=r"127\.0\.0\.1:1: connection refused"):
                await admin.list_groups()

    run(scene())


def test_a_name_that_is_not_known() -> None:
    async def scene() -> None:
        async with AdminClient(bootstrap_servers="no-such-host.invalid:9092") as admin:
            with pytest.raises(BrokerUnreachable, match=r"no-such-host.invalid:9092: the name"):
                await admin.list_groups()

    run(scene())


def test_a_silent_bootstrap_server_is_passed_over(cluster: EmbeddedCluster) -> None:
    async def scene() -> None:
        writers: list[asyncio.StreamWriter] = []
        quiet = await asyncio.start_server(lambda _, w: writers.append(w), "127.0.0.1", 0)
        port = quiet.sockets[0].getsockname()[1]
        servers = f"127.0.0.1:{port},{cluster.bootstrap_servers}"
        async with quiet, AdminClient(bootstrap_servers=servers) as admin:
            # Less than it takes until a connection is given up.
            assert (await admin.list_groups(timeout=9)).complete
            # From Python 3.12 on, a server waits for its connections when it is closed.
            for writer in writers:
                writer.close()

    run(scene())


# -- garbage ----------------------------------------------------------------------------------------------


def _good(request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=tuple(DescribedGroup(group_id=each) for each in request.groups)
    )


GARBAGE = {
    "another correlation id": encode_response(DescribeGroupsResponse(), 6, correlation_id=77),
    "another API": encode_response(ListGroupsResponse(error_code=9), 5, correlation_id=1)[:9]
    + b"\xff" * 6,
    "a frame too large": b"\x7f\xff\xff\xff",
    "a negative size": b"\xff\xff\xff\xff",
    "a truncated message": b"\x00\x00\x00\x06\x00\x00\x00\x01\x00\x00",
    "noise": bytes(range(251, 199, -1)),
    "two answers": 2 * encode_response(DescribeGroupsResponse(), 6, correlation_id=1),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_ends_the_connection_and_the_next_call_gets_a_new_one(kind: str) -> None:
    async def scene() -> None:
        broker = ScriptedBroker(DescribeGroups=_good)
        async with broker, AdminClient(bootstrap_servers=broker.address) as admin:
            await admin.find_coordinators(["a"])
            broker.handlers["DescribeGroups"] = lambda _: GARBAGE[kind]
            calls = [admin.describe_groups(["a"], timeout=5) for _ in range(3)]
            for answer in await asyncio.gather(*calls):
                assert not answer.complete
                error = answer.errors["a"]
                assert isinstance(error, ProtocolError) or "leaves it out" in str(error)
            broker.handlers["DescribeGroups"] = _good
            assert (await admin.describe_groups(["a"], timeout=5)).complete
            assert broker.connections == 2

    run(scene())


def test_a_request_that_takes_too_long_ends_its_connection() -> None:
    async def scene() -> None:
        broker = ScriptedBroker(DescribeGroups=lambda _: None)
        async with (
            broker,
            AdminClient(bootstrap_servers=broker.address, request_timeout_ms=200) as admin,
        ):
            call = asyncio.ensure_future(admin.describe_groups(["a"], timeout=10))
            await asyncio.sleep(0.1)
            broker.handlers["DescribeGroups"] = _good
            assert (await call).complete
            assert broker.connections == 2

    run(scene())


def test_garbage_from_one_broker_is_that_brokers_error() -> None:
    async def scene() -> None:
        async with (
            ScriptedBroker(1, ListGroups=lambda _: ListGroupsResponse()) as one,
            ScriptedBroker(2, ListGroups=lambda _: b"\xff" * 8) as two,
            AdminClient(bootstrap_servers=one.address) as admin,
        ):
            one.peers = [one, two]
            listed = await admin.list_groups()
            assert [each.node_id for each in listed.broker_errors] == [2]

    run(scene())


# -- cancelling -------------------------------------------------------------------------------------------


@types.coroutine
def cancelled_at(step: int, work: Coroutine[Any, Any, Any]) -> Generator[Any, Any, bool]:
    """Run a coroutine and cancel it at its nth await; False if it ended before that."""
    task = asyncio.current_task()
    assert task is not None
    sent: Any = None
    seen = 0
    try:
        while True:
            waiting = work.send(sent)
            if seen == step:
                task.cancel()
            seen += 1
            try:
                sent = yield waiting
            except BaseException as error:  # noqa: BLE001 - handed on to whom it is meant for
                waiting = work.throw(error)
                sent = yield waiting
    except StopIteration:
        return False
    except asyncio.CancelledError:
        task.uncancel()
        return True


async def read_log(admin: AdminClient) -> None:
    """Read the offsets topic to its end; whoever is cancelled leaves the block, and with it the reading."""
    spans = {TopicPartition("__consumer_offsets", index): (None, None) for index in range(50)}
    async with admin.fetch(spans) as reading:
        async for _ in reading:
            pass


CALLS: dict[str, Callable[[AdminClient], Coroutine[Any, Any, Any]]] = {
    "list": lambda admin: admin.list_groups(),
    "describe": lambda admin: admin.describe_groups(GROUPS),
    "find": lambda admin: admin.find_coordinators(GROUPS),
    "offsets": lambda admin: admin.list_offsets(GROUPS),
    "lag": lambda admin: admin.lag(GROUPS),
    "delete": lambda admin: admin.delete_groups(["missing"]),
    "plan": lambda admin: admin.plan_reset(GROUPS[0], To.earliest()),
    "topics": lambda admin: admin.describe_topics(["orders"]),
    "logs": lambda admin: admin.log_offsets([TopicPartition("orders", 0)]),
    "deep": lambda admin: admin.describe_groups(GROUPS, deep=True),
    "fetch": read_log,
}


@pytest.mark.parametrize("name", CALLS)
def test_every_await_cancelled_once(cluster: EmbeddedCluster, name: str) -> None:
    async def attempt(step: int) -> bool:
        async with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            stopped = await cancelled_at(step, CALLS[name](admin))
            # Whatever was under way, the client is as good as new.
            described = await admin.describe_groups(GROUPS)
            assert described.complete
            assert list(described.items) == GROUPS
            return stopped

    step = 0
    while run(attempt(step)):
        step += 1
        assert step < 200
    assert step > 0


@pytest.mark.parametrize("name", CALLS)
def test_cancelled_at_any_turn_of_the_loop(cluster: EmbeddedCluster, name: str) -> None:
    """The awaits of the tasks inside, too: cancelled after so many turns, cold and warm."""

    async def scene() -> None:
        async with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            for turns in range(60):
                task = asyncio.ensure_future(CALLS[name](admin))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                if not task.cancelled():
                    task.result()
            assert list((await admin.describe_groups(GROUPS)).items) == GROUPS

    run(scene())


def test_a_cancelled_call_leaves_the_connection_in_step(cluster: EmbeddedCluster) -> None:
    cluster.inject("DescribeGroups", delay_ms=200, times=3)

    async def scene(admin: AdminClient) -> None:
        await admin.find_coordinators(GROUPS)
        slow = asyncio.ensure_future(admin.describe_groups(GROUPS[:3]))
        await asyncio.sleep(0.05)
        slow.cancel()
        others = await asyncio.gather(*(admin.describe_groups([group]) for group in GROUPS))
        assert [list(each.items) for each in others] == [[group] for group in GROUPS]
        assert slow.cancelled()

    played(cluster, scene)


# -- the rest ---------------------------------------------------------------------------------------------


@pytest.mark.breaks("I9", reason="a user's hook raises, which is logged and goes no further")
def test_whoever_watches_is_told_each_request_and_cannot_break_it(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    notes: list[RequestNote] = []

    def watch(note: RequestNote) -> None:
        notes.append(note)
        raise RuntimeError("the watcher is broken")

    async def scene(admin: AdminClient) -> None:
        assert (await admin.list_groups()).complete

    played(cluster, scene, on_request=watch)
    listing = [note for note in notes if note.api == "ListGroups"]
    assert len(listing) == 3
    assert {note.version for note in listing} == {5}
    assert all(n.sent_bytes and n.received_bytes and n.milliseconds > 0 for n in listing)
    assert "the hook for requests failed" in caplog.text


def test_a_closed_client_says_so(cluster: EmbeddedCluster) -> None:
    async def scene() -> None:
        admin = AdminClient(bootstrap_servers=cluster.bootstrap_servers)
        await admin.list_groups()
        await admin.close()
        with pytest.raises(CoterieError, match="the client is closed"):
            await admin.list_groups(timeout=0.3)

    run(scene())
