"""The undo command as it is printed: for the same cluster, fit for a shell, without a secret."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.testing import EmbeddedCluster
from tests.unit.cli.conftest import Tool, runner


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders", partitions=1)
        yield cluster


@pytest.fixture(scope="module")
def other() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders", partitions=1)
        yield cluster


def offset(tool: Tool, group: str) -> int:
    (row,) = json.loads(tool("groups", "offsets", group, "-o", "json").stdout)
    return int(row["committed_offset"])


def hint(errors: str) -> list[str]:
    """The command that puts it back, as a shell splits it."""
    (line,) = (line for line in errors.splitlines() if line.startswith("  coterie groups import"))
    return shlex.split(line)[1:]


def test_the_printed_command_is_for_the_cluster_that_was_changed(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    cluster.scene("empty_group", "g", topic="orders", offset=42)
    nowhere = runner(tmp_path, "")
    undo = tmp_path / "it's an undo.json"
    where = ("-b", cluster.bootstrap_servers, "-X", "client.id=a b")
    done = nowhere("groups", "delete", "g", *where, "--execute", "--undo-file", str(undo))
    assert done.returncode == 0, done.stderr
    printed = hint(done.stderr)
    assert nowhere(*printed).returncode == 0
    assert offset(runner(tmp_path, cluster.bootstrap_servers), "g") == 42
    assert printed[-4:] == list(where)


def test_the_printed_command_names_context_and_file_but_no_secret(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    cluster.scene("empty_group", "g", topic="orders", offset=42)
    nowhere = runner(tmp_path, "")
    nowhere("context", "set", "here", f"bootstrap.servers={cluster.bootstrap_servers}")
    (tmp_path / "my.properties").write_text("request.timeout.ms=20000\n")
    where = ("--context", "here", "--command-config", "my.properties")
    secret = ("-X", "sasl.password=geheim", "-X", "sasl.username=ops")
    done = nowhere("groups", "delete", "g", *where, *secret, "--execute")
    assert done.returncode == 0, done.stderr
    assert hint(done.stderr)[-6:] == [*where, "-X", "sasl.username=ops"]
    assert "geheim" not in done.stderr
    assert "  and sasl.password again, by -X or COTERIE_SASL_PASSWORD" in done.stderr


def test_the_plans_path_is_quoted(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    cluster.scene("empty_group", "g", topic="orders")
    tool = runner(tmp_path, cluster.bootstrap_servers)
    done = tool("groups", "delete", "g", "--plan-out", "a plan.json")
    assert "apply it with --plan 'a plan.json' --execute" in done.stderr


def test_offsets_of_another_cluster_are_refused_unless_they_are_meant(
    cluster: EmbeddedCluster, other: EmbeddedCluster, tmp_path: Path
) -> None:
    cluster.scene("empty_group", "moving", topic="orders", offset=42)
    other.scene("empty_group", "moving", topic="orders", offset=7)
    here, there = (runner(tmp_path, each.bootstrap_servers) for each in (cluster, other))
    assert here("groups", "export", "moving", "--file", "offsets.json").returncode == 0
    for command in (("offsets.json",), ("offsets.json", "--execute")):
        refused = there("groups", "import", *command)
        assert refused.returncode == 1
        assert refused.stderr.startswith("Error: the offsets are those of cluster ")
        assert refused.stderr.endswith("; --any-cluster takes them all the same\n")
        assert offset(there, "moving") == 7
    done = there("groups", "import", "offsets.json", "--any-cluster", "--execute")
    assert done.returncode == 0, done.stderr
    assert offset(there, "moving") == 42


def test_plans_and_exports_of_named_groups_name_their_cluster(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    cluster.scene("empty_group", "named", topic="orders")
    tool = runner(tmp_path, cluster.bootstrap_servers)
    commands = (
        ("delete", "named", "--plan-out", "a.json"),
        ("delete-offsets", "named", "--topic", "orders", "--plan-out", "b.json"),
        ("reset", "named", "--to", "0", "--plan-out", "c.json"),
        ("export", "named", "--file", "d.json"),
    )
    for command in commands:
        assert tool("groups", *command).returncode == 0
        document = json.loads((tmp_path / command[-1]).read_text())
        assert document["cluster_id"] == cluster._twin.cluster.metadata.cluster_id


def test_a_file_that_names_no_cluster_is_for_any(
    cluster: EmbeddedCluster, other: EmbeddedCluster, tmp_path: Path
) -> None:
    cluster.scene("empty_group", "anywhere", topic="orders", offset=42)
    here, there = (runner(tmp_path, each.bootstrap_servers) for each in (cluster, other))
    assert here("groups", "export", "anywhere", "--file", "offsets.json").returncode == 0
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"cluster_id": None}))
    assert there("groups", "import", "offsets.json", "--execute").returncode == 0
    assert offset(there, "anywhere") == 42
