"""`coterie` on a real terminal (a pty), behind pipes, and without either."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pyte
import pytest

from coterie.testing import EmbeddedCluster
from tests.unit.cli.conftest import COTERIE, HOSTILE, Tool, environment

ROWS, COLUMNS = 24, 120


class Terminal:
    """A process on a pty, and what its screen shows."""

    def __init__(self, process: pexpect.spawn[str]) -> None:
        self.process = process
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self.raw = ""
        self._stream = pyte.Stream(self.screen)

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def until(self, shown: Callable[[str], bool] | str) -> str:
        """Read until the screen shows this."""
        deadline = time.monotonic() + 20
        holds = (lambda text: shown in text) if isinstance(shown, str) else shown
        while not holds(self.text):
            assert time.monotonic() < deadline, self.text
            try:
                part = self.process.read_nonblocking(65536, timeout=0.2)
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                assert holds(self.text), self.text
                break
            self.raw += part
            self._stream.feed(part)
        return self.text

    def end(self) -> int:
        """Wait for the process; its exit code, as a shell reports it."""
        self.process.expect(pexpect.EOF, timeout=20)
        self.raw += self.process.before or ""
        self._stream.feed(self.process.before or "")
        self.process.close()
        if self.process.signalstatus is not None:
            return 128 + int(self.process.signalstatus)
        assert self.process.exitstatus is not None
        return int(self.process.exitstatus)


@contextmanager
def terminal(
    world: EmbeddedCluster, home: Path, *arguments: str, command: str = COTERIE, **env: str
) -> Iterator[Terminal]:
    given = environment(home, COTERIE_BOOTSTRAP_SERVERS=world.bootstrap_servers, TERM="xterm")
    process = pexpect.spawn(
        command,
        list(arguments),
        env=given | env,
        dimensions=(ROWS, COLUMNS),
        encoding="utf-8",
        timeout=20,
        cwd=str(home),
    )
    try:
        yield Terminal(process)
    finally:
        process.close(force=True)


def test_watch_sorts_filters_pauses_and_quits(world: EmbeddedCluster, tmp_path: Path) -> None:
    arguments = ("groups", "watch", "--match", "^world-", "--interval", "100ms")
    with terminal(world, tmp_path, *arguments) as screen:
        text = screen.until("world-reports")
        assert text.index("world-audit") < text.index("world-reports")
        assert "q quit  s sort  r reverse  / filter" in text
        screen.process.send("sss")  # group is what it begins with; then state, members, lag
        screen.until("LAG↑")
        screen.process.send("r")
        screen.until(
            lambda text: "LAG↓" in text and text.index("world-reports") < text.index("world-audit")
        )
        screen.process.send("/rep")
        screen.until("filter: rep_")
        screen.process.send("\r")
        text = screen.until(lambda text: "filter: rep (Esc clears)" in text)
        assert "world-reports" in text
        assert "world-audit" not in text
        screen.process.send("\x1b")
        screen.until("world-audit")
        screen.process.send(" ")
        screen.until("PAUSED")
        screen.process.send("q")
        assert screen.end() == 0
    assert screen.raw.count("\x1b[?1049h") == screen.raw.count("\x1b[?1049l") == 1
    assert "\x1b[?25h" in screen.raw  # the cursor is back


def test_watch_shortens_names_and_nothing_else(tmp_path: Path) -> None:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders")
        cluster.scene("lagging_group", "behind", topic="orders", lag=123_456)
        cluster.scene("empty_group", "long-" * 40, topic="orders")
        with terminal(cluster, tmp_path, "groups", "watch", "--interval", "100ms") as screen:
            text = screen.until(lambda text: "0.0" in text)
            screen.process.send("q")
            assert screen.end() == 0
    assert re.search(r"GROUP +STATE +MEMBERS +LAG +RATE +PRODUCED", text)
    assert re.search(r"behind +Empty +0 +123456 +0\.0 +0\.0", text)
    assert re.search(r"long-long-[-long]+… +Empty +0 +\d+ +0\.0 +0\.0", text)


def test_watch_of_one_group_shows_its_partitions_and_their_rates(
    world: EmbeddedCluster, tmp_path: Path
) -> None:
    arguments = ("groups", "watch", "world-reports", "--interval", "100ms")
    with terminal(world, tmp_path, *arguments) as screen:
        text = screen.until("0.0")
        assert re.search(r"TOPIC +PARTITION +COMMITTED +LOG-END +LAG +RATE +PRODUCED", text)
        screen.process.sendcontrol("c")
        assert screen.end() == 130
    assert "Traceback" not in screen.raw


def test_a_signal_leaves_the_terminal_as_it_was(world: EmbeddedCluster, tmp_path: Path) -> None:
    with terminal(world, tmp_path, "groups", "watch", "--interval", "1h") as screen:
        screen.until("world-reports")
        screen.process.kill(signal.SIGTERM)
        assert screen.end() == 128 + signal.SIGTERM
    assert "\x1b[?1049l" in screen.raw
    assert "\x1b[?25h" in screen.raw


def test_a_dumb_terminal_gets_lines(world: EmbeddedCluster, tmp_path: Path) -> None:
    arguments = ("groups", "watch", "world-reports", "--count", "2", "--interval", "10ms")
    with terminal(world, tmp_path, *arguments, TERM="dumb") as screen:
        assert screen.end() == 0
    assert "\x1b" not in screen.raw
    assert screen.raw.count("world-reports") == 4


def test_hostile_names_stay_inside_their_cells(world: EmbeddedCluster, tmp_path: Path) -> None:
    with terminal(world, tmp_path, "groups", "watch", "--interval", "100ms") as screen:
        screen.until("a\\tb\\nc\\x1b[31md\\u202e\\u200fe\\\\x1b[red]=cmd()")
        screen.process.send("q")
        assert screen.end() == 0
    assert "\u202e" not in screen.raw


@pytest.mark.parametrize(("answer", "left"), [("n", True), ("y", False)])
def test_a_terminal_is_asked(
    answer: str, left: bool, world: EmbeddedCluster, tool: Tool, tmp_path: Path
) -> None:
    world.scene("empty_group", "prompted", topic="payments")
    with terminal(world, tmp_path, "groups", "delete", "prompted") as screen:
        screen.until("Now delete 1 group? [y/N]:")
        screen.process.sendline(answer)
        assert screen.end() == 0
    assert ("Nothing was changed" in screen.raw) == left
    assert tool("groups", "list", "--match", "^prompted", "-o", "name").stdout == (
        "prompted\n" if left else ""
    )
    if left:
        assert tool("groups", "delete", "prompted", "-e").returncode == 0


def test_ctrl_c_at_the_prompt_changes_nothing(
    world: EmbeddedCluster, tool: Tool, tmp_path: Path
) -> None:
    with terminal(world, tmp_path, "groups", "delete", "world-audit") as screen:
        screen.until("Now delete 1 group? [y/N]:")
        screen.process.sendcontrol("c")
        assert screen.end() == 130
    assert "Traceback" not in screen.raw
    assert tool("groups", "list", "world-audit", "-o", "name").stdout == "world-audit\n"


def test_colour_is_for_terminals_unless_no_color(world: EmbeddedCluster, tmp_path: Path) -> None:
    arguments = ("groups", "list", "world-billing")
    with terminal(world, tmp_path, *arguments) as screen:
        assert screen.end() == 0
        assert "\x1b[32mStable\x1b[0m" in screen.raw
    with terminal(world, tmp_path, *arguments, NO_COLOR="1") as screen:
        assert screen.end() == 0
        assert "\x1b[" not in screen.raw


def test_what_takes_long_shows_progress_on_a_terminal(tmp_path: Path) -> None:
    with EmbeddedCluster() as cluster:
        cluster.scene("stale_group", "old")
        cluster.inject("Fetch", delay_ms=3000)
        with terminal(cluster, tmp_path, "groups", "list", "--idle-for", "1d") as screen:
            screen.until("Reading __consumer_offsets")
            assert screen.end() == 0
            assert "old" in screen.text
            assert "Reading" not in screen.text  # it went away again


def test_watch_has_the_screen_for_itself(tmp_path: Path) -> None:
    with EmbeddedCluster() as cluster:
        cluster.scene("stale_group", "old")
        cluster.inject("Fetch", delay_ms=2000)
        arguments = ("groups", "watch", "--idle-for", "1d", "--count", "1", "--interval", "1ms")
        with terminal(cluster, tmp_path, *arguments) as screen:
            assert screen.end() == 0
        assert "LAG" in screen.raw
        assert "Reading __consumer_offsets" not in screen.raw


# -- pipes ------------------------------------------------------------------------------------------------


def shell(
    world: EmbeddedCluster, home: Path, line: str, **more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line.replace("coterie", COTERIE)],
        env=environment(home, COTERIE_BOOTSTRAP_SERVERS=world.bootstrap_servers, **more),
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_ten_thousand_groups_into_head(tmp_path: Path) -> None:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("t", partitions=1)

        async def many() -> None:
            scenes = cluster._twin.scenes
            for number in range(10_000):
                await scenes.empty_group(f"group-{number:05}", topic="t")

        cluster._run(many())
        for form in ("table", "name"):
            done = shell(cluster, tmp_path, f"coterie groups list -o {form} | head -1")
            assert done.stderr == ""
            assert done.returncode == 141, form  # as a shell reports SIGPIPE
            assert len(done.stdout.splitlines()) == 1
        whole = shell(cluster, tmp_path, "coterie groups list -o name | wc -l")
        assert whole.stdout.strip() == "10000"


def test_closed_and_full_outputs_are_told(world: EmbeddedCluster, tmp_path: Path) -> None:
    closed = shell(world, tmp_path, "coterie groups list >&-")
    assert closed.returncode == 1
    assert (
        closed.stderr == "Error: standard output is closed; give the command somewhere to write\n"
    )
    full = shell(world, tmp_path, "coterie groups list >/dev/full")
    assert full.returncode == 1
    assert full.stderr == "Error: standard output cannot be written: No space left on device\n"
    silent = shell(world, tmp_path, "coterie groups list nobody 2>&-")
    assert silent.returncode == 1


def test_unbuffered_output_is_whole_or_told(tmp_path: Path) -> None:
    """PYTHONUNBUFFERED=1, as in many images: Python takes what a pipe or a disk took for all of it."""
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders", partitions=200)
        for number in range(10):
            cluster.scene("empty_group", f"group-{number}", topic="orders")

        def run(line: str) -> subprocess.CompletedProcess[str]:
            return shell(cluster, tmp_path, line, PYTHONUNBUFFERED="1")

        whole = run("coterie groups export > whole.json")
        assert (whole.returncode, whole.stderr) == (0, "")
        assert (tmp_path / "whole.json").stat().st_size > 200_000  # more than a pipe takes at once
        early = run("coterie groups export | head -c 100")
        assert (early.returncode, early.stderr, len(early.stdout)) == (141, "", 100)
        full = run("ulimit -f 100; coterie groups export > part.json")
        assert full.returncode == 1
        assert full.stderr == "Error: standard output cannot be written: File too large\n"


# -- completion -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_completion_scripts(shell_name: str, nowhere: Tool) -> None:
    done = nowhere("completion", shell_name)
    assert done.returncode == 0
    assert f"_COTERIE_COMPLETE={shell_name}_complete" in done.stdout


def complete(tool: Tool, words: str, **env: str) -> list[str]:
    given = {"_COTERIE_COMPLETE": "bash_complete", "COMP_WORDS": words}
    given["COMP_CWORD"] = str(len(words.split(" ")) - 1)
    done = tool(env=given | env, process=True)
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_live_names_states_formats_and_contexts(tool: Tool) -> None:
    assert complete(tool, "coterie groups describe world-b") == ["world-billing"]
    assert complete(tool, "coterie groups lag --topic pay") == ["payments"]
    assert complete(tool, "coterie groups list --state st") == ["Stable"]
    assert complete(tool, "coterie groups list -o j") == ["json", "jsonl"]
    assert complete(tool, "coterie groups del") == ["delete", "delete-offsets"]
    assert HOSTILE not in complete(tool, "coterie groups describe ")
    tool("context", "set", "staging", "bootstrap.servers=localhost:1")
    assert complete(tool, "coterie groups list --context st") == ["staging"]
    other = "coterie --bootstrap-server localhost:1 groups describe w"
    assert complete(tool, other) == []


def test_completion_is_silent_when_nobody_answers(nowhere: Tool) -> None:
    assert complete(nowhere, "coterie groups describe w") == []
    silent = {"COTERIE_BOOTSTRAP_SERVERS": "localhost:1"}
    assert complete(nowhere, "coterie groups describe w", **silent) == []


def test_bash_completes_with_the_tab_key(world: EmbeddedCluster, tmp_path: Path) -> None:
    arguments = ("--norc", "--noprofile", "-i")
    with terminal(world, tmp_path, *arguments, command="bash", PS1="ready> ") as screen:
        screen.until("ready>")
        directory = Path(COTERIE).parent
        screen.process.sendline(
            f'PATH="{directory}:$PATH"; eval "$(coterie completion bash)"; clear'
        )
        screen.until(lambda text: text.strip() == "ready>")
        screen.process.send("coterie groups describe world-bi\t")
        screen.until("coterie groups describe world-billing")
