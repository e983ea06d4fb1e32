"""A snapshot without Spark: its tables agree, and it says when it was taken."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from coterie.spark.pipeline.snapshot import snapshot
from coterie.spark.pipeline.store import TableStore
from coterie.testing import EmbeddedCluster


def test_tables_agree_and_the_snapshot_has_a_beginning_and_an_end(tmp_path: Path) -> None:
    with EmbeddedCluster(brokers=2) as cluster:
        cluster.create_topic("orders", partitions=4)
        cluster.scene("stable_group", "billing", topic="orders", members=2)
        cluster.scene("lagging_group", "reports", topic="orders", lag=5)
        store = TableStore(tmp_path)
        taken = snapshot(store, {"bootstrap.servers": cluster.bootstrap_servers})

    def rows(name: str) -> list[dict[str, object]]:
        return [row for path in store.paths(name) for row in pq.read_table(path).to_pylist()]

    counts = {row["group_id"]: row["member_count"] for row in rows("groups")}
    members = [row["group_id"] for row in rows("members")]
    assert counts == {"billing": members.count("billing"), "reports": 0}
    ends = {row["partition"]: row["log_end"] for row in rows("end_offsets")}
    assert {(row["partition"], row["log_end"]) for row in rows("offsets")} == set(ends.items())
    (row,) = rows("snapshots")
    assert (row["snapshot_id"], row["taken_at"]) == (taken.snapshot_id, taken.taken_at)
    assert row["taken_at"] < row["ended_at"]  # type: ignore[operator]
    assert (row["group_count"], row["error_count"]) == (2, 0)
