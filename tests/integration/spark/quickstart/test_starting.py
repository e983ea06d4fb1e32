"""With what Spark's JVM is started, by what is going to be done. No JVM is started here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coterie.errors import CoterieError
from coterie.simulation import simulate
from coterie.spark.pipeline import origin
from coterie.spark.pipeline.settings import has_few
from coterie.spark.pipeline.steps import Steps
from coterie.spark.pipeline.store import TableStore
from coterie.spark.quickstart import session
from coterie.spark.quickstart.startup import prepare
from tests.kit.ports import free_port

ONE_COMPILER = "-XX:TieredStopAtLevel=1"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The options of the JVMs that would have been started."""
    options: list[str] = []

    def launch(settings: Mapping[str, str], *_: Any) -> Any:
        options.append(settings.get("spark.driver.defaultJavaOptions", ""))
        return SimpleNamespace(process=SimpleNamespace(pid=None), cancel=lambda: None)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr(session, "Launch", launch)
    monkeypatch.setattr(session, "_borrowed", lambda: None)
    monkeypatch.setattr(session, "_has_jvm", lambda: False)
    return options


@pytest.mark.parametrize(("rows", "one"), [(0, True), (2_000_000, True), (2_000_001, False)])
def test_the_second_compiler_is_for_many_rows(started: list[str], rows: int, one: bool) -> None:
    session.Starting(rows=rows)
    [options] = started
    assert (ONE_COMPILER in options) == one
    # The first alone would not have the room for the plans of the marts.
    assert ("-XX:ReservedCodeCacheSize=256m" in options) == one


def test_rows_are_those_of_the_tables_and_of_the_log(
    started: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate(tmp_path / "segments", groups=3, hours=1, seed=1, partitions=1)
    for most in (1, 1_000_000):
        monkeypatch.setattr(session, "_ONE_COMPILER_ROWS", most)
        with Steps(tmp_path / "out") as steps:
            steps.start_spark(tmp_path / "segments")
            steps.start_spark()
    assert [ONE_COMPILER in options for options in started] == [False, True]


def test_a_cluster_that_does_not_answer_is_told_by_who_needs_it(
    started: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(origin, "_AT_ONCE_S", 0.2)
    with Steps(tmp_path / "out") as steps:
        steps.start_spark({"bootstrap.servers": f"127.0.0.1:{free_port()}"})
    assert len(started) == 1


def test_workers_of_another_python_are_told_also_where_spark_has_run_before(
    started: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known of this Java says nothing of the Python that a user names since."""
    dump = prepare(local=True, cache=tmp_path / "cache" / "coterie").dump
    assert dump is not None
    dump.with_suffix(".jsa").touch()
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "missing"))
    with pytest.raises(CoterieError, match="which does not run; unset it, or name a Python"):
        session.Starting()
    assert not started


def test_plain_spark_is_started_by_spark_alone(
    started: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No JVM of ours, no options for it, and no file in the cache; what tables need stays."""
    monkeypatch.setenv("COTERIE_PLAIN_SPARK", "1")
    starting = session.Starting(master="local[2]", memory="1g")
    assert not started
    assert starting.log is None
    assert not (tmp_path / "cache").exists()
    tuned = {name for name in starting._settings if "Java" in name or "shuffle" in name}
    assert not tuned | session._QUICK.keys() & starting._settings.keys()
    assert starting._settings["spark.sql.session.timeZone"] == "UTC"
    assert starting._settings["spark.driver.memory"] == "1g"


@pytest.mark.parametrize(("value", "plain"), [("1", True), ("0", False), ("", False)])
def test_few_rows_are_planned_as_others_by_plain_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, plain: bool
) -> None:
    monkeypatch.setenv("COTERIE_PLAIN_SPARK", value)
    assert has_few(TableStore(tmp_path)) is not plain
