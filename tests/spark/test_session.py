"""What is checked before Spark starts, and what Spark finds by itself. No Spark is started here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from coterie.errors import CoterieError
from coterie.spark import session
from coterie.spark.session import check_versions


def program(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)


def test_this_machine_will_do() -> None:
    check_versions()


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("echo 'openjdk version \"11.0.2\" 2019' >&2", "is Java 11, and Spark needs 17 or newer"),
        ("echo 'java version \"1.8.0_392\"' >&2", "is Java 8, and Spark needs 17"),
        ("exit 3", "does not run as Java; set JAVA_HOME to a Java 17"),
    ],
    ids=["11", "8", "none"],
)
def test_a_java_that_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, sentence: str
) -> None:
    program(tmp_path / "bin" / "java", said)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(CoterieError, match=sentence):
        check_versions()
    # A server elsewhere has its own.
    monkeypatch.setenv("SPARK_REMOTE", "sc://elsewhere")
    check_versions()


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CoterieError, match="there is no Java on the PATH"):
        check_versions()


def test_workers_of_another_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", program(tmp_path / "python", "echo 3.8"))
    with pytest.raises(CoterieError, match=r"names a Python 3\.8, and this is"):
        check_versions()
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "missing"))
    with pytest.raises(CoterieError, match="which does not run"):
        check_versions()


def test_a_spark_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "version", lambda _: "3.5.6")
    with pytest.raises(CoterieError, match=r"this is Spark 3\.5\.6, and Coterie needs 4\.0"):
        check_versions()


@pytest.mark.parametrize("missing", ["pyarrow", "coterie.spark.source", "numpy"])
def test_registering_never_fails(missing: str) -> None:
    """One `pyspark_*` module that fails to import would hide all of them."""
    code = (
        f"import sys; sys.modules[{missing!r}] = None; import pyspark_coterie;"
        " print(hasattr(pyspark_coterie, 'DefaultSource'))"
    )
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == "False"


def test_registered_by_itself() -> None:
    code = "import pyspark_coterie; print(pyspark_coterie.DefaultSource.name())"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == "coterie"
