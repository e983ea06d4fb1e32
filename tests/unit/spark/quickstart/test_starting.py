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
from coterie.spark.pipeline.steps import Steps
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
