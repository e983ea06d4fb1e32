"""Error codes of every call about groups: those that pass are waited for, those that stay are told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coterie.client import AdminClient, Result, TopicPartition
from coterie.client.network import Deadline
from coterie.client.settings import ClientSettings
from coterie.error_codes import ErrorCode
from coterie.errors import (
    BrokerUnreachable,
    CoterieError,
    DeadlineExceeded,
    KafkaError,
    PartialAnswer,
    kafka_error,
)
from coterie.protocol.messages.cluster import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from coterie.protocol.messages.groups import (
    DeletableGroupResult,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsResponse,
)
from coterie.protocol.messages.membership import LeaveGroupResponse, MemberResponse
from coterie.protocol.messages.offsets import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from coterie.protocol.schema import Response
from tests.integration.client.talk import ScriptedBroker, run

ORDERS = TopicPartition("orders", 0)
LOADING, NOT_AVAILABLE, NOT_COORDINATOR, REBALANCING = 14, 15, 16, 27
INVALID_GROUP, UNKNOWN_MEMBER, UNAUTHORIZED, NOT_FOUND, STALE_EPOCH = 24, 25, 30, 69, 113

Answer = Callable[[int], Response]
ANSWERS: dict[str, Answer] = {
    "DescribeGroups": lambda code: DescribeGroupsResponse(
        groups=(DescribedGroup(code, None, "g", "Empty"),)
    ),
    "OffsetFetch": lambda code: OffsetFetchResponse(
        groups=(OffsetFetchResponseGroup("g", error_code=code),)
    ),
    "DeleteGroups": lambda code: DeleteGroupsResponse(results=(DeletableGroupResult("g", code),)),
    "OffsetCommit": lambda code: OffsetCommitResponse(
        topics=(
            OffsetCommitResponseTopic(
                "orders", partitions=(OffsetCommitResponsePartition(0, code),)
            ),
        )
    ),
    "OffsetDelete": lambda code: OffsetDeleteResponse(
        error_code=code,
        topics=()
        if code
        else (OffsetDeleteResponseTopic("orders", (OffsetDeleteResponsePartition(0, 0),)),),
    ),
    "LeaveGroup": lambda code: LeaveGroupResponse(
        error_code=code, members=() if code else (MemberResponse("m", None, 0),)
    ),
}
Call = Callable[[AdminClient, float], Awaitable[Result[str, Any]]]
CALLS: dict[str, Call] = {
    "DescribeGroups": lambda admin, t: admin.describe_groups(["g"], timeout=t),
    "OffsetFetch": lambda admin, t: admin.list_offsets(["g"], timeout=t),
    "DeleteGroups": lambda admin, t: admin.delete_groups(["g"], timeout=t),
    "OffsetCommit": lambda admin, t: admin.alter_offsets({"g": {ORDERS: 1}}, timeout=t),
    "OffsetDelete": lambda admin, t: admin.delete_offsets({"g": [ORDERS]}, timeout=t),
    "LeaveGroup": lambda admin, t: admin.remove_members("g", member_ids=["m"], timeout=t),
}
PASSING = [
    *((api, code) for api in CALLS for code in (LOADING, NOT_AVAILABLE, NOT_COORDINATOR)),
    ("OffsetCommit", REBALANCING),
]
STAYING = [
    *((api, code) for api in CALLS for code in (INVALID_GROUP, UNAUTHORIZED)),
    *((api, NOT_FOUND) for api in ("OffsetFetch", "DeleteGroups", "OffsetDelete", "LeaveGroup")),
    ("OffsetFetch", UNKNOWN_MEMBER),
    ("OffsetFetch", STALE_EPOCH),
    ("OffsetCommit", UNKNOWN_MEMBER),
    ("LeaveGroup", UNKNOWN_MEMBER),
]


def scripted(api: str, *codes: int) -> ScriptedBroker:
    """A broker that answers an API with these codes, one after the other, and the last one from then on."""
    left = list(codes)

    def handler(_: object) -> Response:
        return ANSWERS[api](left.pop(0) if len(left) > 1 else left[0])

    broker = ScriptedBroker()
    broker.handlers[api] = handler
    return broker


async def outcome(admin: AdminClient, api: str, seconds: float = 30) -> Exception | None:
    """What became of the one group: nothing bad, or its error."""
    try:
        (await CALLS[api](admin, seconds)).unwrap()
    except Exception as error:  # noqa: BLE001 - it is looked at by whoever asked
        return error
    return None


@pytest.mark.parametrize(("api", "code"), PASSING)
def test_what_passes_is_looked_up_again_and_waited_for(api: str, code: int) -> None:
    async def scene() -> None:
        broker = scripted(api, code, code, 0)
        async with broker, AdminClient(bootstrap_servers=broker.address) as admin:
            assert await outcome(admin, api) is None
            assert broker.asked(api) == 3
            assert broker.asked("FindCoordinator") == 3

    run(scene())


@pytest.mark.parametrize("api", CALLS)
def test_what_does_not_pass_in_time_names_its_cause_and_the_tries(api: str) -> None:
    async def scene() -> None:
        broker = scripted(api, NOT_COORDINATOR)
        async with broker, AdminClient(bootstrap_servers=broker.address) as admin:
            error = await outcome(admin, api, 2)
            assert isinstance(error, DeadlineExceeded)
            assert "group 'g': no answer within" in str(error)
            assert "the last cause: group 'g'" in str(error)
            assert "NOT_COORDINATOR" in str(error)

    run(scene())


@pytest.mark.parametrize(("api", "code"), STAYING)
def test_what_stays_is_told_at_once_with_the_group(api: str, code: int) -> None:
    async def scene() -> None:
        broker = scripted(api, code)
        async with broker, AdminClient(bootstrap_servers=broker.address) as admin:
            error = await outcome(admin, api)
            assert isinstance(error, KafkaError)
            assert error.code is ErrorCode.of(code)
            assert "'g'" in str(error)
            assert broker.asked(api) == 1

    run(scene())


@pytest.mark.parametrize("code", [LOADING, NOT_AVAILABLE])
@pytest.mark.parametrize("version", [3, 6])
def test_a_lookup_that_fails_for_now_is_made_again(version: int, code: int) -> None:
    async def scene() -> None:
        broker = scripted("DescribeGroups", 0)
        broker.versions["FindCoordinator"] = version
        failing(broker, code, times=2)
        async with broker, AdminClient(bootstrap_servers=broker.address) as admin:
            assert await outcome(admin, "DescribeGroups") is None
            assert broker.asked("FindCoordinator") == 3

    run(scene())


@pytest.mark.parametrize("code", [53, -1, UNAUTHORIZED])
@pytest.mark.parametrize("version", [3, 6])
def test_a_lookup_that_is_refused_is_the_groups_error(version: int, code: int) -> None:
    async def scene() -> None:
        broker = scripted("DescribeGroups", 0)
        broker.versions["FindCoordinator"] = version
        failing(broker, code, times=99)
        async with broker, AdminClient(bootstrap_servers=broker.address) as admin:
            error = await outcome(admin, "DescribeGroups")
            assert isinstance(error, KafkaError)
            assert error.code is ErrorCode.of(code)
            assert "group 'g'" in str(error)
            assert not broker.asked("DescribeGroups")

    run(scene())


def failing(broker: ScriptedBroker, code: int, times: int) -> None:
    """Let look-ups fail some times, in the form of their version."""
    left = [code] * times

    def find(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        failed = left.pop() if left else 0
        where = (-1, "", -1) if failed else (1, "127.0.0.1", broker.port)
        if not request.coordinator_keys:
            return FindCoordinatorResponse(0, failed, None, *where)
        keys = request.coordinator_keys
        rows = tuple(Coordinator(key, *where, error_code=failed) for key in keys)
        return FindCoordinatorResponse(coordinators=rows)

    broker.handlers["FindCoordinator"] = find


@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_a_lookup_has_one_key_or_many_by_its_version(version: int) -> None:
    async def scene() -> None:
        broker = ScriptedBroker()
        broker.versions["FindCoordinator"] = version
        failing(broker, 0, times=0)
        async with broker, AdminClient(bootstrap_servers=broker.address) as admin:
            assert (await admin.find_coordinators(["g", "h"])).complete
            asked = [each for each in broker.seen if isinstance(each, FindCoordinatorRequest)]
            sent = sorted((each.key, each.coordinator_keys) for each in asked)
            single = [("g", ()), ("h", ())]
            assert sent == (single if version < 4 else [("", ("g", "h"))])

    run(scene())


def test_a_partition_without_a_commit_is_absent_and_one_with_an_error_is_told() -> None:
    def offsets(_: object) -> OffsetFetchResponse:
        rows = (
            OffsetFetchResponsePartitions(0, 7),
            OffsetFetchResponsePartitions(1, -1),
            OffsetFetchResponsePartitions(2, -1, error_code=29),
        )
        topics = (OffsetFetchResponseTopics("orders", partitions=rows),)
        return OffsetFetchResponse(groups=(OffsetFetchResponseGroup("g", topics),))

    async def scene() -> None:
        broker = ScriptedBroker(OffsetFetch=offsets)
        async with broker, AdminClient(bootstrap_servers=broker.address) as admin:
            read = await admin.list_offsets(["g"])
            group = read["g"]
            assert {key.partition: each.offset for key, each in group.offsets.items()} == {0: 7}
            assert list(group.errors) == [TopicPartition("orders", 2)]
            assert not read.complete
            with pytest.raises(PartialAnswer, match="group 'g', partition orders-2: "):
                read.unwrap()

    run(scene())


def test_each_partition_of_a_change_has_its_own_outcome() -> None:
    def deleted(_: object) -> OffsetDeleteResponse:
        rows = (OffsetDeleteResponsePartition(0, 0), OffsetDeleteResponsePartition(1, 86))
        return OffsetDeleteResponse(topics=(OffsetDeleteResponseTopic("orders", rows),))

    async def scene() -> None:
        broker = ScriptedBroker(OffsetDelete=deleted)
        async with broker, AdminClient(bootstrap_servers=broker.address) as admin:
            both = [ORDERS, TopicPartition("orders", 1)]
            changed = await admin.delete_offsets({"g": both})
            change = changed["g"]
            assert change.done == (ORDERS,)
            assert "GROUP_SUBSCRIBED_TO_TOPIC" in change.errors[both[1]]
            assert not changed.complete
            assert repr(changed) == "<1 items, 1 errors>"
            with pytest.raises(PartialAnswer, match=r"partition orders-1: .*SUBSCRIBED"):
                changed.unwrap()

    run(scene())


def test_members_are_removed_with_a_reason_and_each_has_its_outcome() -> None:
    def leave(_: object) -> LeaveGroupResponse:
        rows = (MemberResponse("m", None, 0), MemberResponse("", "static", UNKNOWN_MEMBER))
        return LeaveGroupResponse(members=rows)

    async def scene() -> None:
        broker = ScriptedBroker(LeaveGroup=leave)
        async with broker, AdminClient(bootstrap_servers=broker.address) as admin:
            removed = await admin.remove_members(
                "g", member_ids=["m"], instance_ids=["static"], reason="x" * 300
            )
            assert list(removed.items) == ["m"]
            assert "member 'static' of group 'g'" in str(removed.errors["static"])
            (request,) = (e for e in broker.seen if type(e).__name__ == "LeaveGroupRequest")
            members: Any = request
            # Kafka refuses no length, but its own client sends this much at most.
            assert {len(each.reason) for each in members.members} == {255}

    run(scene())


def test_what_is_missing_for_the_same_cause_is_told_once() -> None:
    late = Deadline(1.0, ClientSettings.of({"bootstrap.servers": "127.0.0.1:1"}))
    errors: dict[TopicPartition, CoterieError] = {}
    for number in range(50):
        name = f"partition log-{number}"
        denied = kafka_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
        cause = kafka_error(ErrorCode.LEADER_NOT_AVAILABLE, name)
        key = TopicPartition("log", number)
        errors[key] = denied if number % 2 else late.exceeded(name, cause, 3)
    with pytest.raises(PartialAnswer) as caught:
        Result[TopicPartition, Any]({}, errors).unwrap()
    said = str(caught.value)
    first = "partition log-1, partition log-3, partition log-5 and 22 more: "
    assert first + str(errors[TopicPartition("log", 1)]).partition(": ")[2] in said
    assert "partition log-0, partition log-2, partition log-4 and 22 more: no answer within" in said
    assert said.count("LEADER_NOT_AVAILABLE") == 1


def test_an_error_of_all_is_told_once() -> None:
    lost = BrokerUnreachable("no broker can be reached: try again")
    with pytest.raises(PartialAnswer, match=r"not complete: no broker can be reached: try again$"):
        Result[str, Any]({}, {"g": lost, "h": lost}).unwrap()


def test_of_many_causes_the_first_are_told_and_how_many_more_there_are() -> None:
    errors: dict[str, CoterieError] = {
        f"g-{number}": kafka_error(-1, f"group 'g-{number}'", f"lost for reason {number}")
        for number in range(12)
    }
    with pytest.raises(PartialAnswer) as caught:
        Result[str, Any]({}, errors).unwrap()
    said = str(caught.value)
    assert "group 'g-4': lost for reason 4 (UNKNOWN_SERVER_ERROR); and 7 more" in said
    assert said.endswith("; and 7 more")
