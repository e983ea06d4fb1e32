"""Log datasets from segments that Apache Kafka wrote, against what its own tool says is in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from coterie.datasets.chunks import parse
from coterie.datasets.group_events import group_events
from coterie.datasets.log import LogQuery, SegmentSource, read_log
from coterie.datasets.schemas import LOG, pruned, schema
from coterie.protocol.group_records import encode_key, encode_value
from coterie.protocol.group_records.consumer import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    TopicMetadata,
)
from tests.kit.offsets_log import at, batch_of, dumped, expected_commit, golden_disk

pytestmark = pytest.mark.usefixtures("readers")

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> SegmentSource:
    return SegmentSource.at(str(golden_disk(tmp_path_factory.mktemp("disk"))))


def rows_of(source: SegmentSource, query: LogQuery) -> Rows:
    table = pa.Table.from_batches(
        read_log(source, query), schema=pruned(query.dataset, query.columns)
    )
    table.validate(full=True)
    rows: Rows = table.to_pylist()
    # A partition's rows are in order; partitions come as they are decided.
    return sorted(rows, key=lambda row: row["partition"])


def test_commits_are_what_kafkas_dump_shows(source: SegmentSource) -> None:
    expected = [expected_commit(row) for row in dumped() if row.get("key", {}).get("type") == "1"]
    found = rows_of(source, LogQuery("commits"))
    assert [{k: v for k, v in row.items() if k != "outcome"} for row in found] == expected
    assert len(expected) == 70


def test_transactions_have_the_outcome_of_their_markers(source: SegmentSource) -> None:
    markers: dict[tuple[int, str], list[tuple[int, str]]] = {}
    records = dumped()
    for row in records:
        if "endTxnMarker" in row:
            key = (row["partition"], row["batch"]["producerId"])
            markers.setdefault(key, []).append((int(row["offset"]), row["endTxnMarker"]))
    expected = {}
    for row in records:
        if row["batch"]["isTransactional"] == "true" and "endTxnMarker" not in row:
            ends = markers.get((row["partition"], row["batch"]["producerId"]), [])
            behind = [kind for offset, kind in ends if offset > int(row["offset"])]
            words = {"COMMIT": "committed", "ABORT": "aborted"}
            expected[row["partition"], int(row["offset"])] = words[behind[0]] if behind else "open"
    found = {
        (row["partition"], row["offset"]): row["outcome"]
        for row in rows_of(source, LogQuery("commits", ("partition", "offset", "outcome")))
        if row["outcome"] is not None
    }
    assert found == expected
    assert set(expected.values()) == {"committed", "aborted", "open"}


def test_every_record_is_in_the_log_with_kafkas_name_for_it(source: SegmentSource) -> None:
    from coterie.protocol.group_records import record_types  # noqa: PLC0415 - beside its only use

    expected = []
    for row in dumped():
        kind = row.get("key", {}).get("type")
        expected.append(
            (
                row["partition"],
                int(row["offset"]),
                at(row["CreateTime"]),
                int(row["keySize"]),
                int(row["valueSize"]),
                "EndTxnMarker" if kind is None else record_types()[int(kind)].name,
                None,
            )
        )
    found = [
        (
            row["partition"],
            row["offset"],
            row["timestamp"],
            len(row["key"]),
            -1 if row["value"] is None else len(row["value"]),
            row["record"],
            row["reason"],
        )
        for row in rows_of(source, LogQuery("log"))
    ]
    assert found == expected


def test_group_events_are_what_kafkas_dump_shows(source: SegmentSource) -> None:
    found = rows_of(source, LogQuery("group_events"))
    expected = [row for row in dumped() if row.get("key", {}).get("type") not in {None, "0", "1"}]
    assert len(found) == len(expected)
    kinds = set()
    for ours, row in zip(found, expected, strict=True):
        kinds.add(ours["record"])
        data = row["key"]["data"]
        assert (ours["partition"], ours["offset"]) == (row["partition"], int(row["offset"]))
        assert ours["group_id"] == (data.get("groupId") or data.get("group"))
        assert ours["member_id"] == data.get("memberId")
        assert ours["tombstone"] is (row["payload"] is None)
        if row["payload"]:
            assert_same_event(ours, row["payload"]["data"])
    assert len(kinds) >= 19


def assert_same_event(ours: dict[str, Any], value: dict[str, Any]) -> None:
    """Every field that both have is the same."""
    same = {
        "generation": ("generation", "epoch", "assignmentEpoch"),
        "member_epoch": ("memberEpoch",),
        "previous_member_epoch": ("previousMemberEpoch",),
        "client_id": ("clientId",),
        "client_host": ("clientHost",),
        "instance_id": ("instanceId",),
        "rack_id": ("rackId",),
        "leader_id": ("leader",),
        "protocol_type": ("protocolType",),
    }
    for column, names in same.items():
        for name in names:
            if name in value:
                assert ours[column] == value[name], (column, ours)
    if "subscribedTopicNames" in value:
        assert ours["subscription"] == value["subscribedTopicNames"]
    parts = value.get("assignedPartitions") or value.get("topicPartitions")
    if parts is not None and ours["group_type"] != "streams":
        assert [(each["topic_id"], each["partitions"]) for each in ours["assignment"]] == [
            (each["topicId"], each["partitions"]) for each in parts
        ]
    if "members" in value:
        assert [expected_member(each) for each in value["members"]] == ours["members"]


def expected_member(member: dict[str, Any]) -> dict[str, Any]:
    subscription, assignment = member["subscription"], member["assignment"]
    decoded = isinstance(subscription, dict)
    timeout = member.get("rebalanceTimeout", -1)
    return {
        "member_id": member["memberId"],
        "instance_id": member.get("groupInstanceId"),
        "client_id": member["clientId"],
        "client_host": member["clientHost"],
        "session_timeout_ms": member["sessionTimeout"],
        "rebalance_timeout_ms": timeout if timeout >= 0 else None,
        "subscription": subscription["topics"] if decoded else None,
        "assignment": [
            {"topic": each["topic"], "partitions": each["partitions"]}
            for each in assignment["assignedPartitions"]
        ]
        if decoded
        else None,
    }


@pytest.mark.parametrize(
    ("counts", "known"),
    [
        ((3,), True),
        ((-1, 2), True),
        ((1_000_000,), True),
        ((1_000_001,), False),
        ((600_000, 600_000), False),
        ((2**31 - 1,), False),
    ],
)
def test_as_many_partitions_as_no_topic_has_are_not_counted_out(
    counts: tuple[int, ...], known: bool
) -> None:
    """A record of a few bytes must not take gigabytes."""
    topics = tuple(
        TopicMetadata(topic_name=f"topic-{index}", num_partitions=count)
        for index, count in enumerate(counts)
    )
    key = encode_key(ConsumerGroupPartitionMetadataKey("g"))
    value = encode_value(ConsumerGroupPartitionMetadataValue(topics=topics), 0)
    chunk = parse(0, batch_of([(key, value)]), 0, None)
    found = group_events(chunk, chunk.data_rows(), schema("group_events"))
    sizes = pc.list_value_length(found.column("assignment").flatten().field("partitions"))
    assert sizes.to_pylist() == [max(each, 0) if known else None for each in counts]


@pytest.mark.parametrize("name", LOG)
def test_each_column_alone_is_as_among_all(source: SegmentSource, name: str) -> None:
    whole = rows_of(source, LogQuery(name))
    assert list(whole[0]) == schema(name).names
    for column in schema(name).names:
        alone = rows_of(source, LogQuery(name, ("partition", column)))
        assert [row[column] for row in alone] == [row[column] for row in whole], column


def test_duckdb_reads_the_batches(source: SegmentSource, tmp_path: Path) -> None:
    import duckdb  # noqa: PLC0415 - another engine, for this test alone

    reader = pa.RecordBatchReader.from_batches(
        schema("commits"), read_log(source, LogQuery("commits"))
    )
    with duckdb.connect() as engine:
        engine.register("commits", reader)
        found = engine.execute(
            "SELECT group_id, count(*) FROM commits WHERE NOT tombstone GROUP BY 1 ORDER BY 2 DESC"
        ).fetchall()
    assert sum(count for _, count in found) == sum(
        not row["tombstone"] for row in rows_of(source, LogQuery("commits"))
    )
