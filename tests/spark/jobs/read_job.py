"""Reads a log dataset and a live one, and prints what it found as JSON. Runs on any engine.

Arguments: segment directory, bootstrap servers, and maybe `--hold DIR`: then tasks wait until there is a file
`go` in DIR, so that somebody can kill an executor in the middle.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

SECRET = "hush-hush"
_PATIENCE_S = 240.0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("segments")
    parser.add_argument("bootstrap")
    parser.add_argument("--master")
    parser.add_argument("--remote")
    parser.add_argument("--hold", type=Path)
    options = parser.parse_args()
    spark = _session(options)
    commits = (
        spark.read.format("coterie")
        .option("segments", options.segments)
        .option("bytesPerTask", "1k")
        .option("columns", "partition,offset,group_id,committed_offset")
        .load("commits")
    )
    if options.hold is not None:
        commits = commits.mapInArrow(_holding(options.hold), commits.schema)
    rows = commits.where("group_id LIKE 'life-%'").toArrow()
    groups = (
        spark.read.format("coterie")
        .option("bootstrap.servers", options.bootstrap)
        # In place of a password, which would go the same way.
        .option("client.id", SECRET)
        .load("groups")
        .where("state = 'Empty'")
        .collect()
    )
    found = {
        "commits": sorted(map(list, zip(*rows.to_pydict().values(), strict=True))),
        "groups": sorted(row.group_id for row in groups),
    }
    print("RESULT " + json.dumps(found), flush=True)
    spark.stop()
    return 0


def _session(options: argparse.Namespace) -> SparkSession:
    builder: Any = SparkSession.builder
    if options.remote:
        builder = builder.remote(options.remote)
    elif options.master:
        builder = builder.master(options.master)
    return builder.config("spark.sql.python.filterPushdown.enabled", "true").getOrCreate()  # type: ignore[no-any-return]


def _holding(directory: Path) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Batches as they come, once there is a `go`; says before that a task has begun."""

    def hold(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            (directory / f"begun-{os.getpid()}").touch()
            deadline = time.monotonic() + _PATIENCE_S
            while not (directory / "go").exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            yield batch

    return hold


if __name__ == "__main__":
    sys.exit(main())
