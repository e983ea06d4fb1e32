"""Questions whose answers Kafka determines, to be put to any broker in the same words.

Each answer is taken as Kafka's JSON with what may differ from run to run taken out: ids that are made up,
addresses, orders of hash tables. What is left must be equal on our cluster and on Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coterie.protocol.kafka_json import to_json
from coterie.protocol.messages.cluster import FindCoordinatorRequest
from coterie.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from coterie.protocol.messages.membership import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from coterie.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from coterie.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from coterie.protocol.schema import Request, Response
from tests.compat.consumer_conversations import consumer_questions
from tests.kit.wire_client import WireClient

__all__ = ["Question", "ask", "questions"]

Question = tuple[str, Request, int]

#: Fields that differ between any two brokers, or between two runs.
_VOLATILE = {
    "throttleTimeMs", "memberId", "host", "port", "nodeId", "topicId", "configs", "clientHost",
    "numPartitions", "replicationFactor", "leader", "members", "committedLeaderEpoch",
}  # fmt: skip


def ask(client: WireClient, question: Question) -> Any:
    _, request, version = question
    answer = client.ask(request, Response, version)
    return _steady(to_json(answer, version))


def _steady(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _steady(item) for key, item in value.items() if key not in _VOLATILE}
        # KIP-181's fields are ours alone.
        return {key: item for key, item in kept.items() if key not in _KIP_181}
    if isinstance(value, list):
        return sorted((_steady(item) for item in value), key=repr)
    return value


_KIP_181 = {
    "generationId", "leaderId", "newMemberAdded", "receivedConsumerOffsetCommits",
    "receivedTransactionalOffsetCommits", "memberSubscription", "memberProtocols",
}  # fmt: skip


def questions(live_member: str, generation: int) -> Iterator[Question]:
    """All questions; the cluster has a topic `orders`, a live group `live` and an empty one `empty`."""
    yield from _lists()
    yield from _descriptions()
    yield from _coordinators()
    yield from _commits(live_member, generation)
    yield from _fetches()
    yield from _membership(live_member, generation)
    yield from _topics()
    yield from consumer_questions()
    yield from _deletions()


def _lists() -> Iterator[Question]:
    filters: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
        (("stable",), ()), (("STABLE", "Empty"), ()), (("nonsense",), ()), ((" empty ",), ()),
        ((), ("CLASSIC",)), ((), ("nonsense",)), ((), ("consumer",)), (("Stable",), ("classic",)),
        ((), (" classic",)),
    ]  # fmt: skip
    for states, types in filters:
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        yield f"list {states} {types}", request, 5
    for version in range(6):
        yield f"list v{version}", ListGroupsRequest(), version


def _descriptions() -> Iterator[Question]:
    for version in range(7):
        request = DescribeGroupsRequest(groups=("live", "empty", "missing", ""))
        yield f"describe v{version}", request, version
    yield (
        "describe operations",
        DescribeGroupsRequest(groups=("live", "missing"), include_authorized_operations=True),
        6,
    )
    yield "describe nothing", DescribeGroupsRequest(), 6


def _coordinators() -> Iterator[Question]:
    for version in range(4):
        yield f"coordinator v{version}", FindCoordinatorRequest(key="live"), version
    for version in range(4, 7):
        keys = ("live", "live", "", "missing")
        yield f"coordinators v{version}", FindCoordinatorRequest(coordinator_keys=keys), version
    yield (
        "coordinator of an unknown type",
        FindCoordinatorRequest(coordinator_keys=("a",), key_type=9),
        6,
    )
    yield "coordinator v3 of an unknown type", FindCoordinatorRequest(key="a", key_type=9), 3
    yield "no coordinators", FindCoordinatorRequest(), 6


def _commit(group: str, *, topic: str = "orders", partition: int = 0, **more: Any) -> Request:
    metadata = more.pop("metadata", "")
    return OffsetCommitRequest(
        group_id=group,
        topics=(
            OffsetCommitRequestTopic(
                name=topic,
                partitions=(
                    OffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=7, committed_metadata=metadata
                    ),
                ),
            ),
        ),
        **more,
    )


def _commits(member: str, generation: int) -> Iterator[Question]:
    yield "commit 5000 bytes", _commit("empty", metadata="m" * 5000), 9
    yield "commit 4096 bytes", _commit("empty", metadata="m" * 4096), 9
    yield "commit null metadata", _commit("empty", metadata=None), 9
    for version in (8, 9):
        request = _commit("never", generation_id_or_member_epoch=5, member_id="m")
        yield f"commit to an unknown group v{version}", request, version
    yield (
        "commit with a generation to an empty group",
        _commit("empty", generation_id_or_member_epoch=5, member_id="m"),
        9,
    )
    yield "commit to no topic", _commit("empty", topic="missing"), 9
    yield "commit to no partition", _commit("empty", partition=99), 9
    yield "commit to the group without a name", _commit(""), 9
    yield "commit into a live group", _commit("live"), 9
    yield (
        "commit with a stale generation",
        _commit("live", generation_id_or_member_epoch=generation - 1, member_id=member),
        9,
    )
    yield (
        "commit as nobody",
        _commit("live", generation_id_or_member_epoch=generation, member_id="nobody"),
        9,
    )
    yield (
        "commit as a member",
        _commit("live", generation_id_or_member_epoch=generation, member_id=member),
        9,
    )


def _fetches() -> Iterator[Question]:
    topic = OffsetFetchRequestTopics(name="orders", partition_indexes=(0, 1, 99))
    unknown = OffsetFetchRequestTopics(name="missing", partition_indexes=(0,))
    for version in (8, 9):
        for group in ("empty", "never", "live", ""):
            every = OffsetFetchRequestGroup(group_id=group, topics=None)
            some = OffsetFetchRequestGroup(group_id=group, topics=(topic, unknown))
            yield f"fetch {group!r} v{version}", OffsetFetchRequest(groups=(every,)), version
            yield f"fetch some {group!r} v{version}", OffsetFetchRequest(groups=(some,)), version
    for version in range(1, 8):
        asked = (OffsetFetchRequestTopic(name="orders", partition_indexes=(0, 1)),)
        yield f"fetch v{version}", OffsetFetchRequest(group_id="empty", topics=asked), version
    yield (
        "fetch as a member of nothing",
        OffsetFetchRequest(
            groups=(
                OffsetFetchRequestGroup(
                    group_id="live", member_id="m", member_epoch=3, topics=None
                ),
            )
        ),
        9,
    )


def _join(group: str, **more: Any) -> JoinGroupRequest:
    values: dict[str, Any] = {
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "protocol_type": "consumer",
        "protocols": (JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0"),),
    }
    return JoinGroupRequest(group_id=group, **(values | more))


def _membership(member: str, generation: int) -> Iterator[Question]:
    yield "join without a group id", _join(""), 9
    yield "join an unknown group as somebody", _join("never", member_id="m"), 9
    yield "join a live group as nobody", _join("live", member_id="nobody"), 9
    yield "join without protocols", _join("never", protocols=()), 9
    yield "join without a protocol type", _join("never", protocol_type=""), 9
    yield "join with a short session", _join("never", session_timeout_ms=1), 9
    yield "join with a long session", _join("never", session_timeout_ms=2_000_000), 9
    yield "join with another type", _join("live", protocol_type="connect"), 9
    yield (
        "join with another protocol",
        _join("live", protocols=(JoinGroupRequestProtocol(name="odd", metadata=b""),)),
        9,
    )
    yield "join a new group", _join("joining"), 9
    for group, who, when in (
        ("never", "m", 1), ("live", "nobody", generation), ("live", member, generation - 1),
        ("live", member, generation), ("", "m", 1), ("empty", "m", 1),
    ):  # fmt: skip
        title = f"heartbeat {group!r} {who == member} {when == generation}"
        yield title, HeartbeatRequest(group, when, who), 4
        yield f"{title} v0", HeartbeatRequest(group, when, who), 0
    for when, kind in ((generation - 1, None), (generation, "consumer"), (generation, None)):
        request = SyncGroupRequest("live", when, member, protocol_type=kind, protocol_name="range")
        if kind is None:
            request = SyncGroupRequest("live", when, member)
        yield f"sync {when == generation} {kind}", request, 5
    yield "sync as nobody", SyncGroupRequest("live", generation, "nobody"), 4
    yield "sync an unknown group", SyncGroupRequest("never", 1, "m"), 4
    yield "sync without a group id", SyncGroupRequest("", 1, "m"), 4
    nobody = MemberIdentity(member_id="nobody")
    static = MemberIdentity(member_id="", group_instance_id="nothing")
    yield "leave as nobody", LeaveGroupRequest(group_id="live", members=(nobody, static)), 5
    yield "leave an unknown group", LeaveGroupRequest(group_id="never", members=(nobody,)), 5
    yield "leave v0", LeaveGroupRequest(group_id="live", member_id="nobody"), 0
    yield "leave without a group id", LeaveGroupRequest(group_id="", members=(nobody,)), 5


def _topics() -> Iterator[Question]:
    for title, topic in {
        "again": CreatableTopic("orders", 1, 1),
        "bad name": CreatableTopic("a/b", 1, 1),
        "empty name": CreatableTopic("", 1, 1),
        "too long": CreatableTopic("n" * 250, 1, 1),
        "replicas": CreatableTopic("new", 1, 99),
        "no partitions": CreatableTopic("new", 0, 1),
        "bad setting": CreatableTopic(
            "new", 1, 1, configs=(CreatableTopicConfig("nonsense", "1"),)
        ),
    }.items():
        yield f"create {title}", CreateTopicsRequest(topics=(topic,)), 7
    for title, count in (("fewer", 1), ("same", 2)):
        topic_ = CreatePartitionsTopic("orders", count)
        yield f"{title} partitions", CreatePartitionsRequest(topics=(topic_,), timeout_ms=30_000), 3
    missing = CreatePartitionsTopic("missing", 3)
    yield "partitions of nothing", CreatePartitionsRequest(topics=(missing,), timeout_ms=30_000), 3
    yield from _placements()
    state = DeleteTopicState(name="missing")
    yield "delete no topic", DeleteTopicsRequest(topics=(state,), timeout_ms=30_000), 6
    yield "delete no topic v1", DeleteTopicsRequest(topic_names=("missing",), timeout_ms=30_000), 1


def _placements() -> Iterator[Question]:
    """Replicas where the asker wants them; broker 99 is nowhere."""
    nowhere, none = CreatePartitionsAssignment((99,)), CreatePartitionsAssignment(())
    grown: dict[str, tuple[CreatePartitionsAssignment, ...]] = {
        "none": (), "too many": (nowhere, nowhere), "an empty one": (none,), "nowhere": (nowhere,),
    }  # fmt: skip
    for title, placed in grown.items():
        wanted = CreatePartitionsTopic("orders", 3, placed)
        yield f"grow with assignments, {title}", CreatePartitionsRequest((wanted,), 30_000), 3
    twice = (CreatePartitionsTopic("orders", 3, None), CreatePartitionsTopic("orders", 4, None))
    yield "grow twice", CreatePartitionsRequest(twice, 30_000), 3
    first, second = CreatableReplicaAssignment(0, (99,)), CreatableReplicaAssignment(1, (99,))
    empty = CreatableReplicaAssignment(0, ())
    created = {
        "and a count": CreatableTopic("new", 1, -1, (first,)),
        "and a factor": CreatableTopic("new", -1, 1, (first,)),
        "nowhere": CreatableTopic("new", -1, -1, (first, second)),
        "an empty one": CreatableTopic("new", -1, -1, (empty,)),
    }
    for title, topic in created.items():
        yield f"create with assignments, {title}", CreateTopicsRequest(topics=(topic,)), 7
    named_twice = (CreatableTopic("new", 1, 1), CreatableTopic("new", 2, 1))
    yield "create twice", CreateTopicsRequest(topics=named_twice), 7


def _offset_delete(group: str, topic: str, partition: int) -> OffsetDeleteRequest:
    partitions = (OffsetDeleteRequestPartition(partition),)
    return OffsetDeleteRequest(group, (OffsetDeleteRequestTopic(topic, partitions),))


def _deletions() -> Iterator[Question]:
    yield "delete offsets of a subscribed topic", _offset_delete("live", "orders", 0), 0
    yield "delete offsets of no group", _offset_delete("never", "orders", 0), 0
    yield "delete offsets without a group id", _offset_delete("", "orders", 0), 0
    yield "delete offsets of no topic", _offset_delete("empty", "missing", 0), 0
    yield "delete offsets of no partition", _offset_delete("empty", "orders", 99), 0
    yield "delete offsets", _offset_delete("empty", "orders", 0), 0
    yield "delete offsets again", _offset_delete("empty", "orders", 0), 0
    for version in range(3):
        names = ("live", "never", "empty", "empty")
        yield f"delete groups v{version}", DeleteGroupsRequest(groups_names=names), version
    yield "delete no groups", DeleteGroupsRequest(), 2
