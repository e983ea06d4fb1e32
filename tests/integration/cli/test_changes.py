"""Changes on our cluster: planned, shown, made, undone. Nothing happens unasked; nothing is lost."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from coterie.testing import EmbeddedCluster
from tests.unit.cli.conftest import COTERIE, Tool, environment, runner

SCHEMAS = Path(__file__).parent.parent.parent.parent / "docs" / "schemas"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=2) as cluster:
        cluster.create_topic("orders", partitions=2)
        cluster.scene("lagging_group", "filler", lag=100)
        yield cluster


@pytest.fixture
def tool(cluster: EmbeddedCluster, tmp_path: Path) -> Tool:
    return runner(tmp_path, cluster.bootstrap_servers)


def offsets(tool: Tool, group: str) -> dict[int, int]:
    done = tool("groups", "offsets", group, "-o", "json")
    return {row["partition"]: row["committed_offset"] for row in json.loads(done.stdout)}


def names(tool: Tool, match: str) -> list[str]:
    return tool("groups", "list", "-o", "name", "--match", match).stdout.split()


def fits(path: Path, schema: str) -> None:
    jsonschema.validate(
        json.loads(path.read_text(encoding="utf-8")),
        json.loads((SCHEMAS / f"{schema}.json").read_text(encoding="utf-8")),
    )


def test_bulk_delete_by_state_name_and_idle_time_and_its_undo(
    cluster: EmbeddedCluster, tool: Tool, tmp_path: Path
) -> None:
    for number in range(3):
        cluster.scene("stale_group", f"bulk-{number}", days=40 * number)
    before = {name: offsets(tool, name) for name in ("bulk-1", "bulk-2")}
    plan, undo = tmp_path / "plan.json", tmp_path / "undo.json"
    choice = ("--state", "Empty", "--match", "^bulk-", "--idle-for", "30d")

    planned = tool("groups", "delete", *choice, "--plan-out", str(plan))
    assert planned.returncode == 0
    assert planned.stdout.split()[5:].count("Empty") == 2
    assert names(tool, "^bulk-") == ["bulk-0", "bulk-1", "bulk-2"]
    fits(plan, "plan")

    made = tool("groups", "delete", "--plan", str(plan), "--execute", "--undo-file", str(undo))
    assert made.returncode == 0, made.stderr
    assert f"coterie groups import {undo} --execute" in made.stderr
    assert names(tool, "^bulk-") == ["bulk-0"]
    fits(undo, "offsets-file")

    back = tool("groups", "import", str(undo), "--execute")
    assert back.returncode == 0, back.stderr
    assert {name: offsets(tool, name) for name in before} == before
    assert tool("groups", "import", str(undo), "--execute").stdout.count("unchanged") == 2


@pytest.mark.parametrize(
    "change",
    [
        ("delete", "dry"),
        ("reset", "dry", "--to", "earliest"),
        ("delete-offsets", "dry", "--topic", "orders"),
        ("clone", "dry", "dry-copy"),
    ],
)
def test_nothing_changes_without_execute(
    change: tuple[str, ...], cluster: EmbeddedCluster, tool: Tool, tmp_path: Path
) -> None:
    cluster.scene("empty_group", "dry", offset=42)
    done = tool("groups", *change)
    assert done.returncode == 0, done.stderr
    assert "Nothing was changed. Add --execute to apply the plan." in done.stderr
    assert offsets(tool, "dry") == {0: 42, 1: 42}
    assert names(tool, "^dry") == ["dry"]
    assert not (tmp_path / "state").exists()


def test_a_plan_is_refused_for_a_group_that_is_no_longer_as_it_was(
    cluster: EmbeddedCluster, tool: Tool, tmp_path: Path
) -> None:
    cluster.scene("empty_group", "moved-on", offset=10)
    cluster.scene("empty_group", "woken")
    plan = tmp_path / "plan.json"
    assert tool("groups", "delete", "moved-on", "woken", "--plan-out", str(plan)).returncode == 0
    cluster.scene("empty_group", "moved-on", offset=11)
    cluster.scene("stable_group", "woken")
    done = tool("groups", "delete", "--plan", str(plan), "--execute")
    assert done.returncode == 1
    assert "orders-0 was 10 in the plan and is 11 now" in done.stdout
    assert "it has members: its state is Stable; stop them first" in done.stdout
    assert offsets(tool, "moved-on") == {0: 11, 1: 11}
    assert not (tmp_path / "state").exists()


def test_a_plan_is_refused_on_another_cluster(tool: Tool, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert tool("groups", "delete", "filler", "--plan-out", str(plan)).returncode == 0
    document = json.loads(plan.read_text())
    plan.write_text(json.dumps(document | {"cluster_id": "another"}))
    done = tool("groups", "delete", "--plan", str(plan), "--execute")
    assert done.returncode == 1
    assert "the plan was made for cluster another" in done.stderr
    assert names(tool, "^filler$") == ["filler"]


def test_a_minimal_plan_of_another_author_is_enough(
    cluster: EmbeddedCluster, tool: Tool, tmp_path: Path
) -> None:
    """Such as a Spark job writes: names, and nothing that was looked at."""
    cluster.scene("stale_group", "from-spark")
    plan = tmp_path / "plan.json"
    document = {
        "format": "coterie-plan",
        "version": 1,
        "action": "delete_groups",
        "created_at": "2026-01-31T12:00:00Z",
        "groups": [{"group": "from-spark"}],
    }
    plan.write_text(json.dumps(document))
    fits(plan, "plan")
    assert tool("groups", "delete", "--plan", str(plan), "--execute").returncode == 0
    assert names(tool, "^from-spark") == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", "is not a plan: Object missing required field `action`"),
        ("nonsense", "is not a plan"),
        ('{"format": "coterie-plan", "version": 2}', "is not a plan: Invalid enum value 2"),
        (
            '{"action": "delete_groups", "created_at": "2026-01-31T12:00:00Z", "gruops": []}',
            "unknown field `gruops`",
        ),
        (
            (
                '{"action": "delete_groups", "created_at": "2026-01-31T12:00:00Z",'
                ' "groups": [{"group": "g"}, {"group": "g"}]}'
            ),
            "group 'g' is in it more than once",
        ),
    ],
)
def test_a_file_that_is_no_plan_is_refused(
    text: str, says: str, tool: Tool, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(text)
    done = tool("groups", "delete", "--plan", str(plan), "--execute")
    assert done.returncode == 1
    assert says in done.stderr


def test_a_plan_of_another_kind_is_refused(tool: Tool, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert tool("groups", "reset", "filler", "--to", "0", "--plan-out", str(plan)).returncode == 0
    done = tool("groups", "delete", "--plan", str(plan), "--execute")
    assert done.returncode == 2
    assert "is a plan to set offsets" in done.stderr


def test_some_done_and_some_not_is_partial(cluster: EmbeddedCluster, tool: Tool) -> None:
    cluster.scene("empty_group", "mixed-empty")
    cluster.scene("stable_group", "mixed-stable")
    done = tool("groups", "delete", "mixed-empty", "mixed-stable", "--execute", "-o", "json")
    assert done.returncode == 3
    results = json.loads(done.stdout)
    jsonschema.validate(results, json.loads((SCHEMAS / "results.json").read_text()))
    assert {row["group_id"]: row["result"] for row in results} == {
        "mixed-empty": "done",
        "mixed-stable": "refused",
    }
    assert tool("groups", "delete", "mixed-stable", "-e").returncode == 1
    nothing = tool("groups", "delete", "--match", "^nobody$", "-e", "-o", "json")
    assert (nothing.returncode, nothing.stdout) == (0, "[]\n")


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (("--to", "earliest"), 0),
        (("--to", "latest"), 100),
        (("--to", "7"), 7),
        (("--to", "1000"), 100),
        (("--to", "1999-12-31T23:59:59Z"), 0),
        (("--shift-by", "-5"), 37),
        (("--shift-by", "5"), 47),
        (("--ago", "1h"), 0),
        (("--like", "filler"), 0),
    ],
)
def test_reset(where: tuple[str, str], expected: int, cluster: EmbeddedCluster, tool: Tool) -> None:
    cluster.scene("empty_group", "resetting", offset=42)
    done = tool("groups", "reset", "resetting", *where, "--execute")
    assert done.returncode == 0, done.stderr
    assert offsets(tool, "resetting") == {0: expected, 1: expected}


def test_reset_of_one_partition_and_its_undo(
    cluster: EmbeddedCluster, tool: Tool, tmp_path: Path
) -> None:
    cluster.scene("empty_group", "one-partition", offset=42)
    reset = ("groups", "reset", "one-partition", "--topic", "orders:1", "--to", "latest")
    assert tool(*reset, "--execute").returncode == 0
    assert offsets(tool, "one-partition") == {0: 42, 1: 100}
    (undo,) = (tmp_path / "state" / "coterie" / "undo").iterdir()
    assert tool("groups", "import", str(undo), "--execute").returncode == 0
    assert offsets(tool, "one-partition") == {0: 42, 1: 42}


def test_reset_tells_of_partitions_that_it_leaves_alone(
    cluster: EmbeddedCluster, tool: Tool
) -> None:
    cluster.scene("empty_group", "half", offset=42)
    gone = tool("groups", "delete-offsets", "half", "--topic", "orders:1", "--execute")
    assert gone.returncode == 0, gone.stderr
    shift = ("groups", "reset", "half", "--topic", "orders", "--shift-by", "-2", "-e", "-o", "json")
    done = tool(*shift)
    assert done.returncode == 3
    assert [(row["partition"], row["result"]) for row in json.loads(done.stdout)] == [
        (0, "done"),
        (1, "refused"),
    ]
    assert "there is no committed offset to shift" in done.stdout
    assert offsets(tool, "half") == {0: 40}


def test_reset_makes_a_group_that_was_not_there(tool: Tool) -> None:
    done = tool("groups", "reset", "newcomer", "--topic", "orders", "--to", "latest", "--execute")
    assert done.returncode == 0, done.stderr
    assert offsets(tool, "newcomer") == {0: 100, 1: 100}


def test_reset_of_an_active_group_changes_nothing(cluster: EmbeddedCluster, tool: Tool) -> None:
    cluster.scene("stable_group", "active")
    done = tool("groups", "reset", "active", "--topic", "orders", "--to", "latest", "--execute")
    assert done.returncode == 1
    assert "only while the group is inactive, and it is Stable" in done.stdout
    assert offsets(tool, "active") == {}


def test_delete_offsets_and_clone(cluster: EmbeddedCluster, tool: Tool) -> None:
    cluster.scene("empty_group", "source", offset=42)
    assert tool("groups", "clone", "source", "target", "--execute").returncode == 0
    assert offsets(tool, "target") == {0: 42, 1: 42}
    gone = tool("groups", "delete-offsets", "target", "--topic", "orders:0", "--execute")
    assert gone.returncode == 0, gone.stderr
    assert offsets(tool, "target") == {1: 42}
    nothing = tool("groups", "clone", "nobody", "target", "--execute")
    assert nothing.returncode == 1
    assert "nobody" in nothing.stderr


@pytest.mark.parametrize("topic", ["nope", "orders:7"])
def test_delete_offsets_tells_of_groups_that_have_none_there(
    topic: str, cluster: EmbeddedCluster, tool: Tool
) -> None:
    cluster.scene("empty_group", "elsewhere", offset=42)
    done = tool("groups", "delete-offsets", "elsewhere", "--topic", topic, "--execute")
    assert done.returncode == 1
    assert re.search(r"elsewhere +refused +it has committed nothing there", done.stdout)
    chosen = tool("groups", "delete-offsets", "--match", "^elsewhere$", "--topic", "nope", "-e")
    assert chosen.returncode == 0
    assert "elsewhere" not in chosen.stdout
    assert "Nothing to change." in chosen.stderr


def test_a_topic_alone_chooses_those_that_read_it(cluster: EmbeddedCluster, tool: Tool) -> None:
    cluster.create_topic("rare")
    cluster.scene("empty_group", "rare-reader", topic="rare", offset=0)
    cluster.scene("empty_group", "rare-stranger", topic="orders", offset=0)
    for command in (("delete-offsets",), ("reset", "--to", "latest")):
        planned = tool("groups", *command, "--topic", "rare", "-o", "json")
        assert {row["group_id"] for row in json.loads(planned.stdout)} == {"rare-reader"}


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_export_and_import(kind: str, cluster: EmbeddedCluster, tool: Tool, tmp_path: Path) -> None:
    cluster.scene("empty_group", "exported", offset=42)
    file = tmp_path / "offsets"
    done = tool("groups", "export", "exported", "--as", kind, "--file", str(file))
    assert done.returncode == 0
    assert "2 offsets of 1 groups" in done.stderr
    assert tool("groups", "reset", "exported", "--to", "0", "--execute").returncode == 0
    assert tool("groups", "import", str(file), "--execute").returncode == 0
    assert offsets(tool, "exported") == {0: 42, 1: 42}


def test_import_of_kafkas_csv_without_groups(tool: Tool, tmp_path: Path) -> None:
    file = tmp_path / "kafka.csv"
    file.write_text("orders,0,3\norders,1,4\n")
    assert "names no group" in tool("groups", "import", str(file)).stderr
    assert tool("groups", "import", str(file), "--into", "from-csv", "-e").returncode == 0
    assert offsets(tool, "from-csv") == {0: 3, 1: 4}
    file.write_text("orders,0\n")
    assert (
        "line 1: this is not group,topic,partition,offset"
        in tool("groups", "import", str(file)).stderr
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("g,orders,0,9223372036854775808\n", "line 1: the offset is above 9223372036854775807\n"),
        (f"g,orders,0,{'9' * 5000}\n", "line 1: the offset is above 9223372036854775807\n"),
        ("g,orders,0,1\ng,orders,0,-1\n", "line 2: this is not group,topic,partition,offset"),
        ("g,orders,0,\u00b2\n", "line 1: this is not group,topic,partition,offset"),
        ("g,orders,2147483648,1\n", "line 1: '2147483648' is not a partition"),
        ("g,orders,\u00b2,1\n", "line 1: '\\xb2' is not a partition"),
    ],
)
def test_offsets_that_cannot_be_are_refused_in_csv(
    text: str, says: str, tool: Tool, tmp_path: Path
) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(text, encoding="utf-8")
    done = tool("groups", "import", str(file), "--execute")
    assert done.returncode == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"offset": 2**63}, "<= 9223372036854775807 - at `$.groups[0].offsets[0].offset`"),
        ({"offset": 10**30}, "at `$.groups[0].offsets[0].offset`"),
        ({"offset": -1}, ">= 0 - at `$.groups[0].offsets[0].offset`"),
        ({"partition": 2**31}, "<= 2147483647 - at `$.groups[0].offsets[0].partition`"),
        ({"leader_epoch": 2**31}, "at `$.groups[0].offsets[0].leader_epoch`"),
    ],
)
def test_offsets_that_cannot_be_are_refused_in_json(
    change: dict[str, int], says: str, tool: Tool, tmp_path: Path
) -> None:
    file = tmp_path / "offsets.json"
    offset = {"topic": "orders", "partition": 0, "offset": 1} | change
    moment = "2026-01-31T12:00:00Z"
    document = {"created_at": moment, "groups": [{"group": "g", "offsets": [offset]}]}
    file.write_text(json.dumps(document))
    done = tool("groups", "import", str(file), "--execute")
    assert done.returncode == 1
    assert "is not a file of offsets: " in done.stderr
    assert says in done.stderr
    planned = {"current": None, "target": offset.pop("offset"), **offset}
    plan = {
        "action": "set_offsets",
        "created_at": moment,
        "groups": [{"group": "g", "offsets": [planned]}],
    }
    file.write_text(json.dumps(plan))
    done = tool("groups", "import", "--plan", str(file), "--execute")
    assert done.returncode == 1
    assert "is not a plan: " in done.stderr


def test_kill_9_behind_the_undo_file_loses_nothing(
    cluster: EmbeddedCluster, tool: Tool, tmp_path: Path
) -> None:
    """The process dies when the undo file has its name, and before anything is deleted."""
    cluster.scene("empty_group", "survivor", offset=42)
    undo = tmp_path / "undo.json"
    arguments = ("groups", "delete", "survivor", "--execute", "--undo-file", str(undo))
    for point, there in (
        ("file.mid_write", False),
        ("file.before_rename", False),
        ("file.after_rename", True),
    ):
        died = tool(*arguments, env={"COTERIE_CRASH_AT": point}, process=True)
        assert died.returncode == 137
        assert undo.exists() == there
        assert offsets(tool, "survivor") == {0: 42, 1: 42}
    saved = json.loads(undo.read_text())
    assert saved["groups"][0]["group"] == "survivor"
    again = tool(*arguments)
    assert again.returncode == 2
    assert "is there already" in again.stderr
    assert tool("groups", "delete", "survivor", "--execute").returncode == 0
    assert tool("groups", "import", str(undo), "--execute").returncode == 0
    assert offsets(tool, "survivor") == {0: 42, 1: 42}


def test_an_undo_file_that_cannot_be_written_stops_the_deletion(
    cluster: EmbeddedCluster, tool: Tool, tmp_path: Path
) -> None:
    cluster.scene("empty_group", "kept")
    (tmp_path / "file").write_text("")
    done = tool("groups", "delete", "kept", "-e", "--undo-file", str(tmp_path / "file" / "undo"))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert names(tool, "^kept") == ["kept"]


def test_a_broker_that_is_missing_is_named(tmp_path: Path) -> None:
    """A partial answer is an answer: what is known, then who is missing and why."""
    with EmbeddedCluster(brokers=2) as cluster:
        for number in range(8):
            cluster.scene("empty_group", f"g{number}")
        tool = runner(tmp_path, cluster.bootstrap_servers)
        cluster.inject("ListGroups", broker=2, drop=True, times=None)
        done = tool("groups", "list", "-o", "name", "--timeout", "1500ms")
    assert done.returncode == 3
    assert 0 < len(done.stdout.split()) < 8
    assert "Incomplete: broker 2 (127.0.0.1:" in done.stderr


def test_ctrl_c_in_the_middle_of_a_change_names_the_undo_file(tmp_path: Path) -> None:
    with EmbeddedCluster() as cluster:
        cluster.scene("empty_group", "halfway", offset=42)
        cluster.inject("DeleteGroups", drop=True, times=None)
        undo = tmp_path / "undo.json"
        with subprocess.Popen(
            [COTERIE, "groups", "delete", "halfway", "--execute", "--undo-file", str(undo)],
            env=environment(tmp_path, COTERIE_BOOTSTRAP_SERVERS=cluster.bootstrap_servers),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            deadline = time.monotonic() + 20
            while not cluster.requests("DeleteGroups") and time.monotonic() < deadline:
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=20)
        assert process.returncode == 130
        assert f"Interrupted. The undo file is {undo}." in errors
        assert "Traceback" not in errors
        tool = runner(tmp_path, cluster.bootstrap_servers)
        assert offsets(tool, "halfway") == dict.fromkeys(range(4), 42)


def test_ctrl_c_ends_without_a_word(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    with subprocess.Popen(
        [COTERIE, "groups", "watch", "filler", "--interval", "1h", "-o", "jsonl"],
        env=environment(tmp_path, COTERIE_BOOTSTRAP_SERVERS=cluster.bootstrap_servers),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["group_id"] == "filler"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
    assert process.returncode == 130
    assert errors.strip() == ""
