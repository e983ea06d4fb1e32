"""Where Apache Kafka cannot be had: what tests/kit/kafka_jars.py says, and how a run ends.

What this is: the paths a machine without Java or Maven takes, with a PATH that really lacks them
or leads to a stand-in program; and the cache's promises, with a stand-in for Maven.
What this is not: a download; tests/compat/test_kafka_kit.py starts the real thing.
Who calls it: pytest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit import kafka_clients, kafka_jars
from tests.kit.kafka_jars import KafkaRelease, KafkaUnavailable

REPOSITORY = Path(__file__).parents[3]
JAVA_17 = """echo 'openjdk version "17.0.15" 2025-04-15' >&2"""
# Finds its output directory as Maven would, leaves one jar there, and counts its runs.
MAVEN = """
for word; do case "$word" in -DoutputDirectory=*) out="${word#*=}";; esac; done
echo run >> "$MVN_RUNS"
echo jar > "$out/kafka-clients-4.3.0.jar"
"""
# As above, but it begins only when the test has written to a FIFO.
SLOW_MAVEN = 'read -r go < "$MVN_GO"\n' + MAVEN
TEST_FILE = """
import pytest
from tests.kit.plugin import require_kafka_clients

def test_one(kafka): pass
def test_two(kafka): pass
def test_three(kafka_cluster): kafka_cluster("3.9.1", 1)
@pytest.mark.kafka
def test_client(): require_kafka_clients("2.0.1")
def test_other(): pass
def test_skipped(): pytest.skip("not about Kafka")
"""

Program = Callable[[str, str], None]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """An empty PATH and an empty cache; call it with (name, shell script) to put a program on
    the PATH."""
    path = tmp_path / "bin"
    path.mkdir()
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("COTERIE_REQUIRE_KAFKA", raising=False)
    monkeypatch.setenv("COTERIE_KAFKA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MVN_RUNS", str(tmp_path / "mvn-runs"))
    monkeypatch.setenv("MVN_GO", str(tmp_path / "mvn-go"))

    def put(name: str, script: str) -> None:
        (path / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (path / name).chmod(0o755)

    return put


def maven_runs() -> int:
    runs = Path(os.environ["MVN_RUNS"])
    return len(runs.read_text(encoding="utf-8").split()) if runs.exists() else 0


def until(condition: Callable[[], bool], timeout: float = 60.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)


def is_waiting_for_a_lock(pids: set[int]) -> bool:
    """Whether one of these processes stands before a lock: "1: -> FLOCK ADVISORY WRITE pid"."""
    lines = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    return any(line[1] == "->" and int(line[5]) in pids for line in lines)


def reason(version: str = "4.3.0") -> str:
    with pytest.raises(KafkaUnavailable) as caught:
        kafka_jars.resolve(version)
    assert "\n" not in caught.value.reason
    assert str(caught.value) == caught.value.reason
    return caught.value.reason


def test_without_java(programs: Program) -> None:
    assert reason() == "no java on the PATH (Java 17 or newer is needed)"


@pytest.mark.parametrize(("said", "major"), [("11.0.2", 11), ("1.8.0_392", 8), ("16-ea", 16)])
def test_with_an_old_java(programs: Program, said: str, major: int) -> None:
    programs("java", f"""echo 'openjdk version "{said}"' >&2""")
    assert reason() == f"java is version {major}, and 17 or newer is needed"


@pytest.mark.parametrize("script", ["echo no such thing >&2; exit 1", "exit 0"])
def test_with_a_java_that_does_not_run(programs: Program, script: str) -> None:
    programs("java", script)
    assert reason().startswith("java -version gave no version: no ")


def test_java_home_goes_before_the_path(
    programs: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs("java", """echo 'openjdk version "11.0.2"' >&2""")
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{JAVA_17}\n", encoding="utf-8")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert kafka_jars.find_java(os.environ) == str(java)


def test_without_maven(programs: Program) -> None:
    programs("java", JAVA_17)
    assert reason() == "no mvn on the PATH, and the jars are not in the cache"


def test_maven_fails(programs: Program) -> None:
    programs("java", JAVA_17)
    programs("mvn", "echo '[ERROR] Could not resolve it'; echo '[ERROR] Re-run with -X'; exit 1")
    assert reason() == "Maven failed: Could not resolve it"


@pytest.mark.parametrize(
    "cause",
    [
        "Could not find artifact org.apache.kafka:kafka_2.13:jar:4.3.0 in central",
        "Cannot access central in offline mode and the artifact has not been downloaded",
    ],
)
def test_the_cause_is_taken_out_of_mavens_long_line(programs: Program, cause: str) -> None:
    programs("java", JAVA_17)
    before = (
        "Failed to execute goal on project kafka-for-tests: Could not resolve dependencies for"
        " project coterie.tests:kafka-for-tests:pom:0: The following artifacts could not be"
        " resolved: org.apache.kafka:kafka_2.13:jar:4.3.0"
    )
    programs("mvn", f"echo '[ERROR] {before}: {cause} -> [Help 1]'; exit 1")
    assert reason() == f"Maven failed: {cause}"


def test_maven_copies_nothing(programs: Program) -> None:
    programs("java", JAVA_17)
    programs("mvn", "exit 0")
    assert reason() == "Maven succeeded but copied no Kafka 4.3.0 jar"


def test_resolved_once_and_then_without_maven(programs: Program, tmp_path: Path) -> None:
    programs("java", JAVA_17)
    programs("mvn", MAVEN)
    jars = kafka_jars.resolve("4.3.0")
    assert jars.directory.is_relative_to(tmp_path / "cache" / "4.3.0")
    (tmp_path / "bin" / "mvn").unlink()
    assert kafka_jars.resolve("4.3.0") == jars
    assert maven_runs() == 1


def test_a_resolution_cut_short_is_done_again(programs: Program) -> None:
    programs("java", JAVA_17)
    programs("mvn", MAVEN + "exit 1")
    assert reason() == "Maven failed: no output"
    programs("mvn", MAVEN)
    jars = kafka_jars.resolve("4.3.0")
    assert maven_runs() == 2
    # A jar that something removed later is noticed as well.
    (jars.directory / "kafka-clients-4.3.0.jar").unlink()
    assert (kafka_jars.resolve("4.3.0").directory / "kafka-clients-4.3.0.jar").is_file()
    assert maven_runs() == 3


def test_the_marker_is_written_last(programs: Program) -> None:
    programs("java", JAVA_17)
    programs("mvn", MAVEN)
    directory = kafka_jars.resolve("4.3.0").directory
    marker = directory / ".complete"
    assert json.loads(marker.read_text(encoding="utf-8")) == ["kafka-clients-4.3.0.jar"]
    assert sorted(path.name for path in directory.iterdir()) == [
        ".complete",
        "kafka-clients-4.3.0.jar",
    ]


def test_two_processes_at_once_run_maven_once(programs: Program) -> None:
    programs("java", JAVA_17)
    programs("mvn", SLOW_MAVEN)
    go = Path(os.environ["MVN_GO"])
    os.mkfifo(go)
    code = (
        "from tests.kit import kafka_jars\n"
        "import sys\n"
        "sys.stdout.write(str(kafka_jars.resolve('4.3.0').directory))\n"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", code], cwd=REPOSITORY, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    try:
        until(lambda: is_waiting_for_a_lock({process.pid for process in both}))
        with go.open("w") as stand_in:
            stand_in.write("go\n")
        directories = [process.communicate(timeout=60)[0] for process in both]
    finally:
        for process in both:
            process.kill()
            process.wait()
    assert directories[0] == directories[1] != b""
    assert maven_runs() == 1


def test_all_clients_are_resolved_by_one_run(programs: Program, tmp_path: Path) -> None:
    programs("java", JAVA_17)
    programs("mvn", MAVEN.replace("4.3.0", kafka_clients.VERSIONS[-1]))
    clients = kafka_clients.resolve()
    assert clients.directory.is_relative_to(tmp_path / "cache" / "clients")
    (tmp_path / "bin" / "mvn").unlink()
    assert kafka_clients.resolve() == clients
    assert maven_runs() == 1


def test_where_the_cache_is(tmp_path: Path) -> None:
    home = Path.home()
    assert kafka_jars.cache_root({}) == home / ".cache" / "coterie" / "kafka"
    assert kafka_jars.cache_root({"XDG_CACHE_HOME": "x"}) == Path("x/coterie/kafka")
    named = {"XDG_CACHE_HOME": "x", "COTERIE_KAFKA_CACHE": str(tmp_path)}
    assert kafka_jars.cache_root(named) == tmp_path


@pytest.mark.parametrize(
    ("version", "kraft", "logging"),
    [("4.3.0", True, "log4j2"), ("3.9.1", True, "reload4j"), ("2.5.1", False, "reload4j")],
)
def test_what_differs_between_lines(version: str, kraft: bool, logging: str) -> None:
    release = KafkaRelease(version)
    assert (release.kraft, release.logging) == (kraft, logging)


def run_pytest(directory: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """A run of its own, outside the repository, with the plugin and nothing else of ours."""
    (directory / "test_it.py").write_text(TEST_FILE, encoding="utf-8")
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "tests.kit.plugin", "-p", "no:cacheprovider"),
            *("-p", "no:randomly", "-rA", "--strict-markers", "test_it.py"),
        ],
        check=False,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environ},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_run_without_kafka_says_so_in_one_line(programs: Program, tmp_path: Path) -> None:
    run = run_pytest(tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert [line for line in run.stdout.splitlines() if "NOT RUN" in line] == [
        (
            "NOT RUN: 4 tests need a real Apache Kafka 4.3.0, 3.9.1, 2.0.1: no java on the PATH"
            " (Java 17 or newer is needed) (install Java 17 and Maven;"
            " COTERIE_REQUIRE_KAFKA=1 makes this a failure)"
        )
    ]
    assert "1 passed, 5 skipped" in run.stdout


def test_required_kafka_is_a_failure(programs: Program, tmp_path: Path) -> None:
    run = run_pytest(tmp_path, COTERIE_REQUIRE_KAFKA="1")
    assert run.returncode == 1, run.stdout + run.stderr
    assert "NOT RUN" not in run.stdout
    assert "2 failed, 1 passed, 1 skipped, 2 errors" in run.stdout
    assert "needs a real Apache Kafka 4.3.0: no java on the PATH" in run.stdout


def test_the_marker_kafka_selects_by_fixture(programs: Program, tmp_path: Path) -> None:
    run = run_pytest(tmp_path, PYTEST_ADDOPTS="-m 'not kafka'")
    assert "1 passed, 1 skipped, 4 deselected" in run.stdout
    assert "NOT RUN" not in run.stdout
