"""Reads segment files as a batch and as a stream, with the PySpark of this Python.

Arguments: directory of segment files, directory for the rows.
"""

from __future__ import annotations

import sys
from pathlib import Path

from coterie.errors import InvalidArgument
from coterie.spark.session import session
from coterie.spark.source import CoterieSource


def main() -> int:
    segments, out = Path(sys.argv[1]), Path(sys.argv[2])
    options = {"segments": str(segments)}
    with session("local[2]") as spark:
        batch = spark.read.format("coterie").options(**options).load("commits")
        batch.write.parquet(str(out / "batch"))
        stream = spark.readStream.format("coterie").options(**options).load("commits")
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(out / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(out / "stream"))
        )
        query.awaitTermination()
        older = tuple(map(int, spark.version.split(".")[:2])) < (4, 2)
    if _limit_is_refused(segments) != older:
        print("maxOffsetsPerTrigger must be refused before Spark 4.2, and only there")
        return 1
    return 0


def _limit_is_refused(segments: Path) -> bool:
    options = {"path": "commits", "segments": str(segments), "maxOffsetsPerTrigger": "70"}
    source = CoterieSource(options)
    try:
        source.streamReader(source.schema())
    except InvalidArgument as error:
        print(error)
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
