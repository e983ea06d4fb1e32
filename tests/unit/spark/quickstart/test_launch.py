"""Starting the JVM by Spark's script, while the program does something else."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from coterie.errors import CoterieError
from coterie.spark.quickstart import launch
from coterie.spark.quickstart.launch import Launch
from coterie.spark.quickstart.startup import QuickStart

#: Becomes the JVM, as Spark's script does.
SCRIPT = """#!/bin/sh
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


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark home with a script and a JVM; connections are the bytes that were read."""
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "conf").mkdir()
    (home / "jvm.py").write_text(JVM)
    script = home / "bin" / "spark-submit"
    names = {"python": sys.executable, "jvm": home / "jvm.py"}
    script.write_text(SCRIPT.format(**names))
    script.chmod(0o755)
    for name in [each for each in os.environ if each.startswith(("SPARK_", "PYSPARK_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(launch, "_connected", lambda content, _: content)
    return home


def start(spark: Path, tmp_path: Path) -> Launch:
    quick = QuickStart(environment={"SPARK_HOME": str(spark)})
    return Launch({"spark.driver.memory": "1g"}, quick, tmp_path / "log")


def test_the_script_gets_the_settings_and_the_connection_comes_back(
    spark: Path, tmp_path: Path
) -> None:
    begun = start(spark, tmp_path)
    assert begun.gateway() == b"\x00\x00\x12\x67\x00\x00\x00\x03yes"
    arguments = list(map(str, begun.process.args))  # type: ignore[arg-type]
    assert arguments[1:] == ["--conf", "spark.driver.memory=1g", "pyspark-shell"]
    begun.process.communicate(timeout=60)  # it ends with its standard input
    assert begun.process.returncode == 0


def test_arguments_of_the_users_are_passed_on(
    spark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--packages 'a b' pyspark-shell")
    begun = start(spark, tmp_path)
    begun.gateway()
    arguments = list(map(str, begun.process.args))  # type: ignore[arg-type]
    assert arguments[-3:] == ["--packages", "a b", "pyspark-shell"]
    begun.process.communicate(timeout=60)


def test_a_jvm_that_does_not_start_is_an_error_with_its_code(spark: Path, tmp_path: Path) -> None:
    (spark / "broken").touch()
    with pytest.raises(CoterieError, match="ended with code 3"):
        start(spark, tmp_path).gateway()


def test_a_jvm_that_is_not_needed_is_killed(spark: Path, tmp_path: Path) -> None:
    begun = start(spark, tmp_path)
    begun.cancel()
    assert begun.process.returncode == -9
    begun.cancel()
