"""What `make demo` shows: `coterie demo`, and what the cluster's own log of groups says about it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from group_log import tell_lives

from coterie.cli.demo import show, show_pipeline
from coterie.testing import EmbeddedCluster

#: Tables and reports stay here.
OUT = Path(__file__).resolve().parent.parent / "build" / "demo"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="coterie-demo-") as directory:
        data = Path(directory) / "cluster"
        with EmbeddedCluster(brokers=3, data_dir=data) as cluster:
            show(cluster, Path(directory))
            print("# What the cluster's log of groups says:\n")
            tell_lives(data)
            show_pipeline(cluster, Path(directory), OUT)


if __name__ == "__main__":
    main()
