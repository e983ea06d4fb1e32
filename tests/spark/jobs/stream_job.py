"""Streams commits of a cluster into Parquet, a few at a time, until it is killed.

Arguments: bootstrap servers, directory for output and checkpoint.
"""

from __future__ import annotations

import sys
from pathlib import Path

from coterie.spark.session import session


def main() -> int:
    bootstrap, directory = sys.argv[1], Path(sys.argv[2])
    spark = session("local[2]")
    query = (
        spark.readStream.format("coterie")
        .option("bootstrap.servers", bootstrap)
        .option("maxOffsetsPerTrigger", "40")
        .load("commits")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .start(str(directory / "rows"))
    )
    query.awaitTermination()
    return 0


if __name__ == "__main__":
    sys.exit(main())
