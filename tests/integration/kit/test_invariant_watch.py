"""Each of the twelve promises, broken on purpose: the watch that stands for it says so, by its number."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import time
from pathlib import Path

import pytest
from aiokafka.errors import KafkaConnectionError

from coterie.client.results import BrokerFailure, GroupChange, GroupListing, Result, TopicPartition
from coterie.coordinator import Outcome
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.offsets import Offsets
from coterie.error_codes import ErrorCode
from coterie.errors import CoterieError
from coterie.protocol.group_records.classic import OffsetCommitKey, OffsetCommitValue
from coterie.protocol.messages.cluster import MetadataResponse, MetadataResponseBroker
from coterie.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from coterie.protocol.messages.groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from coterie.protocol.messages.membership import (
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from coterie.server.clock import SystemClock
from coterie.server.partitions.housekeeping import keep_house
from coterie.server.requests.calls import Slot
from coterie.server.settings.config import ServerConfig
from coterie.testing import AsyncEmbeddedCluster
from coterie.testing.scenes import Member
from tests.kit.broken_promises import BrokenPromises
from tests.kit.client_watch import Heard, check_answer, check_list
from tests.kit.coordinator_watch import COORDINATORS
from tests.kit.expected_errors import check_errors
from tests.kit.invariant_watch import check_memory
from tests.kit.invariants import CommitLedger
from tests.kit.log_watch import LogWatch, tracebacks
from tests.kit.secret_watch import MARKER, leaks
from tests.kit.server_watch import WORK, AnswerWatch, ServerWatch
from tests.kit.shard_history import ShardHistory
from tests.unit.coordinator.driver import Driver

on_purpose = pytest.mark.breaks(
    *(f"I{number}" for number in range(1, 13)), reason="to see that the watch finds it"
)


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def broken() -> BrokenPromises:
    return BrokenPromises()


def history(driver: Driver) -> ShardHistory:
    """What the watch has seen of the driver's shard."""
    return COORDINATORS.history(driver.shard)


# The coordinator


@on_purpose
def test_i1_a_commit_that_is_lost(driver: Driver) -> None:
    driver.commit(7)
    history(driver).check()
    driver.shard._state.offsets["group"]["orders"].clear()
    with pytest.raises(AssertionError, match=r"I1: \('group', 'orders', 0\) .* as 7 and is gone"):
        history(driver).check()


@on_purpose
def test_i1_a_commit_that_the_next_coordinator_does_not_find(driver: Driver) -> None:
    driver.commit(7)
    before = history(driver)
    driver.log.clear()
    driver.restart()
    with pytest.raises(AssertionError, match=r"I1: .* committed as 7 and is gone"):
        history(driver).look(before)


@on_purpose
def test_i2_a_deleted_group_whose_offset_is_back(driver: Driver) -> None:
    driver.commit(7)
    (record,) = driver.written()
    driver.delete_groups("group")
    history(driver).check()
    driver.shard._state.replay(*record)
    with pytest.raises(AssertionError, match=r"I2, I3: .* has 7, deleted or never committed"):
        history(driver).check()


@on_purpose
def test_i3_an_offset_that_nobody_sent(driver: Driver) -> None:
    driver.commit(7)
    driver.shard._state.replay(OffsetCommitKey("group", "orders", 1), OffsetCommitValue(0))
    with pytest.raises(AssertionError, match=r"I2, I3: \('group', 'orders', 1\) has 0"):
        history(driver).check()


def test_i3_of_transactions_the_last_commit_shows() -> None:
    ledger = CommitLedger()
    ledger.pending(1, "place", 1)
    ledger.pending(2, "place", 2)
    ledger.committed("other", 3)
    ledger.ended(2, commit=True)
    ledger.ended(1, commit=True)
    ledger.check({"place": 2, "other": 3})
    with pytest.raises(AssertionError, match=r"I1, I3: place was committed as 2 and has 1"):
        ledger.check({"place": 1, "other": 3})


@on_purpose
def test_i4_a_state_that_the_log_does_not_have(driver: Driver) -> None:
    driver.form()
    history(driver).check()
    driver.group("group").consumer_commits = True
    with pytest.raises(AssertionError, match=r"I4: the live state is not what the log replays to"):
        history(driver).check()


