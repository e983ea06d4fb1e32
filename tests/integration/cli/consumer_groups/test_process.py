"""The drop-in as a process: exit codes, pipes that close, terminals, languages, signals."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.client import AdminClient, TopicPartition
from coterie.error_codes import ErrorCode
from coterie.testing import EmbeddedCluster
from tests.kit.cli_replay import our_tool

MANY = 10_000
PROGRAM = (sys.executable, "-c", "from coterie.cli.consumer_groups.main import main; main()")
RED = "\x1b[31mred\x1b[0m\t\u202e"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(1) as cluster:
        cluster.create_topic("orders", 1)
        offsets = {TopicPartition("orders", 0): 0}
        names = ["größe-日本", RED, *(f"group-{number:05d}" for number in range(MANY))]
        with AdminClient.connect(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.alter_offsets(dict.fromkeys(names, offsets)).unwrap()
        yield cluster


def tool(
    cluster: EmbeddedCluster, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*PROGRAM, "--bootstrap-server", cluster.bootstrap_servers, *arguments],
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize(
    ("arguments", "usual", "strict"),
    [
        (["--list", "--state", "Stable"], 0, 0),
        (["--describe", "--group", "missing"], 0, 1),
        (["--describe", "--group", "missing", "--state"], 0, 1),
        (["--delete", "--group", "missing"], 0, 1),
        (["--delete-offsets", "--group", "missing", "--topic", "orders"], 0, 1),
        (["--reset-offsets", "--group", "group-00001", "--topic", "x", "--to-latest"], 0, 1),
        (["--list", "--timeout", "soon"], 0, 1),
        (["--validate-regex", "["], 0, 1),
        (["--list", "--group", "g"], 1, 2),
        (["--list", "--verbose"], 1, 2),
        (["--lost"], 1, 2),
        (["--list", "--state", "bogus"], 1, 2),
        (["--help"], 1, 0),
        (["--version"], 0, 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_exit_codes(
    cluster: EmbeddedCluster,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    usual: int,
    strict: int,
) -> None:
    server = ["--bootstrap-server", cluster.bootstrap_servers]
    assert our_tool([*server, *arguments]).exit == usual
    # Where the command line cannot be read, nobody can know that the option is on it.
    unreadable = "--lost" in arguments or "--verbose" in arguments
    assert our_tool([*server, *arguments, "--strict-exit"]).exit == (
        usual if unreadable else strict
    )
    monkeypatch.setenv("COTERIE_STRICT_EXIT", "1")
    assert our_tool([*server, *arguments]).exit == strict


def test_the_process_ends_with_that_code(cluster: EmbeddedCluster) -> None:
    missing = tool(cluster, "--describe", "--group", "missing", "--strict-exit")
    assert missing.returncode == 1
    assert b"Error: Executing consumer group command failed due to org.apache." in missing.stdout
    assert missing.stderr.startswith(b"java.util.concurrent.ExecutionException: org.apache.")
    assert b"Traceback" not in missing.stderr
    assert tool(cluster, "--list", "--group", "g").returncode == 1


@pytest.mark.parametrize(
    ("code", "thrown", "words"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "ClusterAuthorizationException", ""),
        (ErrorCode.UNKNOWN_SERVER_ERROR, "UnknownServerException", ""),
        (ErrorCode.INVALID_REQUEST, "InvalidRequestException", ""),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, "TimeoutException", ": "),
    ],
)
def test_a_broker_that_cannot_list_is_told_as_java_does(
    code: ErrorCode, thrown: str, words: str
) -> None:
    """The lines are those that Kafka's tool prints for the same answers, but for its reason of a timeout."""
    with EmbeddedCluster(1) as cluster:
        cluster.inject("ListGroups", error_code=code, times=None)
        where = cluster.bootstrap_servers
        said = our_tool(["--bootstrap-server", where, "--list", "--timeout", "1000"])
    text = f"{thrown}: Error listing groups on {where} (id: 1 rack: null isFenced: false){words}"
    last = said.stderr.splitlines()[-1]
    assert last.startswith(f"Caused by: org.apache.kafka.common.errors.{text}")
    assert said.exit == 0
    if not words:
        assert last.endswith("isFenced: false)")


def test_partly_done_has_a_code_of_its_own(cluster: EmbeddedCluster) -> None:
    server = ["--bootstrap-server", cluster.bootstrap_servers, "--strict-exit"]
    groups = ["--delete", "--group", "group-09998", "--group", "missing"]
    assert our_tool([*server, *groups]).exit == 3
    topics = ["--topic", "orders", "--topic", "nowhere"]
    assert our_tool([*server, "--delete-offsets", "--group", "group-09997", *topics]).exit == 3


