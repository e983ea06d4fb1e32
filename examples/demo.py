"""What `make demo` shows: `coterie demo`, and then what the cluster's own log of groups says about it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from group_log import tell_lives

from coterie.cli.demo import show
from coterie.testing import EmbeddedCluster


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="coterie-demo-") as directory:
        data = Path(directory) / "cluster"
        with EmbeddedCluster(brokers=3, data_dir=data) as cluster:
            show(cluster, Path(directory))
        print("# The cluster is stopped. What its log of groups says:\n")
        tell_lives(data)


if __name__ == "__main__":
    main()
