"""Answers as dicts, JSON and Arrow tables: always the same columns, and what is missing stays told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from coterie.client import (
    AdminClient,
    BrokerFailure,
    Done,
    GroupChange,
    GroupDescription,
    GroupLag,
    GroupListing,
    GroupOffsets,
    GroupState,
    GroupType,
    LogOffset,
    Member,
    Node,
    PartitionLag,
    PartitionOffset,
    Result,
    TopicDescription,
    TopicPartition,
)
from coterie.client.results import PartitionInfo
from coterie.errors import CoterieError
from coterie.testing import EmbeddedCluster
from tests.integration.client.talk import played

ORDERS = TopicPartition("orders", 0)
PLACE = {"topic": "orders", "partition": 0}

MEMBER = Member(
    "m-1", "client", "/127.0.0.1", subscription=("orders",), assignment=(ORDERS,), metadata=b"\0\1"
)
ITEMS = {
    GroupListing: GroupListing("g", "consumer", GroupState.STABLE, None, 1),
    GroupDescription: GroupDescription(
        "g",
        GroupType.CLASSIC,
        GroupState.STABLE,
        "consumer",
        1,
        (MEMBER,),
        authorized_operations=("READ",),
        sources={"leader_id": "the log"},
    ),
    GroupOffsets: GroupOffsets("g", {ORDERS: PartitionOffset(7, 1, "note")}, {ORDERS: "no"}),
    GroupLag: GroupLag(
        "g", GroupType.CLASSIC, GroupState.EMPTY, (PartitionLag(ORDERS, 1, None, 3, 2, None, None),)
    ),
    GroupChange: GroupChange("g", (ORDERS,), {ORDERS: "no"}),
    TopicDescription: TopicDescription(
        "orders",
        internal=False,
        partitions=(PartitionInfo(0, None, (1, 2), (1,)),),
        topic_id="AAAAAAAAQACAAAAAAAAAAA",
    ),
    Done: Done("g"),
    LogOffset: LogOffset(3, None, 1),
    Node: Node(1, "localhost", 9092),
}


def result_of(kind: type, *, empty: bool = False) -> Result[object, object]:
    key = ORDERS if kind is LogOffset else "g"
    return Result({} if empty else {key: ITEMS[kind]}, kind=kind)


@pytest.mark.parametrize("kind", ITEMS)
def test_every_answer_is_rows_json_and_a_table(kind: type) -> None:
    result = result_of(kind)
    (row,) = result.to_dicts()
    table = result.to_arrow()
    assert table.column_names == list(row)
    (read,) = table.to_pylist()
    # Arrow has no dicts of its own; what is a dict here is a list of pairs there.
    assert {
        **read,
        **{name: dict(read[name]) for name in row if isinstance(row[name], dict)},
    } == row
    told = json.loads(result.to_json())
    # A partition that only has an error makes the whole answer less than whole.
    assert told["complete"] is (kind not in (GroupOffsets, GroupChange))
    assert set(told["items"][0]) == set(row)


@pytest.mark.parametrize("kind", ITEMS)
def test_an_empty_table_has_the_same_columns(kind: type) -> None:
    full, empty = result_of(kind).to_arrow(), result_of(kind, empty=True).to_arrow()
    assert empty.num_rows == 0
    assert empty.schema.equals(full.schema)
    assert not any(pa.types.is_null(column) for column in full.schema.types)


def test_partitions_are_always_two_columns() -> None:
    assert result_of(LogOffset).to_dicts() == [
        {**PLACE, "offset": 3, "timestamp": None, "leader_epoch": 1}
    ]
    (group,) = result_of(GroupOffsets).to_dicts()
    assert group["offsets"] == [
        {**PLACE, "committed_offset": 7, "leader_epoch": 1, "metadata": "note"}
    ]
    assert group["errors"] == [{**PLACE, "error": "no"}]
    (lag,) = result_of(GroupLag).to_dicts()
    assert lag["partitions"][0].items() >= {**PLACE, "lag": 2}.items()
    (described,) = result_of(GroupDescription).to_dicts()
    assert described["members"][0]["assignment"] == [PLACE]
    (node,) = result_of(Node).to_dicts()
    assert node == {"group_id": "g", "node_id": 1, "host": "localhost", "port": 9092}


def test_what_is_missing_goes_with_every_form() -> None:
    failure = BrokerFailure(2, "localhost:9093", "connection refused")
    result = Result(
        {"g": ITEMS[GroupListing]}, {"h": CoterieError("group 'h': lost")}, (failure,), GroupListing
    )
    told = json.loads(result.to_json())
    assert told["complete"] is False
    assert told["errors"] == {"h": "group 'h': lost"}
    assert told["broker_errors"][0]["cause"] == "connection refused"
    notes = result.to_arrow().schema.metadata
    assert notes[b"coterie.complete"] == b"false"
    assert b"connection refused" in notes[b"coterie.broker_errors"]


def test_a_result_is_frozen_and_prints_well() -> None:
    result = result_of(GroupListing)
    with pytest.raises(AttributeError):
        result.items = {}  # type: ignore[misc]
    assert repr(result) == "<1 items, complete>"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3) as running:
        running.scene("stable_group", "stable", members=2)
        running.scene("empty_group", "empty", offset=0)
        yield running


def test_every_call_gives_a_table(cluster: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        groups = await admin.list_groups()
        assert groups.to_arrow().num_rows == 2
        tables: list[Result[Any, Any]] = [
            await admin.describe_groups(groups.items),
            await admin.list_offsets(groups.items),
            await admin.lag(groups.items),
            await admin.find_coordinators(groups.items),
            await admin.describe_topics(["orders"]),
            await admin.log_offsets([ORDERS]),
            await admin.alter_offsets({"empty": {ORDERS: 0}}),
            await admin.delete_offsets({"empty": [ORDERS]}),
            await admin.delete_groups(["empty"]),
        ]
        assert [each.to_arrow().num_rows for each in tables] == [2, 2, 2, 2, 1, 1, 1, 1, 1]
        # Nothing to tell is a table as well.
        assert (await admin.list_groups(states={"Dead"})).to_arrow().column_names[0] == "group_id"
        assert (await admin.describe_groups([])).to_arrow().num_rows == 0

    played(cluster, scene)