@on_purpose
def test_i5_a_commit_of_an_old_generation(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    (member,) = driver.form()
    driver.form()
    monkeypatch.setattr(Offsets, "_commit_error", lambda *_: ErrorCode.NONE)
    monkeypatch.setattr(COORDINATORS, "_broken", BrokenPromises())
    with pytest.raises(AssertionError, match=r"I5: group is in 2 and let 1 act"):
        driver.commit_as(member)


@on_purpose
def test_i5_a_generation_that_a_restart_has_lost(driver: Driver) -> None:
    driver.form()
    written = len(driver.log)
    driver.form()
    before = history(driver)
    del driver.log[written:]
    driver.restart()
    with pytest.raises(AssertionError, match=r"I5: group went from 2 back to 1"):
        history(driver).look(before)


@on_purpose
def test_i6_an_assignment_that_the_leader_did_not_make(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    (member,) = driver.form()
    wrong = SyncGroupResponse(assignment=b"another's")
    monkeypatch.setattr("coterie.coordinator.membership.synced", lambda *_: wrong)
    monkeypatch.setattr(COORDINATORS, "_broken", BrokenPromises())
    again = SyncGroupRequest(
        group_id="group", generation_id=member.generation_id, member_id=member.member_id
    )
    with pytest.raises(AssertionError, match=r"I6: .* got b.another.s., not"):
        driver.request(again, 3)


@on_purpose
def test_i6_a_partition_with_two_owners(driver: Driver) -> None:
    for name in ("one", "two"):
        joins = ConsumerGroupHeartbeatRequest(
            group_id="group",
            member_id=name,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=("orders",),
            topic_partitions=(),
        )
        driver.send(joins, 1)
    group = driver.shard._state.groups["group"]
    assert isinstance(group, ConsumerGroup)
    history(driver).check()
    group.members["two"] = group.members["one"]
    with pytest.raises(AssertionError, match=r"I6: two members own a partition"):
        history(driver).check()


@on_purpose
def test_i7_a_parked_request_that_is_answered_twice_or_too_late(driver: Driver) -> None:
    token = driver.park(driver.join_request(), 3)
    with pytest.raises(AssertionError, match=r"I7: .* overdue"):
        history(driver).passed(driver.monotonic + 3_600)
    driver.advance(3)
    answer = driver.take(token, JoinGroupResponse)
    with pytest.raises(AssertionError, match=r"I7: .* answered twice, or never parked"):
        history(driver).expired(Outcome(released=((token, answer),)))


@on_purpose
def test_i7_a_request_that_a_lost_shard_forgets(driver: Driver) -> None:
    driver.park(driver.join_request(), 3)
    with pytest.raises(AssertionError, match=r"I7: 1 requests wait in a shard that is gone"):
        history(driver).unloaded(())


# The server


def frame(correlation_id: bytes) -> bytes:
    return len(correlation_id).to_bytes(4, "big") + correlation_id


class FakeConnection:
    """Something that sends answers."""


def ask(watch: AnswerWatch, connection: FakeConnection, correlation_id: bytes) -> Slot:
    slot = Slot()
    watch.request(connection, slot, int.from_bytes(correlation_id, "big"))
    return slot


def test_i7_a_request_that_the_server_answers_twice(broken: BrokenPromises) -> None:
    watch, connection = AnswerWatch(broken), FakeConnection()
    slot = ask(watch, connection, b"0001")
    watch.answer(slot, frame(b"0001"))
    assert broken.take() == []
    watch.answer(slot, frame(b"0001"))
    assert broken.take() == ["I7: request b'0001' was answered twice"]
    watch.sent(connection, frame(b"0001"))
    watch.answer(slot, frame(b"0001"))
    assert broken.take() == ["I7: a request was answered twice, or never received"]


def test_i8_answers_in_another_order(broken: BrokenPromises) -> None:
    watch, connection = AnswerWatch(broken), FakeConnection()
    places = [ask(watch, connection, each) for each in (b"0001", b"0002", b"0003", b"0004")]
    for place, answer in ((1, frame(b"0002")), (0, b""), (2, frame(b"0003"))):
        watch.answer(places[place], answer)  # the empty one is for Produce with acks 0
    watch.sent(connection, frame(b"0002") + frame(b"0003"))
    assert broken.take() == []
    watch.answer(places[3], frame(b"0005"))
    watch.sent(connection, frame(b"0005"))
    assert broken.take() == ["I8: b'0004' is to be answered, and b'0005' was"]


def test_i9_an_error_that_the_api_does_not_have() -> None:
    check_errors(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED))
    with pytest.raises(
        AssertionError, match=r"I9: JoinGroupResponse says -1, UNKNOWN_SERVER_ERROR"
    ):
        check_errors(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))


