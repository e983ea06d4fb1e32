"""The embedded cluster beside Apache Kafka and franz-go's kfake, all with one load generator.

Every server is a process of its own. All of them are up at the same time and hold the same groups; one is
loaded at a time, and they take turns. Ours is on disk with a sync before each answer unless a row says
`memory`; kfake syncs too, and Kafka does not, as is its default. A peer that cannot be had here is left
out, with a line that says so.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from bench import consumer_groups, rebalance, scale, servers
from bench.harness import Measurement, Round, must_equal
from bench.load import Load, one_answer, run
from bench.scene import TINY, Sizes, prepare
from bench.servers import MakeServer, Server, Unavailable

__all__ = ["MAKE", "measurements"]

START_GOAL: Final = 10.0
MEMORY_GOAL: Final = 5.0
REBALANCE_GOAL: Final = 0.5
CONSUMER_REBALANCE_GOAL: Final = 1.0

#: Name, load, our server, peer, goal.
_RATES: Final = (
    ("commit_1_group_kafka", "commit_1_group", "disk", "kafka", 2.5),
    ("commit_1_group_kfake", "commit_1_group", "disk", "kfake", 4.0),
    ("commit_64_groups_kafka", "commit_64_groups", "disk", "kafka", 2.5),
    ("commit_64_groups_kfake", "commit_64_groups", "disk", "kfake", 4.0),
    ("commit_memory_1_group", "commit_1_group", "memory", "kafka", 4.0),
    ("commit_memory_64_groups", "commit_64_groups", "memory", "kafka", 4.0),
    ("heartbeat", "heartbeat", "disk", "kafka", 2.0),
    ("find_coordinator_100", "find_coordinator_100", "disk", "kafka", 1.0),
    ("list_groups", "list_groups", "disk", "kafka", 1.0),
    ("describe_groups_100", "describe_groups_100", "disk", "kafka", 1.0),
    ("offset_fetch_100", "offset_fetch_100", "disk", "kafka", 1.0),
    # Without a goal: how long one commit takes is the disk's affair.
    ("commit_1_in_flight", "commit_1_group", "disk", "kafka", 0.0),
)
_ONE_IN_FLIGHT: Final = "commit_1_in_flight"
#: Ours and the peers, in the order in which they are started.
MAKE: Final[dict[str, MakeServer]] = {
    "disk": servers.coterie,
    "memory": lambda home: servers.coterie(home, memory=True),
    "kafka": servers.kafka,
    "kfake": servers.kfake,
}
_SECONDS_UNTIL_IDLE: Final = 3.0
_RATE_ROUNDS: Final = 7
_START_ROUNDS: Final = 3
_REBALANCE_ROUNDS: Final = 5


def measurements(*, tiny: bool = False) -> Iterator[Measurement]:
    """All of this part. The servers run until the last measurement was taken."""
    sizes = TINY if tiny else Sizes()
    with tempfile.TemporaryDirectory(prefix="coterie-bench-", ignore_cleanup_errors=True) as root:
        with ExitStack() as until_the_end:
            field = _Field(Path(root), sizes, until_the_end)
            yield from field.measurements()
        yield from scale.measurements(Path(root) / "scale", sizes)


class _Field:
    """The servers that run, and what they are asked."""

    def __init__(self, root: Path, sizes: Sizes, until_the_end: ExitStack) -> None:
        self._root = root
        self._sizes = sizes
        self._numbers = count()
        self._servers: dict[str, Server] = {}
        self._loads: dict[str, dict[str, Load]] = {}
        for kind, make in MAKE.items():
            try:
                server = make(self._root / kind)
            except Unavailable as error:
                print(f"NOT MEASURED: {kind} cannot be had here: {error}", file=sys.stderr)
                continue
            until_the_end.callback(server.stop)
            server.start()
            self._servers[kind] = server

    def measurements(self) -> Iterator[Measurement]:
        if "kafka" in self._servers:
            yield self._start()
            yield self._idle_memory()
        for kind, server in self._servers.items():
            self._loads[kind] = prepare(server, self._sizes)
        self._warm_up()
        for name, load, ours, peer, goal in _RATES:
            if peer in self._servers:
                yield self._rate(name, load, ours, peer, goal)
        if "kafka" in self._servers:
            yield from map(self._rebalance, self._sizes.members)
            yield self._consumer_rebalance(max(self._sizes.members))

    def _start(self) -> Measurement:
        """A fresh server each time, its storage formatted beforehand if it wants that."""

        def one_start(kind: str) -> float:
            server = MAKE[kind](self._root / f"start-{next(self._numbers)}")
            try:
                return server.start() * 1e3
            finally:
                server.stop()

        return Measurement(
            name="cluster.start",
            ours=partial(one_start, "disk"),
            peers={"kafka": partial(one_start, "kafka")},
            goal=START_GOAL,
            agree=lambda: None,  # both answered ListGroups, or there is no figure
            max_rounds=_START_ROUNDS,
        )

    def _idle_memory(self) -> Measurement:
        """Of servers that have listed no groups and done nothing else."""
        if self._sizes is not TINY:
            time.sleep(_SECONDS_UNTIL_IDLE)
        return Measurement(
            name="cluster.idle_memory",
            ours=self._servers["disk"].memory_mb,
            peers={"kafka": self._servers["kafka"].memory_mb},
            goal=MEMORY_GOAL,
            agree=lambda: None,
            unit="MB",
            max_rounds=1,
        )

    def _warm_up(self) -> None:
        """Every kind of request to every server; to Kafka for longer, since a JVM is slow at first."""
        for kind, server in self._servers.items():
            seconds = self._sizes.warm_up_seconds if kind == "kafka" else self._sizes.seconds
            for load in self._loads[kind].values():
                run(server.address, load, in_flight=self._sizes.in_flight, seconds=seconds)

    def _rate(self, name: str, load: str, ours: str, peer: str, goal: float) -> Measurement:
        in_flight = 1 if name == _ONE_IN_FLIGHT else self._sizes.in_flight

        def rounds_of(kind: str) -> Round:
            address, own = self._servers[kind].address, self._loads[kind][load]
            seconds = self._sizes.seconds
            return _on_a_quiet_disk(
                partial(run, address, own, in_flight=in_flight, seconds=seconds)
            )

        def agree() -> None:
            found = {
                kind: one_answer(self._servers[kind].address, self._loads[kind][load])
                for kind in (ours, peer)
            }
            must_equal(f"our answer for {name}", self._loads[ours][load].expected, found[ours])
            must_equal(f"{peer}'s answer for {name}", found[ours], found[peer])

        return Measurement(
            name=f"cluster.{name}",
            ours=rounds_of(ours),
            peers={peer: rounds_of(peer)},
            goal=goal,
            agree=agree,
            unit="/s",
            is_rate=True,
            max_rounds=_RATE_ROUNDS,
        )

    def _rebalance(self, members: int) -> Measurement:
        def p50(kind: str, rounds: int) -> float:
            group = f"rebalance-{members}-{next(self._numbers)}"
            return rebalance.p50_of_rebalances(self._servers[kind], group, members, rounds)

        def agree() -> None:
            for kind in ("disk", "kafka"):
                p50(kind, 1)

        rounds = self._sizes.rebalances
        return Measurement(
            name=f"cluster.rebalance_{members}",
            ours=_on_a_quiet_disk(partial(p50, "disk", rounds)),
            peers={"kafka": _on_a_quiet_disk(partial(p50, "kafka", rounds))},
            goal=REBALANCE_GOAL,
            agree=agree,
            max_rounds=_REBALANCE_ROUNDS,
        )

    def _consumer_rebalance(self, members: int) -> Measurement:
        """The same under KIP-848: one member joins and leaves."""

        def p50(kind: str, rounds: int) -> float:
            group = f"rebalance-kip848-{members}-{next(self._numbers)}"
            server = self._servers[kind]
            return consumer_groups.p50_of_consumer_rebalances(server, group, members, rounds)

        def agree() -> None:
            for kind in ("disk", "kafka"):
                p50(kind, 1)

        rounds = self._sizes.rebalances
        return Measurement(
            name=f"cluster.rebalance_kip848_{members}",
            ours=_on_a_quiet_disk(partial(p50, "disk", rounds)),
            peers={"kafka": _on_a_quiet_disk(partial(p50, "kafka", rounds))},
            goal=CONSUMER_REBALANCE_GOAL,
            agree=agree,
            max_rounds=_REBALANCE_ROUNDS,
        )


def _on_a_quiet_disk(one_round: Round) -> Round:
    """Whoever does not sync leaves that to the kernel; who comes next must not wait for it."""

    def with_nothing_left_to_write() -> float:
        os.sync()
        return one_round()

    return with_nothing_left_to_write
