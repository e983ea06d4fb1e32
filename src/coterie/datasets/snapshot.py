"""A snapshot: every live dataset of a cluster, filled from the same answers.

Each broker is asked once for its groups, each coordinator once about them, and each leader once where logs
begin and end. So a group's member count, its members and its offsets never contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
import pyarrow as pa

from coterie.client.blocking import BlockingAdminClient
from coterie.client.results import GroupDescription, Result, TopicDescription
from coterie.datasets.live import LiveQuery, Look, Trouble, look, once, plan_live
from coterie.datasets.live_rows import (
    Row,
    assignment_rows,
    end_offset_rows,
    group_row,
    member_row,
    offset_rows,
    record_batches,
)
from coterie.datasets.schemas import LIVE, schema
from coterie.datasets.selection import Selection
from coterie.protocol.group_state import GroupState

__all__ = ["LiveSnapshot", "take_snapshot"]

#: What cannot be learned is a row of `errors`. Whether the log of groups can be read, an ingest says.
_QUERY = LiveQuery("errors", with_log=False)


@dataclass(frozen=True)
class LiveSnapshot:
    """The rows of all live datasets, and when asking for them began and ended."""

    began_at: datetime
    ended_at: datetime
    tables: Mapping[str, pa.Table]


def take_snapshot(
    admin: BlockingAdminClient, topics: Result[str, TopicDescription] | None = None
) -> LiveSnapshot:
    """Ask a cluster about all of its groups. `topics` are all topics, if the caller has them already."""
    began_at = datetime.now(UTC)
    tasks = plan_live(admin, _QUERY)
    groups = [group for task in tasks for group in task.groups]
    looked = look(admin, _QUERY, groups, topics)
    ended_at = datetime.now(UTC)
    troubles = once([*(each for task in tasks for each in task.troubles), *looked.troubles])
    addresses = {node.node_id: node.address for node in admin.nodes}
    rows = _rows(looked, addresses, troubles)
    tables = {
        name: pa.Table.from_batches(record_batches(schema(name), rows[name]), schema=schema(name))
        for name in LIVE
    }
    return LiveSnapshot(began_at, ended_at, tables)


def _rows(
    looked: Look, addresses: Mapping[int, str], troubles: list[Trouble]
) -> dict[str, Iterator[Row]]:
    """The rows of each dataset, made when they are asked for."""
    # Of a group that is not there, older brokers say that it is dead.
    groups = [each for each in looked.lag.descriptions if each.state is not GroupState.DEAD]
    lags = [each for each in looked.lag if each.state is not GroupState.DEAD]
    own = set(looked.partitions)
    ends = {key: end for key, end in looked.ends.items.items() if key in own}
    return {
        "groups": (group_row(each, addresses.get(each.coordinator_id)) for each in groups),
        "members": (member_row(each, member) for each in groups for member in each.members),
        "assignments": _assignments(groups),
        "offsets": (row for each in lags for row in offset_rows(each)),
        "end_offsets": end_offset_rows(looked.starts.items, ends, looked.taken_at),
        "errors": map(msgspec.structs.asdict, troubles),
    }


def _assignments(groups: list[GroupDescription]) -> Iterator[Row]:
    everything = Selection()
    for group in groups:
        for member in group.members:
            yield from assignment_rows(group, member, everything)
