"""The same groups on every server, and the requests about them that make up the loads.

Stable groups have one member each, with a session so long that nobody has to send heartbeats for it; the
others are simple: offsets without members. Versions are fixed, the newest that name topics by name.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bench.load import Load, verdict_of
from bench.servers import Server
from coterie.error_codes import ErrorCode
from coterie.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from coterie.protocol.messages.groups import DescribeGroupsRequest, ListGroupsRequest
from coterie.protocol.messages.membership import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from coterie.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from coterie.protocol.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from coterie.protocol.versioned import encode_versioned
from tests.kit.wire_client import WireClient

__all__ = [
    "JOIN_VERSION",
    "LIST_VERSION",
    "SESSION_MS",
    "SYNC_VERSION",
    "TINY",
    "TOPIC",
    "Sizes",
    "await_ok",
    "join_request",
    "prepare",
]

COMMIT_VERSION: Final = 9
FETCH_VERSION: Final = 9
FIND_VERSION: Final = 6
HEARTBEAT_VERSION: Final = 4
LIST_VERSION: Final = 5
DESCRIBE_VERSION: Final = 6
JOIN_VERSION: Final = 9
SYNC_VERSION: Final = 5

TOPIC: Final = "orders"
#: The longest that Kafka allows by default.
SESSION_MS: Final = 1_800_000
#: How many different commits are repeated in turn.
_DIFFERENT_COMMITS: Final = 4_096
_SECONDS_TO_SETTLE: Final = 60.0


@dataclass(frozen=True)
class Sizes:
    """How much of everything, for how long."""

    seconds: float = 1.0
    warm_up_seconds: float = 4.0
    in_flight: int = 64
    stable_groups: int = 100
    commit_groups: int = 64
    other_groups: int = 6
    members: tuple[int, ...] = (1, 10, 100)
    rebalances: int = 10
    scale_groups: int = 100_000
    scale_offsets: int = 10
    scale_stable: int = 10
    counted_groups: int = 20_000

    @property
    def listed_groups(self) -> int:
        return self.stable_groups + self.commit_groups + self.other_groups


TINY: Final = Sizes(
    seconds=0.02,
    warm_up_seconds=0.0,
    in_flight=8,
    stable_groups=3,
    commit_groups=4,
    other_groups=1,
    members=(1, 3),
    rebalances=2,
    scale_groups=300,
    scale_offsets=2,
    scale_stable=3,
    counted_groups=200,
)


def prepare(server: Server, sizes: Sizes) -> dict[str, Load]:
    """Make the topic and the groups on a server; its loads by name."""
    stable = [f"stable-{number:03}" for number in range(sizes.stable_groups)]
    committing = [f"commit-{number:03}" for number in range(sizes.commit_groups)]
    others = [f"other-{number:03}" for number in range(sizes.other_groups)]
    with WireClient(*server.address, "bench") as client:
        _create_topic(client)
        await_ok(lambda: _find(client, (*stable, *committing, *others)))
        joined = [_join(client, group) for group in stable]
        commits = [_commit(group, 1) for group in (*committing, *others)]
        for group, member in zip(stable, joined, strict=True):
            commits.append(_commit(group, 1, member))
        for commit in commits:
            await_ok(lambda commit=commit: _ask_commit(client, commit))  # type: ignore[misc]
    return _loads(stable, committing, joined[0], sizes)


def _loads(
    stable: list[str], committing: list[str], member: JoinGroupResponse, sizes: Sizes
) -> dict[str, Load]:
    count = len(stable)
    heartbeat = HeartbeatRequest(
        group_id=stable[0], generation_id=member.generation_id, member_id=member.member_id
    )
    find = FindCoordinatorRequest(coordinator_keys=tuple(stable))
    describe = DescribeGroupsRequest(groups=tuple(stable))
    fetch = OffsetFetchRequest(
        groups=tuple(OffsetFetchRequestGroup(group_id=group, topics=None) for group in stable)
    )
    everywhere = [
        _commit(committing[number % len(committing)], number)
        for number in range(_DIFFERENT_COMMITS)
    ]
    in_one_group = [_commit(committing[0], number) for number in range(_DIFFERENT_COMMITS)]
    listed = sizes.listed_groups
    # Elements: the answer, then what is in it; an offset is a group, a topic and a partition there.
    return {
        "commit_1_group": Load.of(in_one_group, COMMIT_VERSION, elements=3),
        "commit_64_groups": Load.of(everywhere, COMMIT_VERSION, elements=3),
        "heartbeat": Load.of([heartbeat], HEARTBEAT_VERSION, elements=1),
        "find_coordinator_100": Load.of([find], FIND_VERSION, elements=1 + count),
        "list_groups": Load.of([ListGroupsRequest()], LIST_VERSION, elements=1 + listed),
        "describe_groups_100": Load.of([describe], DESCRIBE_VERSION, elements=1 + 2 * count),
        "offset_fetch_100": Load.of([fetch], FETCH_VERSION, elements=1 + 3 * count),
    }


def await_ok(attempt: Callable[[], int]) -> None:
    """Repeat what a fresh broker refuses for a while: topics and coordinators take their time."""
    deadline = time.monotonic() + _SECONDS_TO_SETTLE
    while (code := ErrorCode.of(attempt())) is not ErrorCode.NONE:
        if not code.retriable or time.monotonic() > deadline:
            raise RuntimeError(f"the server answers {code.name}")
        time.sleep(0.02)


def _create_topic(client: WireClient) -> None:
    topic = CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1)
    request = CreateTopicsRequest(topics=(topic,))
    await_ok(lambda: client.ask(request, CreateTopicsResponse).topics[0].error_code)


def _find(client: WireClient, groups: tuple[str, ...]) -> int:
    request = FindCoordinatorRequest(coordinator_keys=groups)
    answer = client.ask(request, FindCoordinatorResponse, FIND_VERSION)
    return max(found.error_code for found in answer.coordinators)


def join_request(group: str, member_id: str, metadata: bytes) -> JoinGroupRequest:
    """A consumer's, with a session that outlives the benchmark."""
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=metadata),),
    )


def _join(client: WireClient, group: str) -> JoinGroupResponse:
    """A member that joins, leads and syncs."""
    subscription = encode_versioned(ConsumerProtocolSubscription(topics=(TOPIC,)), 1)
    joined = JoinGroupResponse()

    def attempt() -> int:
        nonlocal joined
        request = join_request(group, joined.member_id, subscription)
        joined = client.ask(request, JoinGroupResponse, JOIN_VERSION)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            return attempt()
        return joined.error_code

    await_ok(attempt)
    assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"\x00" * 40)
    request = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=(assignment,),
    )
    await_ok(lambda: client.ask(request, SyncGroupResponse, SYNC_VERSION).error_code)
    return joined


def _commit(
    group: str, offset: int, member: JoinGroupResponse | None = None
) -> OffsetCommitRequest:
    """Of one partition, by a member or by nobody."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=member.generation_id if member else -1,
        member_id=member.member_id if member else "",
        topics=(OffsetCommitRequestTopic(name=TOPIC, partitions=(partition,)),),
    )


def _ask_commit(client: WireClient, request: OffsetCommitRequest) -> int:
    codes, _ = verdict_of(client.ask(request, OffsetCommitResponse, COMMIT_VERSION))
    return max(codes)
