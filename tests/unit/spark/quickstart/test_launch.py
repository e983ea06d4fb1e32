"""Starting the JVM: once by Spark's script, then by what the script came to; anew when anything changes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.errors import CoterieError
from coterie.spark.quickstart import launch
from coterie.spark.quickstart.launch import Launch
from coterie.spark.quickstart.startup import QuickStart

#: Becomes the JVM, as Spark's script does, and notes that it was asked.
SCRIPT = """#!/bin/sh
echo asked >> {notes}
export ADDED_BY_SCRIPT=yes
exec {python} {jvm} org.apache.spark.deploy.SparkSubmit "$@"
"""
#: Writes port and secret where it is told to, and lives as long as its standard input.
JVM = """
import os, sys
from pathlib import Path
if Path(__file__).with_name("broken").exists():
    sys.exit(3)
path = Path(os.environ["_PYSPARK_DRIVER_CONN_INFO_PATH"])
secret = os.environ["ADDED_BY_SCRIPT"].encode()
beside = path.with_suffix(".new")
beside.write_bytes((4711).to_bytes(4, "big") + len(secret).to_bytes(4, "big") + secret)
beside.rename(path)
sys.stdin.read()
"""
Start = Callable[..., Launch]


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark home with a script and a JVM; connections are the bytes that were read."""
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "conf").mkdir()
    (home / "jvm.py").write_text(JVM)
    script = home / "bin" / "spark-submit"
    names = {"notes": tmp_path / "notes", "python": sys.executable, "jvm": home / "jvm.py"}
    script.write_text(SCRIPT.format(**names))
    script.chmod(0o755)
    for name in [each for each in os.environ if each.startswith(("SPARK_", "PYSPARK_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(launch, "_connected", lambda content, _: content)
    return home


@pytest.fixture
def start(spark: Path, tmp_path: Path) -> Start:
    archive = tmp_path / "spark-0123.jsa"
    archive.touch()

    def begin(*, memory: str = "1g", archive: Path | None = archive) -> Launch:
        quick = QuickStart(environment={"SPARK_HOME": str(spark)}, archive=archive)
        return Launch({"spark.driver.memory": memory}, quick, tmp_path / "log")

    return begin


def asked(tmp_path: Path) -> int:
    notes = tmp_path / "notes"
    return len(notes.read_text().splitlines()) if notes.exists() else 0


def ran(begun: Launch) -> list[str]:
    """Its last arguments, after it was connected to; it ends with its standard input."""
    assert begun.gateway() == b"\x00\x00\x12\x67\x00\x00\x00\x03yes"
    arguments = list(map(str, begun.process.args))  # type: ignore[arg-type]
    begun.process.communicate(timeout=60)
    return arguments[-3:]


def test_the_script_is_asked_once(start: Start, tmp_path: Path) -> None:
    expected = ["--conf", "spark.driver.memory=1g", "pyspark-shell"]
    for _ in range(3):
        assert ran(start()) == expected
    assert asked(tmp_path) == 1
    [kept] = tmp_path.glob("*.command")
    assert kept.stat().st_mode & 0o077 == 0


def test_whatever_could_change_the_command_asks_again(
    start: Start, spark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(start())
    ran(start(memory="4g"))
    assert asked(tmp_path) == 2
    (spark / "conf" / "spark-defaults.conf").write_text("spark.driver.memory 2g")
    ran(start())
    assert asked(tmp_path) == 3
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xint")
    ran(start())
    assert asked(tmp_path) == 4
    ran(start())
    assert asked(tmp_path) == 4


def test_a_script_of_the_users_is_always_run(start: Start, spark: Path, tmp_path: Path) -> None:
    (spark / "conf" / "spark-env.sh").touch()
    for _ in range(2):
        ran(start())
    ran(start(archive=None))
    assert asked(tmp_path) == 3
    assert not list(tmp_path.glob("*.command"))


def test_a_command_that_does_not_start_is_forgotten(
    start: Start, spark: Path, tmp_path: Path
) -> None:
    ran(start())
    (spark / "broken").touch()
    with pytest.raises(CoterieError, match="ended with code 3"):
        start().gateway()
    (spark / "broken").unlink()
    ran(start())
    assert asked(tmp_path) == 2


def test_one_that_nobody_waits_for_ends(start: Start) -> None:
    begun = start()
    begun.cancel()
    assert begun.process.returncode == -9
    begun.cancel()


def test_damaged_notes_are_not_believed(start: Start, tmp_path: Path) -> None:
    ran(start())
    [kept] = tmp_path.glob("*.command")
    for content in ("{", '{"argv": 1}', "[]"):
        kept.write_text(content)
        ran(start())
    assert asked(tmp_path) == 4
