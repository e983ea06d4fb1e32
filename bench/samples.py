"""Data as a cluster would send it; always the same, since the randomness has a fixed seed.

The order of groups and states is random on purpose: a broker lists its groups in the order of a hash
table, and a decoder that profits from equal neighbours finds as many of them as it would there.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator

from coterie.protocol.group_records import encode_key, encode_value
from coterie.protocol.group_records.classic import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.protocol.messages.cluster import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from coterie.protocol.messages.data import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from coterie.protocol.messages.groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsResponse,
)
from coterie.protocol.messages.offsets import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from coterie.protocol.records import RecordBatch, RecordParts, build_batch
from coterie.protocol.types import Uuid
from coterie.protocol.versioned import encode_versioned

__all__ = [
    "cluster_metadata",
    "described_groups",
    "fetched_offsets",
    "listed_groups",
    "listed_offsets",
    "offsets_log",
]

HOSTS = ("/10.12.4.21", "/10.12.5.7", "/10.12.6.143")
TOPICS = ("orders", "payments", "shipments", "clicks", "inventory-updates", "audit.events.v2")
PARTITIONS_PER_MEMBER = 2

#: Protocol type, state and group type, with how many of 100 groups are so.
_KINDS: dict[tuple[str, str, str], int] = {
    ("consumer", "Stable", "classic"): 52,
    ("consumer", "Empty", "classic"): 14,
    ("consumer", "Stable", "consumer"): 12,
    ("", "Empty", "classic"): 6,
    ("connect", "Stable", "classic"): 4,
    ("consumer", "PreparingRebalance", "classic"): 3,
    ("consumer", "Empty", "consumer"): 3,
    ("consumer", "Reconciling", "consumer"): 2,
    ("consumer", "CompletingRebalance", "classic"): 1,
    ("consumer", "Dead", "classic"): 1,
    ("share", "Stable", "share"): 1,
    ("streams", "Stable", "streams"): 1,
}

#: 2026-01-01, in milliseconds.
_START = 1_767_225_600_000


def listed_groups(count: int) -> ListGroupsResponse:
    """A broker's groups, of all kinds and states."""
    chance = random.Random(16)
    kinds = chance.choices(tuple(_KINDS), weights=tuple(_KINDS.values()), k=count)
    return ListGroupsResponse(
        groups=tuple(
            ListedGroup(f"{chance.choice(TOPICS)}-{number}", *kind)
            for number, kind in enumerate(kinds)
        )
    )


def described_groups(count: int, members: int = 3) -> DescribeGroupsResponse:
    """Stable groups, each member with the blobs of Kafka's own consumer."""
    chance = random.Random(15)
    groups = []
    for number in range(count):
        topic = chance.choice(TOPICS)
        group = f"{topic}-{number}"
        groups.append(
            DescribedGroup(
                group_id=group,
                group_state="Stable",
                protocol_type="consumer",
                protocol_data=chance.choice(("range", "range", "cooperative-sticky")),
                members=tuple(_member(group, topic, index, chance) for index in range(members)),
            )
        )
    return DescribeGroupsResponse(groups=tuple(groups))


def _member(group: str, topic: str, index: int, chance: random.Random) -> DescribedGroupMember:
    client_id = f"consumer-{group}-{index + 1}"  # what Kafka's consumer calls itself by default
    unique = uuid.UUID(int=chance.getrandbits(128), version=4)
    return DescribedGroupMember(
        member_id=f"{client_id}-{unique}",
        client_id=client_id,
        client_host=HOSTS[index % len(HOSTS)],
        member_metadata=_subscription(topic, index),
        member_assignment=_assignment(topic, index),
    )


def _partitions(index: int) -> tuple[int, ...]:
    first = index * PARTITIONS_PER_MEMBER
    return tuple(range(first, first + PARTITIONS_PER_MEMBER))


def _subscription(topic: str, index: int) -> bytes:
    owned = (TopicPartition(topic, _partitions(index)),)
    subscription = ConsumerProtocolSubscription(
        topics=(topic,), owned_partitions=owned, generation_id=7
    )
    return encode_versioned(subscription, 3)


