"""The pipeline on a simulated fleet: tables, marts, report, SQL and plan; and what kill -9 leaves.

The fleet has hostile names: formulas, quotes, markup, separators.
"""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
from html import escape
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from coterie.cli.pipeline import command
from coterie.console.rendering import plain
from coterie.plans.model import load_plan
from coterie.spark.pipeline.frames import read_table
from coterie.spark.pipeline.query import run_query
from coterie.spark.pipeline.report.figures import FIGURES
from coterie.spark.pipeline.store import TableStore
from coterie.spark.pipeline.tables import RAW
from coterie.vocabulary.marts import MARTS
from tests.spark.engines import environment
from tests.spark.pipeline_kit import Made, pipeline


def test_run_makes_all_tables_and_a_report(made: Made) -> None:
    store = TableStore(made.out)
    assert set(store.tables) >= {"commits", "group_events", "end_offsets", *MARTS}
    rows = {name: manifest.rows for name in MARTS if (manifest := store.manifest(name)) is not None}
    assert 20 <= rows["group_summary"] <= 24  # a group may have expired
    assert min(rows["rebalances"], rows["lag"], rows["commit_rates"]) > 0
    assert (made.out / "report" / "report.html").exists()
    for words in ("end offsets:", "log:", "marts:", "report: "):
        assert words in made.said


def test_a_day_is_a_handful_of_files(made: Made) -> None:
    store = TableStore(made.out)
    for name in store.tables:
        manifest = store.manifest(name)
        assert manifest is not None
        days = {file.day for file in manifest.files}
        assert len(manifest.files) <= max(1, len(days)), name


def test_there_is_nothing_new_the_second_time(made: Made) -> None:
    version = TableStore(made.out).catalog.version
    done = pipeline("ingest", "--segments", made.segments, "--out", made.out)
    assert (done.exit_code, done.output) == (0, "log: nothing new\n")
    done = pipeline("compact", "--out", made.out)
    assert (done.exit_code, done.output) == (0, "nothing to do\n")
    assert TableStore(made.out).catalog.version == version


def test_killed_in_ingest_nothing_is_a_table(made: Made) -> None:
    """In the middle of the commit: data files are there, and some manifests, but no catalog."""
    killed = made.killed_in_ingest
    assert (killed.code, killed.said, killed.complaint) == (-signal.SIGKILL, "", "")
    assert killed.tables == set()
    assert "commits" in killed.written


def test_killed_in_build_no_mart_is_a_table(made: Made) -> None:
    """In the middle of the marts: some are written."""
    killed = made.killed_in_build
    assert (killed.code, killed.complaint) == (-signal.SIGKILL, "")
    assert killed.said.startswith("log: ")
    assert {"commits", "group_events"} <= killed.tables
    assert not MARTS.keys() & killed.tables
    assert MARTS.keys() & killed.written


def test_run_again_nothing_is_left_of_those_that_were_killed(made: Made) -> None:
    """That the tables are those of a run that was not disturbed, test_pipeline_engines.py shows."""
    store = TableStore(made.out)
    named = {path for name in store.tables for path in store.paths(name)}
    assert {str(path) for path in made.out.rglob("*.parquet")} == named


def test_the_report_is_what_the_tables_say(spark: SparkSession, made: Made) -> None:
    document = json.loads((made.out / "report" / "report.json").read_text())
    store = TableStore(made.out)
    assert list(document["figures"]) == [figure.name for figure in FIGURES]
    for name, figure in document["figures"].items():
        names, rows = run_query(spark, store, figure["sql"])
        assert figure["columns"] == names, name
        assert figure["rows"] == [dict(zip(names, map(plain, row), strict=True)) for row in rows], (
            name
        )
    shown = sum(row["rebalances"] for row in document["figures"]["rebalances_by_hour"]["rows"])
    _, [(counted,)] = run_query(spark, store, "SELECT sum(rebalances_24h) FROM group_summary")
    assert shown == counted
    assert shown > 0
    html = (made.out / "report" / "report.html").read_text()
    for row in document["figures"]["stale_groups"]["rows"]:
        assert escape(row["group_id"]).replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in html