def test_i9_an_exception_that_nobody_expected(broken: BrokenPromises) -> None:
    watch = LogWatch(broken)
    trouble = ZeroDivisionError()
    log = logging.getLogger("elsewhere")
    for text, error in (("the disk is full", None), ("broker 1 failed", trouble)):
        info = None if error is None else (type(error), error, None)
        watch.handle(log.makeRecord("coterie.server", logging.ERROR, "", 0, text, (), info))
    assert broken.take() == ["I9: coterie.server logged ZeroDivisionError: broker 1 failed"]


def test_i9_is_not_about_the_tasks_of_stock_clients(broken: BrokenPromises) -> None:
    watch = LogWatch(broken)
    log = logging.getLogger("elsewhere")
    lost = KafkaConnectionError()
    for name, error in (("asyncio", lost), ("asyncio", OSError()), ("coterie.server", lost)):
        text, info = "Future exception was never retrieved", (type(error), error, None)
        watch.handle(log.makeRecord(name, logging.ERROR, "", 0, text, (), info))
    said = "logged {}: Future exception was never retrieved"
    assert broken.take() == [
        f"I9: asyncio {said.format('OSError')}",
        f"I9: coterie.server {said.format('KafkaConnectionError')}",
    ]


def test_i10_collections_of_garbage_are_no_work_of_the_server() -> None:
    counted, in_all = WORK.seconds(), time.thread_time()
    gc.collect()
    assert WORK.seconds() - counted < time.thread_time() - in_all


def test_i9_a_process_that_prints_a_traceback() -> None:
    text = "started\nTraceback (most recent call last):\n  File ...\nKeyError: 1\n"
    sections = [("Captured stderr call", text), ("Captured log call", text)]
    assert tracebacks(sections, "call") == ["Captured stderr call"]


@on_purpose
def test_i10_more_than_a_connection_may_keep(broken: BrokenPromises) -> None:
    watch = ServerWatch(COORDINATORS, broken)

    async def scene() -> None:
        async with AsyncEmbeddedCluster() as cluster:
            (broker,) = cluster.cluster.brokers.values()
            member = Member("group", "orders", "client")
            await member.connect(*broker.address)
            await member.ask(ListGroupsRequest(), ListGroupsResponse)
            await watch.check_running(cluster.cluster)
            assert broken.take() == []
            (connection,) = broker.connections
            for _ in range(broker.config.max_in_flight + 1):
                connection._slots.open()
            await watch.check_running(cluster.cluster)
            await watch.check_stopped([broker])
            await member.leave()

    asyncio.run(scene())
    most, left, *_ = broken.take()
    assert most.endswith("requests of one connection are under way")
    assert left == "I7, I10: a stopped broker has 1 connections"


def test_i10_a_task_that_a_cluster_leaves_behind(broken: BrokenPromises) -> None:
    async def scene() -> None:
        task = asyncio.get_running_loop().create_task(keep_house([], SystemClock(), ServerConfig))
        await ServerWatch(COORDINATORS, broken).check_stopped([])
        task.cancel()

    asyncio.run(scene())
    (left,) = broken.take()
    assert left.startswith("I10: a stopped cluster has left a task: <coroutine object keep_house")


def test_i10_more_memory_than_one_client_may_take(broken: BrokenPromises) -> None:
    check_memory(1_000_000, 1_100_000, broken)
    assert broken.take() == []
    check_memory(1_000_000, 2_000_000, broken)
    assert broken.take() == ["I10: the test took 976 MiB of memory"]


def test_i10_a_client_that_holds_up_the_loop(broken: BrokenPromises) -> None:
    watch = ServerWatch(COORDINATORS, broken)
    watch.check_turn(0.1)
    assert broken.take() == []
    watch.check_turn(1.5)
    assert broken.take() == ["I10: one read of one connection took 1.5 s of work"]