@pytest.mark.parametrize("view", [["--list"], ["--describe", "--all-groups", "--state"]], ids=str)
def test_somebody_who_reads_one_line_and_goes(cluster: EmbeddedCluster, view: list[str]) -> None:
    with subprocess.Popen(
        [*PROGRAM, "--bootstrap-server", cluster.bootstrap_servers, *view],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait(60) == 0
    assert b"Traceback" not in said
    assert b"BrokenPipe" not in said


def test_nobody_reads_at_all(cluster: EmbeddedCluster) -> None:
    server = ["--bootstrap-server", cluster.bootstrap_servers]
    command = ["bash", "-c", 'exec "$@" >&- 2>&-', "-", *PROGRAM, *server]
    for action in (["--list"], ["--delete", "--group", "group-09996"], ["--list", "--group", "g"]):
        run = subprocess.run([*command, *action], check=False, capture_output=True, timeout=60)
        assert run.returncode == (1 if action[-1] == "g" else 0)
    with AdminClient.connect(bootstrap_servers=cluster.bootstrap_servers) as admin:
        # What was asked for was done, though nobody could be told.
        assert "group-09996" in admin.describe_groups(["group-09996"]).errors


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("line", "strict"),
    [
        ('"$@" >/dev/full', 1),
        ('"$@" >&-', 1),
        ('ulimit -f 100; "$@" >part', 1),
        ('set -o pipefail; "$@" | head -c 1', 141),
        ('"$@" >/dev/null', 0),
    ],
)
def test_lost_output_is_a_failure_only_for_strict_codes(
    cluster: EmbeddedCluster, tmp_path: Path, line: str, strict: int, unbuffered: str
) -> None:
    tool = [*PROGRAM, "--bootstrap-server", cluster.bootstrap_servers, "--list"]
    for arguments, code in (([], 0), (["--strict-exit"], strict)):
        run = subprocess.run(
            ["bash", "-c", line, "-", *tool, *arguments],
            check=False,
            capture_output=True,
            timeout=60,
            cwd=tmp_path,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
        assert (run.returncode, run.stderr) == (code, b"")


def test_an_honest_code_stays_if_its_output_is_lost(cluster: EmbeddedCluster) -> None:
    server = ["--bootstrap-server", cluster.bootstrap_servers, "--strict-exit"]
    groups = ["--delete", "--group", "group-09994", "--group", "missing"]
    command = ["bash", "-c", '"$@" >/dev/full', "-", *PROGRAM, *server, *groups]
    assert subprocess.run(command, check=False, timeout=60).returncode == 3


@pytest.mark.parametrize("language", ["C", "C.UTF-8", "POSIX"])
def test_names_are_whole_in_every_language(cluster: EmbeddedCluster, language: str) -> None:
    said = tool(cluster, "--describe", "--group", "größe-日本", LC_ALL=language)
    assert "größe-日本 " in said.stdout.decode()
    assert "Consumer group 'größe-日本' has no active members." in said.stderr.decode()


def test_what_an_encoding_has_no_place_for_is_a_question_mark(cluster: EmbeddedCluster) -> None:
    said = tool(cluster, "--list", PYTHONIOENCODING="latin-1")
    assert "größe-??" in said.stdout.decode("latin-1").splitlines()


def test_a_pipe_gets_names_as_they_are(cluster: EmbeddedCluster) -> None:
    assert f"{RED}\n" in tool(cluster, "--list").stdout.decode()


def test_a_terminal_gets_escapes(cluster: EmbeddedCluster) -> None:
    terminal, end = pty.openpty()
    with subprocess.Popen(
        [*PROGRAM, "--bootstrap-server", cluster.bootstrap_servers, "--describe", "--group", RED],
        stdin=subprocess.DEVNULL,
        stdout=end,
        stderr=end,
    ) as process:
        os.close(end)
        said = b""
        try:
            while part := os.read(terminal, 65536):
                said += part
        except OSError:
            # The terminal is gone with its last writer.
            pass
        finally:
            os.close(terminal)
        assert process.wait(60) == 0
    lines = said.decode().split("\r\n")
    shown = r"\x1b[31mred\x1b[0m\t\u202e"
    assert lines[1] == f"Consumer group '{shown}' has no active members."
    assert lines[3].startswith("GROUP ")
    assert lines[4].startswith(f"{shown} orders ")
    assert b"\x1b" not in said


def test_both_streams_in_one_file_keep_their_order(cluster: EmbeddedCluster) -> None:
    groups = ["--group", "group-00001", "--group", "group-00002"]
    run = subprocess.run(
        [*PROGRAM, "--bootstrap-server", cluster.bootstrap_servers, "--describe", *groups],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    starts = [line[:14] for line in run.stdout.splitlines() if line]
    first = ["Consumer group", "GROUP         ", "group-00001   "]
    assert starts == [*first, *first[:2], "group-00002   "]


def test_a_reset_that_is_not_executed_changes_nothing(cluster: EmbeddedCluster) -> None:
    group, place = "group-00003", TopicPartition("orders", 0)
    server = ["--bootstrap-server", cluster.bootstrap_servers]
    reset = ["--reset-offsets", "--group", group, "--topic", "orders", "--to-offset", "0"]
    with AdminClient.connect(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.alter_offsets({group: {place: 7}}).unwrap()
        for flags in ([], ["--dry-run"], ["--export"]):
            assert our_tool([*server, *reset, *flags]).exit == 0
            assert admin.list_offsets([group])[group].offsets[place].offset == 7
        assert our_tool([*server, *reset, "--execute"]).exit == 0
        assert admin.list_offsets([group])[group].offsets[place].offset == 0


def test_ctrl_c_ends_it_without_a_word() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        with subprocess.Popen(
            [*PROGRAM, "--bootstrap-server", server, "--list"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            # It has connected, and waits for an answer that does not come.
            connection, _ = silent.accept()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
            connection.close()
    assert (process.returncode, out, err) == (130, b"", b"")


def test_it_waits_for_a_cluster_that_is_still_to_come() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        with subprocess.Popen(
            [*PROGRAM, "--bootstrap-server", f"127.0.0.1:{port}", "--list", "--state"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            first = process.stderr.readline()
            assert "could not be established. Node may not be available." in first
            reserved.close()
            with EmbeddedCluster(1, port=port):
                out, _ = process.communicate(timeout=60)
    assert out == f"{'GROUP':<25} {'STATE':<20}\n"


def test_the_version_needs_no_client() -> None:
    code = (
        "import sys; from coterie.cli.consumer_groups.main import run; run(['--version']); "
        "heavy = {'asyncio', 'click', 'rich', 'msgspec', 'coterie.client', 'pathlib'}; "
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"]
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (0, "4.3.0\n", "")
