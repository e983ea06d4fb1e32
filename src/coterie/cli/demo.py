"""`coterie demo`: a cluster in this process, groups in every state, both commands and the pipeline at work.

Everything that is shown is run: a line that begins with `$` is a process of its own, and what follows is what
it wrote.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from coterie.console.directories import state_directory
from coterie.console.options import LocalPath
from coterie.console.terminal import Ink, flush, write

if TYPE_CHECKING:
    from coterie.testing import EmbeddedCluster

__all__ = ["command", "show", "show_pipeline"]

_PROGRAMS: Final = {
    "coterie": "coterie.cli.main",
    "kafka-consumer-groups": "coterie.cli.consumer_groups.main",
}

#: Why groups rebalanced, over all of the log.
_CAUSES: Final = (
    "SELECT cause, count(*) AS rebalances, count(DISTINCT group_id) AS groups"
    " FROM rebalances GROUP BY cause ORDER BY rebalances DESC"
)


@click.command("demo")
@click.option(
    "--out",
    type=LocalPath(file_okay=False, path_type=Path),
    help="Directory for the pipeline's tables and reports (default: in the user's state directory).",
)
@click.option("--spark/--no-spark", default=True, help="Show the pipeline, or leave it out.")
def command(out: Path | None, *, spark: bool) -> None:
    """Start a cluster with groups in every state, and show both commands and the pipeline on it."""
    from coterie.testing import EmbeddedCluster

    with tempfile.TemporaryDirectory(prefix="coterie-demo-") as directory:
        data = Path(directory) / "cluster"
        with EmbeddedCluster(brokers=3, data_dir=data) as cluster:
            show(cluster, Path(directory))
            if spark:
                show_pipeline(cluster, Path(directory), out or state_directory("demo"))


def show(cluster: EmbeddedCluster, directory: Path) -> None:
    """Both commands, on a cluster without groups; files go to the directory."""
    stage = Stage(cluster, directory)
    for chapter in CHAPTERS:
        chapter(stage)


def show_pipeline(cluster: EmbeddedCluster, directory: Path, out: Path) -> None:
    """The pipeline on a cluster and on a simulated fleet; `out` is replaced, and stays."""
    stage = Stage(cluster, directory)
    missing = [
        name
        for name, found in (
            ("coterie[spark]", find_spec("pyspark") and find_spec("pyarrow")),
            ("Java 17", shutil.which("java") or os.environ.get("JAVA_HOME")),
        )
        if not found
    ]
    if missing:
        stage.say(f"The pipeline on Spark is left out: it needs {' and '.join(missing)}")
        return
    shutil.rmtree(out, ignore_errors=True)
    live, history = shlex.quote(str(out / "live")), shlex.quote(str(out / "history"))
    stage.say("This cluster and its whole log of groups, as tables and a report")
    stage.run(f"coterie pipeline run --bootstrap-server {cluster.bootstrap_servers} --out {live}")
    stage.say("Twelve hours of sixty groups, simulated, as tables and a report")
    stage.run("coterie simulate --groups 60 --hours 12 --out fleet")
    stage.run(f"coterie pipeline run --segments fleet --out {history}")
    stage.run(f'coterie pipeline sql "{_CAUSES}" --out {history}')
    stage.say("Open in a browser:")
    for name in ("live", "history"):
        write(f"  {(out / name / 'report' / 'report.html').as_uri()}\n")
    flush()


class Stage:
    """Where a chapter plays: it can say something and run a command."""

    def __init__(self, cluster: EmbeddedCluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self._ink = Ink(sys.stdout)

    def say(self, text: str) -> None:
        write(self._ink(f"# {text}", "cyan") + "\n")
        flush()

    def run(self, line: str) -> None:
        """Run one of the commands as a process and show what it writes."""
        program, *arguments = shlex.split(line)
        module = _PROGRAMS[program]
        write(self._ink(f"$ {line}", "bold") + "\n")
        flush()
        code = f"from {module} import main; main()"
        environment = os.environ | {
            "COTERIE_BOOTSTRAP_SERVERS": self.cluster.bootstrap_servers,
            "XDG_STATE_HOME": str(self.directory),
            "XDG_CONFIG_HOME": str(self.directory),
        }
        subprocess.run(  # noqa: S603 - the lines are ours
            [sys.executable, "-c", code, *arguments],
            env=environment,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT if sys.stdout.isatty() else None,
            check=False,
        )
        write("\n")

    def kafka_tool(self, arguments: str) -> None:
        """Run the drop-in for Apache Kafka's tool."""
        server = self.cluster.bootstrap_servers.split(",")[0]
        self.run(f"kafka-consumer-groups --bootstrap-server {server} {arguments}")


def _set_the_scene(stage: Stage) -> None:
    cluster = stage.cluster
    stage.say(f"Three brokers run in this process: {cluster.bootstrap_servers}")
    cluster.create_topic("orders", partitions=2)
    cluster.scene("lagging_group", "reports", lag=50)
    cluster.scene("empty_group", "audit", offset=50)
    cluster.scene("empty_group", "billing", offset=48)
    cluster.scene("stable_group", "billing", members=2)
    cluster.scene("rebalancing_group", "restless")
    for number in range(1, 6):
        cluster.scene("stale_group", f"session-{number}", days=30 * number)


def _states(stage: Stage) -> None:
    stage.say("What groups are there, and what are they doing?")
    stage.run("coterie groups list")
    stage.say("Brokers filter by state (KIP-518)")
    stage.run("coterie groups list --state Stable,CompletingRebalance")
    stage.kafka_tool("--list --state Empty")


def _description(stage: Stage) -> None:
    stage.say(
        "One group in full: generation, leader, assignment strategy and subscription (KIP-181)"
    )
    stage.run("coterie groups describe billing")
    stage.kafka_tool("--describe --group billing --state --kip-181")


def _lag(stage: Stage) -> None:
    stage.say("Who is behind, and by how much?")
    stage.run("coterie groups lag --by group --sort -lag")
    stage.kafka_tool("--describe --group reports")


def _bulk_delete(stage: Stage) -> None:
    stage.say("What has nobody used for 45 days? A plan; nothing is changed")
    choice = "--state Empty --match ^session- --idle-for 45d"
    stage.run(f"coterie groups delete {choice} --plan-out plan.json")
    stage.say("Executed: each state is checked again, offsets are saved first")
    stage.run("coterie groups delete --plan plan.json --execute --undo-file undo.json")
    stage.say("That was a mistake. Undo")
    stage.run("coterie groups import undo.json --execute")
    stage.run("coterie groups offsets --match ^session- --topic orders:0")


def _broker_death(stage: Stage) -> None:
    node = stage.cluster.coordinator_of("billing")
    stage.cluster.kill_broker(node)
    stage.say(f"Broker {node}, which coordinated billing, was killed; another one took over")
    stage.run("coterie groups list --type classic --columns group,state,coordinator")


#: The chapters in order; one that shows another part of Coterie is added here.
CHAPTERS: Final[tuple[Callable[[Stage], None], ...]] = (
    _set_the_scene,
    _states,
    _description,
    _lag,
    _bulk_delete,
    _broker_death,
)
