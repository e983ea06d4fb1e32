"""What `coterie groups` and its like print: golden files in every format, JSON against its schema."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
from pathlib import Path

import jsonschema
import pytest
import yaml

from coterie.testing import EmbeddedCluster
from tests.unit.cli.conftest import HOSTILE, Tool, runner

ROOT = Path(__file__).parent.parent.parent.parent
GOLDEN = ROOT / "tests" / "data" / "tool"
SCHEMAS = ROOT / "docs" / "schemas"

#: What differs from run to run, and what stands for it.
MASKS = {
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}": "<uuid>",
    r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z": "<time>",
    r"127\.0\.0\.1( +|,|\", *\n *\"port\": )\d{4,5}": r"127.0.0.1\1<port>",
}

CASES = {
    "list.table": "groups list",
    "list.wide": "groups list -o wide",
    "list.json": "groups list -o json",
    "list.jsonl": "groups list -o jsonl",
    "list.yaml": "groups list -o yaml",
    "list.csv": "groups list -o csv",
    "list.name": "groups list -o name",
    "list.help": "groups list --format help",
    "list-no-headers.table": "groups list --no-headers --state Stable",
    "list-columns.csv": "groups list -o csv --columns group,members,lag,topics,last_commit_at",
    "list-idle.table": "groups list --idle-for 30d",
    "list-lag-over.table": "groups list --lag-over 30 --sort -lag,group",
    "describe.table": "groups describe world-billing",
    "describe.json": "groups describe world-billing -o json",
    "describe-topic.table": "groups describe world-reports --topic orders:1",
    "members.table": "groups members --match ^world-",
    "members.csv": "groups members world-billing -o csv",
    "offsets.table": "groups offsets world-forgotten world-reports",
    "offsets.json": "groups offsets world-forgotten --columns group,topic,offset,committed_at -o json",
    "lag.table": "groups lag --match reports",
    "lag.json": "groups lag world-reports -o json",
    "lag-by-topic.table": "groups lag --by topic",
    "lag-by-group.csv": "groups lag --by group -o csv",
    "topics.table": "topics list",
    "topics-describe.json": "topics describe payments -o json",
    "topics-groups.table": "topics groups payments",
    "cluster.table": "cluster",
    "plan-delete.table": "groups delete --state Empty --idle-for 30d",
    "plan-reset.json": "groups reset world-reports --to latest -o json",
    "plan-clone.table": "groups clone world-reports world-copy",
    "watch.table": "groups watch --count 1 --match billing",
}


def masked(name: str, text: str) -> str:
    before = text
    for pattern, stand_in in MASKS.items():
        text = re.sub(pattern, stand_in, text)
    if name.startswith("cluster."):
        text = re.sub(r"[A-Za-z0-9_-]{22}$", "<cluster>", text, flags=re.MULTILINE)
    if text == before or name.endswith(("json", "jsonl", "yaml", "csv")):
        return text
    # A masked value is shorter or longer than its column.
    return "\n".join(re.sub(r"  +", "  ", line).rstrip() for line in text.splitlines()) + "\n"


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str, tool: Tool) -> None:
    done = tool(*shlex.split(CASES[name]))
    assert done.returncode == 0, done.stderr
    path = GOLDEN / f"{name}.txt"
    text = masked(name, done.stdout)
    if os.environ.get("COTERIE_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


#: Every listing with JSON of its own, from the live cluster.
VALIDATED = {
    "groups": "groups list",
    "descriptions": "groups describe --match ^world-",
    "members": "groups members",
    "offsets": "groups offsets",
    "lag": "groups lag",
    "topic-lag": "groups lag --by topic",
    "group-lag": "groups lag --by group",
    "planned-groups": "groups delete --match ^world-",
    "planned-offsets": "groups reset --match ^world- --to earliest",
    "topics": "topics list --internal",
    "partitions": "topics describe",
    "brokers": "cluster",
    "watched-groups": "groups watch --count 1",
    "watched-partitions": "groups watch world-billing --count 1",
}


@pytest.mark.parametrize("name", VALIDATED)
def test_json_fits_its_published_schema(name: str, tool: Tool) -> None:
    schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    words = shlex.split(VALIDATED[name])
    whole = tool(*words, "-o", "json")
    assert whole.returncode == 0, whole.stderr
    rows = json.loads(whole.stdout)
    assert rows
    check = jsonschema.Draft202012Validator(
        schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )
    check.validate(rows)
    lines = [json.loads(line) for line in tool(*words, "-o", "jsonl").stdout.splitlines()]
    check.validate(lines)
    if "watch" not in name:
        assert lines == rows
        assert yaml.safe_load(tool(*words, "-o", "yaml").stdout) == rows
    assert json.loads(tool(*words, "--format", "schema").stdout) == schema


def test_hostile_names_are_exact_in_json_and_harmless_everywhere(tool: Tool) -> None:
    for form in ("table", "wide", "json", "jsonl", "yaml", "csv", "name"):
        done = tool("groups", "list", HOSTILE, "-o", form)
        assert done.returncode == 0, done.stderr
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u200f]", done.stdout)
    assert (
        json.loads(tool("groups", "list", "-o", "json", HOSTILE).stdout)[0]["group_id"] == HOSTILE
    )
    assert (
        yaml.safe_load(tool("groups", "list", "-o", "yaml", HOSTILE).stdout)[0]["group_id"]
        == HOSTILE
    )
    shown = tool("groups", "list", "-o", "name", HOSTILE).stdout
    assert shown == "a\\tb\\nc\\x1b[31md\\u202e\\u200fe\\\\x1b[red]=cmd()\n"
    text = tool("groups", "list", "-o", "csv", HOSTILE).stdout
    assert len(list(csv.reader(io.StringIO(text)))) == 2


@pytest.mark.parametrize("start", ["=", "+", "-", "@"])
def test_csv_is_no_formula(start: str, world: EmbeddedCluster, tool: Tool) -> None:
    name = f"{start}cmd()"
    world.scene("empty_group", name, topic="payments")
    try:
        text = tool("groups", "list", "-o", "csv", "--columns", "group,members", "--", name).stdout
        assert list(csv.reader(io.StringIO(text))) == [
            ["group_id", "member_count"],
            [f"'{name}", "0"],
        ]
        exported = tool("groups", "export", "--as", "csv", "--", name).stdout
        assert exported.startswith(
            f"{name},payments,0,"
        )  # it is for `import`, not for a spreadsheet
    finally:
        assert tool("groups", "delete", "--execute", "--", name).returncode == 0


def test_the_error_of_a_hostile_name_is_one_line(tool: Tool) -> None:
    done = tool("groups", "describe", "no\x1b[2J\nsuch group")
    assert done.returncode == 1
    assert "\x1b" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_latin_letters_survive_and_what_ascii_lacks_is_escaped(
    world: EmbeddedCluster, tool: Tool
) -> None:
    world.scene("empty_group", "grün-日本", topic="payments")
    try:
        utf8 = tool("groups", "list", "grün-日本")
        assert "grün-日本  Empty" in utf8.stdout
        ascii_only = tool(
            "groups",
            "list",
            "--match",
            "^gr.+-",
            env={"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
            process=True,
        )
        assert ascii_only.returncode == 0
        assert "gr\\xfcn-\\u65e5\\u672c" in ascii_only.stdout
    finally:
        assert tool("groups", "delete", "grün-日本", "--execute").returncode == 0


def test_there_is_no_colour_without_a_terminal(tool: Tool) -> None:
    done = tool("groups", "list", env={"CLICOLOR_FORCE": "1"}, process=True)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout


def test_live_groups_are_shown_from_lists_alone(tmp_path: Path) -> None:
    """KIP-518: an interface that shows which groups live asks no broker to describe any."""
    with EmbeddedCluster(brokers=3) as cluster:
        for number in range(9):
            cluster.scene("empty_group", f"empty-{number}")
        cluster.scene("stable_group", "billing")
        tool = runner(tmp_path, cluster.bootstrap_servers)
        before = cluster.requests("DescribeGroups")
        assert tool("groups", "list", "--state", "Stable", "-o", "name").stdout == "billing\n"
        assert len(tool("groups", "list", "-o", "name").stdout.splitlines()) == 10
        assert cluster.requests("ListGroups") == 2 * 3
        assert cluster.requests("DescribeGroups") == before


def test_groups_are_chosen_by_state_and_type(tmp_path: Path) -> None:
    with EmbeddedCluster() as cluster:
        cluster.scene("rebalancing_group", "restless")
        cluster.scene("stable_group", "billing")
        tool = runner(tmp_path, cluster.bootstrap_servers)
        both = ("--state", "completingrebalance,dead", "--type", "classic")
        done = tool("groups", "list", *both, "-o", "csv", "--no-headers")
        assert done.stdout == "restless,CompletingRebalance,classic,1\n"
        assert tool("groups", "list", "--type", "consumer,share", "-o", "name").stdout == ""
        named = tool("groups", "list", "restless", "billing", "--state", "stable", "-o", "name")
        assert named.stdout == "billing\n"


def test_columns_are_named_as_in_json_or_as_in_the_header_of_a_table(tool: Tool) -> None:
    by_name, by_header = (
        tool("groups", "lag", "--by", "group", "-o", "csv", "--columns", names, "--sort", order)
        for names, order in (("group_id,total_lag", "-total_lag"), ("GROUP,lag", "-lag"))
    )
    assert by_name.stdout.startswith("group_id,total_lag\n")
    assert by_name.stdout == by_header.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("groups list -o xml", "'xml' is not one of table"),
        (
            "groups list --columns group,nonsense",
            "there is no column 'nonsense' here; there are: group",
        ),
        ("groups describe --columns members", "members is for json, jsonl and yaml"),
        ("groups describe --sort partitions", "partitions has no order to sort by"),
        ("groups list --sort nonsense", "there is no column 'nonsense'"),
        ("groups lag --by group --columns topic", "there is no column 'topic'"),
        ("groups list --state Happy", "there is no state 'Happy'; there are: PreparingRebalance"),
        ("groups list --type Happy", "there is no type 'Happy'"),
        ("groups list --match (", "is not a regular expression"),
        ("groups list --idle-for soon", "'soon' is not a duration such as 30d"),
        ("groups list a a", "group 'a' is given twice"),
        ("groups offsets world-audit --topic payments:x", "--topic takes TOPIC or TOPIC:0,1"),
        ("groups delete", "name groups, or choose them"),
        ("groups reset world-audit", "missing target: give one of --to"),
        ("groups reset world-audit --to tomorrow", "or a time in ISO 8601, not 'tomorrow'"),
        ("groups delete-offsets world-audit", "missing --topic: give"),
        ("groups clone world-audit", "name two groups"),
        ("groups import", "name the file"),
        ("groups list -X nonsense", "-X takes NAME=VALUE"),
    ],
)
def test_wrong_usage_is_told_in_one_sentence(arguments: str, says: str, tool: Tool) -> None:
    done = tool(*shlex.split(arguments))
    assert done.returncode == 2
    assert says in done.stderr
    assert not done.stdout
