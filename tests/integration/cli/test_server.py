"""`coterie server` as a process: ready lines, mistakes, repair."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.testing import EmbeddedCluster

COTERIE = str(Path(sys.executable).parent / "coterie")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A run that is expected to end by itself."""
    return subprocess.run(
        [COTERIE, "server", *arguments], capture_output=True, text=True, check=False, timeout=30
    )


def test_it_says_when_it_is_ready_and_writes_the_address(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    command = [COTERIE, "server", "--brokers", "2", "--port", "0", "--memory"]
    command += ["--once-ready", str(ready), "--log-format", "json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("coterie is ready: 127.0.0.1:")
        assert "(2 brokers, in memory)" in line
        process.terminate()
        _, errors = process.communicate(timeout=5)
    assert process.returncode == 0
    assert ready.read_text().strip() in line
    for logged in errors.splitlines():
        assert {"time", "level", "logger", "message"} <= set(json.loads(logged))


def test_a_directory_of_other_brokers_is_refused_in_one_line(tmp_path: Path) -> None:
    with EmbeddedCluster(2, data_dir=tmp_path):
        pass
    done = run(
        "--data-dir", str(tmp_path), "--first-broker-id", "0", "--brokers", "2", "--port", "0"
    )
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert f"{tmp_path} belongs to a cluster with brokers 1 to 2, not 0 to 1" in line


def test_listeners_are_given_by_options() -> None:
    command = [COTERIE, "server", "--memory", "--brokers", "2"]
    command += ["--listener", "A://127.0.0.1:0", "--listener", "B://[::1]:0"]
    command += ["--set", "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"]
    command += ["--advertised", "A://kafka-{id}:9092"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert "ready: kafka-1:9092,kafka-2:9092 (" in process.stdout.readline()
        assert process.stdout.readline().startswith("listener B: [::1]:")
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == 0


def test_settings_come_from_a_file_and_the_command_line_wins(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("# comment\nnum.partitions = 7\n\ncoterie.durability=os\n")
    done = run("--config", str(config), "--set", "num.partitions=many", "--memory")
    assert done.returncode == 1
    assert "num.partitions takes a whole number, not 'many'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--memory", "--data-dir", "x"], 2, "exclude each other"),
        (["--memory", "--set", "nonsense=1"], 1, "there is no setting 'nonsense'"),
        (["--memory", "--set", "nonsense"], 1, "is not NAME=VALUE"),
        (["--memory", "--config", "no-such-file"], 1, "no-such-file cannot be read"),
        (["--memory", "--brokers", "0"], 1, "at least one broker"),
        (["--memory", "--first-broker-id", "-1"], 1, "broker ids start at 0 or above, not at -1"),
        (["--memory", "--port", "99999"], 2, "--port is 1 to 65535, or 0 for any, and not 99999\n"),
        (["--memory", "--port", "-5"], 2, "--port is 1 to 65535, or 0 for any, and not -5\n"),
        (
            ["--memory", "--brokers", "3", "--port", "65534"],
            2,
            "3 brokers from --port 65534 on would need ports up to 65536, and 65535 is the last",
        ),
        (
            ["--memory", "--host", "0.0.0.0", "--port", "0"],
            1,
            "cannot use the nonroutable meta-address 0.0.0.0",
        ),
        (
            ["--memory", "--listener", "SSL://h:1", "--port", "1"],
            2,
            "--port and listeners exclude each other",
        ),
        (
            ["--memory", "--listener", "FOO://h:1"],
            1,
            "No security protocol defined for listener FOO",
        ),
        (
            ["--memory", "--port", "0", "--advertised", "SSL://h:1"],
            1,
            "advertised.listeners names the listener SSL, and listeners has PLAINTEXT",
        ),
        (["--memory", "--repair"], 2, "--repair needs a data directory"),
    ],
)
def test_mistakes_get_one_clear_line(arguments: list[str], code: int, says: str) -> None:
    done = run(*arguments)
    assert done.returncode == code
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with EmbeddedCluster() as cluster:
        port = cluster.bootstrap_servers.split(":")[1]
        done = run("--memory", "--port", port)
    assert done.returncode == 1
    assert "choose another --port" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.breaks("I1", reason="a repair cuts off what is behind the damage")
def test_damage_is_refused_with_its_place_and_repaired_on_demand(tmp_path: Path) -> None:
    with EmbeddedCluster(data_dir=tmp_path) as cluster:
        cluster.scene("empty_group", "g", topic="t")
        cluster.scene("empty_group", "g", topic="t", offset=43)
    segment = next(
        path
        for path in (tmp_path / "broker-1").glob("__consumer_offsets-*/*.log")
        if path.stat().st_size
    )
    damaged = bytearray(segment.read_bytes())
    damaged[70] ^= 0xFF
    segment.write_bytes(damaged)
    done = run("--data-dir", str(tmp_path), "--port", "0")
    assert done.returncode == 1
    assert segment.name in done.stderr
    assert "--repair" in done.stderr
    assert "Traceback" not in done.stderr
    assert run("--data-dir", str(tmp_path), "--repair").returncode == 0
    with EmbeddedCluster(data_dir=tmp_path):
        pass