def test_hostile_names_stay_names(spark: SparkSession, made: Made) -> None:
    names, rows = run_query(spark, TableStore(made.out), "SELECT group_id FROM group_summary")
    assert names == ["group_id"]
    hostile = [str(name) for (name,) in rows if set(str(name)) & set("<='\"\t")]
    assert hostile
    html = (made.out / "report" / "report.html").read_text()
    assert not [name for name in hostile if "<" in name and name in html]
    name = hostile[0]
    bound = "SELECT group_id FROM group_summary WHERE group_id = :name"
    done = pipeline("sql", bound, "--param", f"name={name}", "-o", "json", "--out", made.out)
    assert json.loads(done.stdout) == [{"group_id": name}]
    query = "SELECT group_id FROM group_summary ORDER BY group_id"
    table = list(
        csv.reader(io.StringIO(pipeline("sql", query, "-o", "csv", "--out", made.out).stdout))
    )
    assert len(table) > 20
    assert not [cell for (cell,) in table if cell.startswith(("=", "+", "-", "@"))]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT * FROM nowhere", "There are: assignments, commit"),
        ("SELEC 1", "Syntax error"),
        ("SELECT nothing FROM lag", "nothing"),
        ("SELECT 1/0", "Division by zero"),
    ],
)
def test_a_wrong_query_is_a_sentence(made: Made, query: str, said: str) -> None:
    done = CliRunner().invoke(command, ["sql", query, "--out", str(made.out)])
    assert done.exit_code == 1
    text = str(done.exception)
    assert said.lower() in text.lower()
    assert "\n" not in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    "query",
    [
        "INSERT OVERWRITE TABLE end_offsets SELECT * FROM end_offsets LIMIT 1",
        "WITH one AS (SELECT * FROM lag LIMIT 1) INSERT INTO lag SELECT * FROM one",
        "FROM lag INSERT INTO lag SELECT * INSERT OVERWRITE TABLE health SELECT *",
        "INSERT OVERWRITE DIRECTORY '{out}/lag' USING parquet SELECT * FROM lag",
        "CREATE TABLE t AS SELECT 1 AS n",
        "CREATE TABLE lag USING parquet LOCATION '{out}/lag'",
        "CREATE TEMPORARY VIEW v AS SELECT * FROM lag",
        "DROP VIEW lag",
        "TRUNCATE TABLE lag",
        "CACHE TABLE lag",
        "SET spark.sql.shuffle.partitions = 7",
        "EXECUTE IMMEDIATE 'CREATE TABLE t AS SELECT 1 AS n'",
        "EXPLAIN EXECUTE IMMEDIATE 'CREATE TABLE t AS SELECT 1 AS n'",
        "BEGIN CREATE TABLE t AS SELECT 1 AS n; END",
    ],
)
def test_what_is_no_query_is_refused_and_changes_nothing(
    spark: SparkSession, made: Made, query: str
) -> None:
    places = (made.out, Path.cwd(), Path(str(spark.conf.get("spark.sql.warehouse.dir"))))
    before = [_files(place) for place in places]
    done = pipeline("sql", query.format(out=made.out), "--out", made.out)
    assert done.exit_code == 2, done.output
    assert "is no query: tables are only read here, ask by SELECT" in done.output
    assert [_files(place) for place in places] == before


def test_what_is_no_query_is_wrong_usage_and_leaves_nothing_behind(
    made: Made, tmp_path: Path
) -> None:
    """With a session of its own, whose tables would be where it was started."""
    code = "from coterie.cli.main import main; main()"
    query = "CREATE TABLE t AS SELECT 1 AS n"
    done = subprocess.run(
        [sys.executable, "-c", code, "pipeline", "sql", query, "--out", str(made.out)],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        env=environment(),
    )
    assert (done.returncode, done.stdout) == (2, "")
    last = done.stderr.splitlines()[-1]
    assert last == "Error: CREATE ... is no query: tables are only read here, ask by SELECT"
    assert list(tmp_path.iterdir()) == []


def _files(place: Path) -> dict[Path, tuple[int, int]]:
    """What is at a place: a file below the working directory may be some other test's."""
    found = place.iterdir() if place == Path.cwd() else place.rglob("*")
    return {path: (path.stat().st_ino, path.is_dir()) for path in found if place.is_dir()}