def test_i11_a_secret_in_what_a_test_prints() -> None:
    sections = [("Captured stdout call", f"password=p{MARKER}"), ("Captured log call", "none")]
    assert leaks(sections, "call") == ["Captured stdout call"]


# The client

BROKER_IS_GONE = CoterieError("no answer")


def test_i12_an_answer_that_leaves_something_out() -> None:
    check_answer(["a", "b"], Result({"a": 1}, {"b": BROKER_IS_GONE}))
    with pytest.raises(AssertionError, match=r"I12: {'b'} are in no answer and no error"):
        check_answer(["a", "b"], Result({"a": 1}))
    with pytest.raises(AssertionError, match=r"I12: nobody asked about {'c'}"):
        check_answer(["a"], Result({"a": 1, "c": 1}))
    with pytest.raises(AssertionError, match=r"I12: {'a'} have an answer and an error"):
        check_answer(["a"], Result({"a": 1}, {"a": BROKER_IS_GONE}))
    first, second = TopicPartition("orders", 0), TopicPartition("orders", 1)
    with pytest.raises(AssertionError, match=r"I12: {.*partition=1\)} of g are in no answer"):
        check_answer({"g": [first, second]}, Result({"g": GroupChange("g", (first,))}))


class Pretender(Result[str, int], frozen=True):
    """An answer that calls itself complete."""

    complete = True


@pytest.mark.parametrize(
    "result",
    [
        Pretender({"g": 1}, {"h": BROKER_IS_GONE}),
        Pretender({"g": 1}, {}, (BrokerFailure(2, "two:9092", "no answer"),)),
        Pretender({"g": GroupChange("g", (), {TopicPartition("orders", 0): "no"})}),  # type: ignore[dict-item]
    ],
)
def test_i12_a_partial_answer_that_is_called_complete(result: Result[str, int]) -> None:
    with pytest.raises(AssertionError, match=r"I12: .* is called complete"):
        check_answer(None, result)


def test_i12_a_list_without_a_broker_or_a_group() -> None:
    brokers = tuple(MetadataResponseBroker(each, "localhost", each) for each in (1, 2))
    metadata = Heard("localhost:1", MetadataResponse(brokers=brokers))
    lists = [
        Heard(f"localhost:{each}", ListGroupsResponse(groups=(ListedGroup(name, "consumer"),)))
        for each, name in ((1, "a"), (2, "b"))
    ]
    items = {name: GroupListing(name, "consumer", None, None, 1) for name in ("a", "b")}
    both = Result(items)
    check_list(both, [*lists, metadata], None)
    check_list(Result({}), [*lists, metadata], {"connect"})
    with pytest.raises(AssertionError, match=r"I12: a list without {'localhost:2'} is called"):
        check_list(Result({"a": items["a"]}), [lists[0], metadata], None)
    with pytest.raises(AssertionError, match=r"I12: a list without {'b'} is called complete"):
        check_list(Result({"a": items["a"]}), [*lists, metadata], None)
    with pytest.raises(AssertionError, match=r"I12: no broker has listed {'b'}"):
        check_list(both, [lists[0], metadata], None)


# The plugin

_TESTS = """
import pytest
from tests.kit.broken_promises import BROKEN

def test_that_breaks_one():
    BROKEN.add("I4: on purpose")

@pytest.mark.breaks("I4", reason="on purpose")
def test_that_says_so():
    BROKEN.add("I4: on purpose")

@pytest.mark.breaks("I4", reason="on purpose")
def test_that_breaks_another():
    BROKEN.add("I5: on purpose")

def test_that_breaks_none():
    pass
"""


def test_the_plugin_fails_the_test_that_broke_a_promise(tmp_path: Path) -> None:
    (tmp_path / "test_promises.py").write_text(_TESTS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.kit.invariant_watch"]
    command += ["-p", "no:randomly", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    here = Path(__file__).parents[3]
    done = subprocess.run(
        [*command, str(tmp_path)],
        cwd=here,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "4 passed, 2 errors" in done.stdout, done.stdout + done.stderr
    assert "ERROR at teardown of test_that_breaks_one" in done.stdout
    assert "ERROR at teardown of test_that_breaks_another" in done.stdout
    assert "I5: on purpose" in done.stdout
