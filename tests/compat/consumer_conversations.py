"""Questions about consumer groups (KIP-848) whose answers Kafka determines; see conversations.py.

Each group has one member at most: with more, answers depend on how fast the questions come
(group.consumer.assignment.interval.ms).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coterie.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
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
)
from coterie.protocol.schema import Request
from coterie.protocol.types import Uuid

__all__ = ["consumer_questions"]

Question = tuple[str, Request, int]


def beat(group: str, member: str, epoch: int, **fields: Any) -> Request:
    """A heartbeat; a first one with all that it needs."""
    if epoch == 0:
        fields = {
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": ("orders",),
            "topic_partitions": (),
        } | fields
    return ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, **fields
    )


def consumer_questions() -> Iterator[Question]:
    """All of them; the cluster has a topic `orders`, a live classic group `live` and an empty one."""
    for title, request, version in (
        *_malformed(),
        *_life(),
        *_static(),
        *_offsets(),
        *_classic_requests(),
        *_looking(),
        *_ending(),
    ):
        yield f"KIP-848: {title}", request, version


def _malformed() -> Iterator[Question]:
    first: dict[str, dict[str, Any]] = {
        "without a rebalance timeout": {"rebalance_timeout_ms": -1},
        "with partitions": {"topic_partitions": (TopicPartitions(Uuid.ZERO, (0,)),)},
        "with null partitions": {"topic_partitions": None},
        "without a subscription": {"subscribed_topic_names": None},
        "with a bad pattern": {"subscribed_topic_names": None, "subscribed_topic_regex": "("},
        "with a worse pattern": {"subscribed_topic_names": None, "subscribed_topic_regex": "*"},
        "with an unknown assignor": {"server_assignor": "mine"},
        "with an empty instance id": {"instance_id": ""},
        "with an empty rack": {"rack_id": ""},
    }
    for title, fields in first.items():
        yield f"join {title}", beat("nothing", "m", 0, **fields), 1
    yield "join without a group", beat("", "m", 0), 1
    yield "join without a member id", beat("nothing", "", 0), 1
    yield "epoch -3", beat("nothing", "m", -3), 1
    yield "epoch -2 without an instance id", beat("nothing", "m", -2), 1
    yield "heartbeat to no group", beat("nothing", "m", 3), 1
    yield "leave no group", beat("nothing", "m", -1), 1
    yield "leave no group v0", beat("nothing", "", -1), 0


def _life() -> Iterator[Question]:
    yield "join", beat("new", "m", 0), 1
    yield "heartbeat", beat("new", "m", 2), 1
    yield "full heartbeat", beat(
        "new", "m", 2, rebalance_timeout_ms=1, subscribed_topic_names=("orders",),
        topic_partitions=(),
    ), 1  # fmt: skip
    yield "epoch ahead", beat("new", "m", 3), 1
    yield "epoch behind", beat("new", "m", 1), 1
    yield "unknown member", beat("new", "else", 2), 1
    yield "rejoin", beat("new", "m", 0), 1
    yield "join with nothing", beat("idle", "m", 0, subscribed_topic_names=()), 1
    yield "join for a missing topic", beat("wishing", "m", 0, subscribed_topic_names=("no",)), 1
    yield "join v0", beat("old", "m", 0), 0
    yield "heartbeat to a live classic group", beat("live", "m", 3), 1
    yield "leave a live classic group", beat("live", "m", -1), 1


def _static() -> Iterator[Question]:
    seat = {"instance_id": "seat"}
    yield "static join", beat("static", "one", 0, **seat), 1
    yield "static join again, its answer was lost", beat("static", "one", 0, **seat), 1
    yield "static join of another", beat("static", "two", 0, **seat), 1
    yield "static heartbeat of another", beat("static", "two", 2, **seat), 1
    yield "static heartbeat with no such seat", beat("static", "one", 2, instance_id="else"), 1
    yield "static leave for now", beat("static", "one", -2, **seat), 1
    yield "static describe", ConsumerGroupDescribeRequest(group_ids=("static",)), 1
    yield "static heartbeat after leaving", beat("static", "one", 2, **seat), 1
    yield "static return", beat("static", "three", 0, **seat), 1
    yield "static return again, its answer was lost", beat("static", "three", 0, **seat), 1
    yield "static leave of another", beat("static", "one", -1, **seat), 1
    yield "static leave", beat("static", "three", -1, **seat), 1


def _commit(group: str, member: str, epoch: int, topic: str = "orders") -> Request:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = (OffsetCommitRequestTopic(name=topic, partitions=(partition,)),)
    return OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=epoch, member_id=member, topics=topics
    )


def _offsets() -> Iterator[Question]:
    for title, member, epoch in (
        ("as a member", "m", 2), ("with an old epoch", "m", 1), ("with a new epoch", "m", 9),
        ("as nobody", "else", 2), ("from outside", "", -1),
    ):  # fmt: skip
        yield f"commit {title}", _commit("new", member, epoch), 9
    yield "commit v8", _commit("new", "m", 2), 8
    yield "commit for what it does not own", _commit("idle", "m", 0), 9
    for title, who, epoch in (
        ("as a member", "m", 2), ("with an old epoch", "m", 1), ("with no epoch", "m", -1),
        ("as nobody", "else", 2), ("from outside", None, -1),
    ):  # fmt: skip
        group = OffsetFetchRequestGroup("new", who, epoch, topics=None)
        yield f"fetch {title}", OffsetFetchRequest(groups=(group,)), 9
    for topic in ("orders", "missing"):
        partitions = (OffsetDeleteRequestPartition(0),)
        yield (
            f"delete offsets of {topic}",
            OffsetDeleteRequest("new", (OffsetDeleteRequestTopic(topic, partitions),)),
            0,
        )


def _classic_requests() -> Iterator[Question]:
    """From members of the classic protocol, to a group of the new one."""
    join = JoinGroupRequest(
        group_id="new", session_timeout_ms=30_000, rebalance_timeout_ms=30_000,
        protocol_type="connect",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
    )  # fmt: skip
    yield "classic join of another kind", join, 9
    yield "classic heartbeat", HeartbeatRequest("new", 2, "m"), 4
    yield "classic heartbeat as nobody", HeartbeatRequest("new", 2, "else"), 4
    yield "classic sync", SyncGroupRequest("new", 2, "m"), 4
    nobody = MemberIdentity(member_id="else")
    yield "classic leave", LeaveGroupRequest(group_id="new", members=(nobody,)), 5


def _looking() -> Iterator[Question]:
    groups = ("new", "idle", "wishing", "static", "live", "empty", "nothing", "")
    for version in (0, 1):
        request = ConsumerGroupDescribeRequest(group_ids=groups)
        yield f"describe v{version}", request, version
    yield (
        "describe operations",
        ConsumerGroupDescribeRequest(group_ids=("new",), include_authorized_operations=True),
        1,
    )
    yield "describe nothing", ConsumerGroupDescribeRequest(), 1
    for version in (5, 6):
        yield f"classic describe v{version}", DescribeGroupsRequest(groups=("new",)), version
    filters: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
        ((), ("consumer",)), (("stable",), ("CONSUMER",)), (("Empty",), ()), (("assigning",), ()),
        (("Reconciling",), ("classic",)),
    ]  # fmt: skip
    for states, types in filters:
        request_ = ListGroupsRequest(states_filter=states, types_filter=types)
        yield f"list {states} {types}", request_, 5
    yield "list v4", ListGroupsRequest(), 4


def _ending() -> Iterator[Question]:
    yield "delete with a member", DeleteGroupsRequest(groups_names=("new",)), 2
    yield "leave", beat("new", "m", -1), 1
    yield "leave again", beat("new", "m", -1), 1
    yield "commit from outside, no members", _commit("new", "", -1), 9
    yield "delete", DeleteGroupsRequest(groups_names=("new", "static")), 2
    yield "delete again", DeleteGroupsRequest(groups_names=("new",)), 2
    yield "join an empty classic group", beat("empty", "m", 0), 1
