"""The quick start of Spark: made once, named after JDK and jars, and never in the way."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from coterie.spark.quickstart.startup import QuickStart, home_of_links, prepare

ARCHIVE = b"\xf0\x0b\xab\xa8" + bytes(2_000_000)


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A JDK and a Spark of empty files."""
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch()
    spark = tmp_path / "pyspark"
    for name in ("bin", "jars", "python"):
        (spark / name).mkdir(parents=True)
    (spark / "bin" / "spark-submit").touch()
    (spark / "jars" / "spark-core.jar").write_bytes(b"core")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr("coterie.spark.quickstart.startup.spark_home", lambda: spark)
    return home


def _ended() -> int:
    """The id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def _dumped(quick: QuickStart, content: bytes = ARCHIVE, pid: int | None = None) -> None:
    assert quick.dump is not None
    quick.started(_ended() if pid is None else pid)
    quick.dump.write_bytes(content)


def test_the_first_run_dumps_and_the_next_ones_map(java: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = prepare(local=True, cache=cache)
    assert first.java_options == [f"-XX:ArchiveClassesAtExit={first.dump}"]
    _dumped(first)
    for _ in range(2):
        later = prepare(local=True, cache=cache)
        [option] = later.java_options
        assert option.startswith(f"-XX:SharedArchiveFile={cache}/spark-")
        assert option.endswith(".jsa")
        assert later.dump is None


def test_workers_do_not_see_the_zip_without_compiled_code(java: Path, tmp_path: Path) -> None:
    home = Path(prepare(local=True, cache=tmp_path / "cache").environment["SPARK_HOME"])
    assert (home / "jars" / "spark-core.jar").exists()
    assert not (home / "python").exists()
    assert "SPARK_HOME" not in prepare(local=False, cache=tmp_path / "cache").environment


def test_two_that_make_a_home_at_once_share_it(
    java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slower one finds it made when it is about to make it; a JVM may run from it by then."""
    spark, cache = tmp_path / "pyspark", tmp_path
    real = tempfile.mkdtemp
    quicker: list[int] = []

    def slowly(**named: Any) -> Any:
        monkeypatch.setattr(tempfile, "mkdtemp", real)
        quicker.append(home_of_links(spark, cache).stat().st_ino)
        return real(**named)

    monkeypatch.setattr(tempfile, "mkdtemp", slowly)
    home = home_of_links(spark, cache)
    assert [home.stat().st_ino] == quicker
    assert list(cache.glob("spark-home-*")) == [home]


def test_links_into_a_spark_that_has_gone_are_made_anew(java: Path, tmp_path: Path) -> None:
    spark, cache = tmp_path / "pyspark", tmp_path
    home = home_of_links(spark, cache)
    (home / "jars").unlink()
    (home / "jars").symlink_to(tmp_path / "gone")
    assert home_of_links(spark, cache) == home
    assert (home / "jars" / "spark-core.jar").exists()
    assert list(cache.glob("spark-home-*")) == [home]


def test_a_home_that_the_user_chose_stays(
    java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "pyspark"))
    assert "SPARK_HOME" not in prepare(local=True, cache=tmp_path / "cache").environment


def test_another_jdk_or_another_jar_is_another_archive(java: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    before = prepare(local=True, cache=cache).dump
    (tmp_path / "pyspark" / "jars" / "more.jar").write_bytes(b"more")
    with_jar = prepare(local=True, cache=cache).dump
    (java / "bin" / "java").write_bytes(b"17.0.99")
    with_java = prepare(local=True, cache=cache).dump
    assert len({before, with_jar, with_java}) == 3


def test_while_a_dump_is_written_nobody_touches_it(java: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    _dumped(prepare(local=True, cache=cache), pid=os.getpid())
    assert prepare(local=True, cache=cache).java_options == []


@pytest.mark.parametrize("content", [bytes(2_000_000), b"\xf0\x0b", b""])
def test_a_dump_that_was_cut_short_is_thrown_away(
    java: Path, tmp_path: Path, content: bytes
) -> None:
    cache = tmp_path / "cache"
    _dumped(prepare(local=True, cache=cache), content)
    assert prepare(local=True, cache=cache).dump is not None
    assert not list(cache.glob("*.jsa"))


def test_dumps_that_never_come_are_given_up(java: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    tries = [bool(prepare(local=True, cache=cache).java_options) for _ in range(5)]
    assert tries == [True, True, True, False, False]


def test_nothing_breaks_without_java_or_a_cache(
    java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    assert prepare(local=True, cache=blocked / "cache") == QuickStart()
    (tmp_path / "cache").mkdir()
    for name in ("x.tries", "x.pid"):
        (tmp_path / "cache" / name).write_text("no number")
    assert prepare(local=True, cache=tmp_path / "cache").java_options
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert prepare(local=True, cache=tmp_path / "cache") == QuickStart()
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert prepare(local=True, cache=tmp_path / "cache") == QuickStart()
