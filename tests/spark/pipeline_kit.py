"""What the tests of the pipeline share: the command in this process, and what is in tables in the end."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner, Result

from coterie.cli.pipeline import command
from coterie.console.rendering import plain
from coterie.spark.pipeline.store import TableStore
from tests.spark.killed import Killed
from tests.unit.spark.tables import rows_of

__all__ = ["Made", "everything", "must_agree", "pipeline"]


class Made(NamedTuple):
    """What `coterie pipeline run` made of segment files after it was killed twice, and what it said."""

    segments: Path
    out: Path
    said: str
    killed_in_ingest: Killed
    killed_in_build: Killed


def pipeline(*arguments: str | Path) -> Result:
    """Run the command in this process, on the session that the tests have."""
    return CliRunner().invoke(command, [str(each) for each in arguments], catch_exceptions=False)


def everything(out: Path) -> dict[str, list[str]]:
    """All rows of all tables as they are on disk, in an order of their own."""
    store = TableStore(out)
    return {
        name: sorted(json.dumps(plain(row)) for row in rows_of(store, name))
        for name in store.tables
    }


def must_agree(out: Path, groups: set[str]) -> dict[str, list[dict[str, Any]]]:
    """Check that every mart says of these groups what the snapshot and the log beside it say; their rows."""
    store = TableStore(out)
    rows = {
        name: [row for row in rows_of(store, name) if row.get("group_id", None) in groups]
        for name in store.tables
    }
    live = {row["group_id"]: row for row in rows["groups"]}
    summary = {row["group_id"]: row for row in rows["group_summary"]}
    assert set(live) == set(summary) == groups
    for group, row in summary.items():
        assert (row["type"], row["state"]) == (live[group]["type"], live[group]["state"])
        assert row["member_count"] == live[group]["member_count"], group
    _offsets_must_agree(rows)
    _rebalances_must_agree(rows, live)
    subscribed = Counter(
        (row["group_id"], topic) for row in rows["members"] for topic in row["subscription"] or ()
    )
    assert subscribed == +Counter(
        {(r["group_id"], r["topic"]): r["subscribed_members"] for r in rows["topic_subscribers"]}
    )
    # All of them were busy a moment ago.
    assert rows["stale_groups"] == []
    assert all(row["evidence"] and row["next_step"] for row in rows["health"])
    return rows


def _offsets_must_agree(rows: dict[str, list[dict[str, Any]]]) -> None:
    known = [row for row in rows["offsets"] if row["committed_offset"] is not None]
    assert {
        (row["group_id"], row["topic"], row["partition"]): (row["committed_offset"], row["lag"])
        for row in rows["lag"]
    } == {
        (row["group_id"], row["topic"], row["partition"]): (row["committed_offset"], row["lag"])
        for row in known
    }
    counted = Counter(
        row["group_id"]
        for row in rows["commits"]
        if not row["tombstone"] and row["outcome"] in {None, "committed"}
    )
    rates: Counter[str] = Counter()
    for row in rows["commit_rates"]:
        rates[row["group_id"]] += row["commits"]
    assert rates == counted
    totals: Counter[str] = Counter()
    for row in rows["lag"]:
        totals[row["group_id"]] += row["lag"]
    last = {(row["group_id"], row["topic"]): row for row in rows["lag_history"]}
    for (group, _), row in last.items():
        assert row["lag"] <= totals[group]


def _rebalances_must_agree(
    rows: dict[str, list[dict[str, Any]]], live: dict[str, dict[str, Any]]
) -> None:
    newest: dict[str, dict[str, Any]] = {}
    for row in sorted(rows["rebalances"], key=lambda row: int(row["log_offset"])):
        newest[row["group_id"]] = row
    with_members = {group for group, row in live.items() if row["member_count"]}
    assert set(newest) >= with_members
    for group in with_members:
        assert newest[group]["group_type"] == live[group]["type"]
        assert newest[group]["member_count"] == live[group]["member_count"]
        assert live[group]["generation"] in {None, newest[group]["generation"]}