@pytest.mark.parametrize(
    "query",
    [
        "WITH all AS (SELECT * FROM lag) SELECT count(*) FROM all",
        "VALUES (1), (2)",
        "FROM lag SELECT count(*)",
        "TABLE lag",
        "SELECT * FROM lag WHERE lag >= (SELECT min(lag) FROM lag) UNION ALL TABLE lag",
        "EXPLAIN SELECT * FROM lag",
        "DESCRIBE lag",
        "DESCRIBE QUERY SELECT * FROM lag",
        "SHOW COLUMNS IN lag",
    ],
)
def test_a_query_has_many_forms(spark: SparkSession, made: Made, query: str) -> None:
    names, rows = run_query(spark, TableStore(made.out), query)
    assert names
    assert rows


def test_plain_spark_answers_the_same(made: Made, tmp_path: Path) -> None:
    """COTERIE_PLAIN_SPARK=1: nothing of ours changes how Spark starts, and nothing is cached for it."""
    query = "SELECT group_id, topic, partition, lag FROM lag ORDER BY 1, 2, 3"
    more = {"COTERIE_PLAIN_SPARK": "1", "XDG_CACHE_HOME": str(tmp_path)}
    code = "from coterie.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "pipeline", "sql", query, "-o", "csv", "--out", str(made.out)],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
        env=environment() | more,
    )
    assert done.stdout == pipeline("sql", query, "-o", "csv", "--out", made.out).stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "query",
    ["SELECT sequence(1, 200000000)", "SELECT collect_list(repeat('x', 300000)) FROM commits"],
    ids=["driver", "task"],
)
def test_a_query_without_memory_ends_with_a_sentence(made: Made, query: str) -> None:
    """A thread of Spark's dies of it, for which Spark itself would wait for ever."""
    code = "from coterie.cli.main import main; main()"
    options = ["--out", str(made.out), "--master", "local[1]", "--driver-memory", "480m"]
    done = subprocess.run(
        [sys.executable, "-c", code, "pipeline", "sql", query, *options],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env=environment(),
    )
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("Error: Spark's JVM has ended: OutOfMemoryError: Java heap space")
    assert line.endswith("; give it more by --driver-memory")


def test_stale_groups_are_a_plan(spark: SparkSession, made: Made, tmp_path: Path) -> None:
    done = pipeline("plan", "--out", made.out, "--to", tmp_path / "plan.json")
    assert done.exit_code == 0, done.output
    plan = load_plan(tmp_path / "plan.json")
    stale = read_table(spark, TableStore(made.out), "stale_groups")
    assert plan.action == "delete_groups"
    assert sorted(each.group for each in plan.groups) == sorted(r.group_id for r in stale.collect())
    planned = {
        (group.group, each.topic, each.partition, each.current)
        for group in plan.groups
        for each in group.offsets or ()
    }
    committed = read_table(spark, TableStore(made.out), "lag").join(stale, "group_id", "left_semi")
    assert planned == {
        (row.group_id, row.topic, row.partition, row.committed_offset)
        for row in committed.collect()
    }


def test_every_table_can_be_asked_also_one_without_rows(spark: SparkSession, made: Made) -> None:
    names = [*RAW, *MARTS]
    counts = ", ".join(f"(SELECT count(*) FROM {name}) AS {name}" for name in names)
    found, rows = run_query(spark, TableStore(made.out), f"SELECT {counts}")
    assert found == names
    assert dict(zip(names, rows[0], strict=True))["groups"] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["run", "--out", "x"], 2, "give --bootstrap-server HOST:PORT or --segments DIR"),
        (
            ["run", "--out", "x", "--segments", "y", "--bootstrap-server", "a:1"],
            2,
            "is for a cluster, and --segments",
        ),
        (["report", "--out", "nothing"], 1, "there are no tables in"),
        (["run", "--segments", "nothing", "--out", "x"], 1, "there is no directory"),
        (["compact", "--out", "x", "--retention", "soon"], 2, "is not a duration"),
        (["sql", "SELECT 1", "--param", "x", "--out", "x"], 2, "is not NAME=VALUE"),
    ],
)
def test_wrong_usage_is_told_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, said: str
) -> None:
    def none(*_: Any, **__: Any) -> Any:
        raise AssertionError("Spark was started")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("coterie.spark.pipeline.steps.Starting", none)
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == code
    assert said in f"{done.output} {done.exception}"