def _assignment(topic: str, index: int) -> bytes:
    assigned = (TopicPartition(topic, _partitions(index)),)
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=assigned), 3)


def fetched_offsets(count: int, partitions: int = 10) -> OffsetFetchResponse:
    """So many groups, each with the offsets of one topic."""
    chance = random.Random(9)
    return OffsetFetchResponse(
        groups=tuple(
            OffsetFetchResponseGroup(
                group_id=f"group-{number}",
                topics=(
                    OffsetFetchResponseTopics(
                        name=chance.choice(TOPICS),
                        partitions=tuple(
                            OffsetFetchResponsePartitions(
                                partition_index=index,
                                committed_offset=chance.randrange(1 << 40),
                                committed_leader_epoch=chance.randrange(9),
                            )
                            for index in range(partitions)
                        ),
                    ),
                ),
            )
            for number in range(count)
        )
    )


def listed_offsets(count: int) -> ListOffsetsResponse:
    """The end offsets of so many partitions, in topics of ten."""
    chance = random.Random(2)
    return ListOffsetsResponse(
        topics=tuple(
            ListOffsetsTopicResponse(
                name=f"topic-{number}",
                partitions=tuple(
                    ListOffsetsPartitionResponse(
                        partition_index=index,
                        offset=chance.randrange(1 << 40),
                        leader_epoch=chance.randrange(9),
                    )
                    for index in range(10)
                ),
            )
            for number in range(count // 10)
        )
    )


def cluster_metadata(count: int) -> MetadataResponse:
    """Three brokers and so many topics of three partitions."""
    chance = random.Random(3)
    return MetadataResponse(
        brokers=tuple(MetadataResponseBroker(n, f"broker-{n}", 9092) for n in (1, 2, 3)),
        cluster_id="5L6g3nShT-eMCtK--X86sw",
        controller_id=1,
        topics=tuple(
            MetadataResponseTopic(
                name=f"topic-{number}",
                topic_id=Uuid(chance.randbytes(16)),
                partitions=tuple(
                    MetadataResponsePartition(
                        partition_index=index,
                        leader_id=chance.randint(1, 3),
                        leader_epoch=chance.randrange(9),
                        replica_nodes=(1, 2, 3),
                        isr_nodes=(1, 2, 3),
                    )
                    for index in range(3)
                ),
            )
            for number in range(count)
        ),
    )


def offsets_log(records: int, per_batch: int) -> bytes:
    """A piece of a `__consumer_offsets` partition, as a fetch returns it.

    Mostly commits; one batch in 50 begins with the group's metadata, one in 50 is of tombstones.
    """
    chance = random.Random(1)
    batches = []
    for base_offset in range(0, records, per_batch):
        time = _START + 37 * base_offset
        count = min(per_batch, records - base_offset)
        like = RecordBatch(base_offset=base_offset, partition_leader_epoch=3)
        batches.append(build_batch(_commit(base_offset, count, time, chance), like).encode())
    return b"".join(batches)


def _commit(offset: int, count: int, time: int, chance: random.Random) -> Iterator[RecordParts]:
    """The records of one batch: a group's commit of so many partitions."""
    topic = chance.choice(TOPICS)
    group = f"{topic}-{chance.randrange(1000)}"
    kind = chance.randrange(50)
    if kind == 0:
        yield _group_metadata(group, topic, time, chance)
        count -= 1
    for partition in range(count):
        key = encode_key(OffsetCommitKey(group, topic, partition))
        value = OffsetCommitValue(
            offset=1_000_000 + offset, leader_epoch=5, metadata="", commit_timestamp=time
        )
        yield key, None if kind == 1 else encode_value(value, 3), time, ()


def _group_metadata(group: str, topic: str, time: int, chance: random.Random) -> RecordParts:
    members = tuple(_member(group, topic, index, chance) for index in range(3))
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=7,
        protocol="range",
        leader=members[0].member_id,
        current_state_timestamp=time,
        members=tuple(
            MemberMetadata(
                member_id=member.member_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=300_000,
                session_timeout=45_000,
                subscription=member.member_metadata,
                assignment=member.member_assignment,
            )
            for member in members
        ),
    )
    return encode_key(GroupMetadataKey(group)), encode_value(value, 3), time, ()
