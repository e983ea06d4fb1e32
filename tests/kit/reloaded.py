"""What a start would find: the coordinators in the data directory of a server that was killed.

What this is: for servers that ran as a process of their own, which no watch can look into. A copy of the
directory is recovered and replayed as a start would do it; the directory itself is left as it is.
Who calls it: tests that kill a server, with the CommitLedger of what it has acknowledged.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from coterie.coordinator import CoordinatorShard, GroupConfig
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.server.group_service import replay_batch
from coterie.server.metadata.topics import CONSUMER_OFFSETS
from coterie.storage.data_directory import DataDirectory
from tests.kit.invariants import CommitLedger, check_consumer_group
from tests.kit.shard_history import Place, offsets_of

__all__ = ["check_killed"]


def check_killed(root: Path, ledger: CommitLedger) -> None:
    """I1 to I4 and I6, after the death of a server that had this directory."""
    found: dict[Place, int] = {}
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "copy"
        shutil.copytree(root, copy)
        first = list(_coordinators(copy))
        # What the recovery has cut off must not be missed by the next one.
        second = list(_coordinators(copy))
    for once, again in zip(first, second, strict=True):
        same = once.durable_state() == again.durable_state()
        assert same, "I4: two loads of one log differ"
        found |= offsets_of(once)
        for group in once._state.groups.values():
            if isinstance(group, ConsumerGroup):
                check_consumer_group(group)
    ledger.check(found)


def _coordinators(root: Path) -> Iterator[CoordinatorShard]:
    """The shards of all brokers under a server's directory, replayed."""
    for home in sorted(root.glob("broker-*")):
        directory = DataDirectory.open(home)
        try:
            for partition, log in sorted(directory.logs.items()):
                if partition.topic == CONSUMER_OFFSETS:
                    shard = CoordinatorShard(partition.partition, GroupConfig())
                    for batch in log.batches():
                        replay_batch(shard, batch)
                    yield shard
        finally:
            directory.close()
