"""Replaying transcripts on a world: with our tool in this process, or with Kafka's own in one JVM."""

from __future__ import annotations

import base64
import contextlib
import io
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from coterie.cli.consumer_groups.main import run
from tests.kit import kafka_jars, processes
from tests.kit.cli_transcripts import Said, Transcript, in_order, transcripts
from tests.kit.cli_world import World
from tests.kit.kafka_config import HOST

__all__ = ["Tool", "java_tool", "not_playable", "our_tool", "replay"]

#: Runs a tool with arguments, in the current directory.
Tool = Callable[[Sequence[str]], Said]

_HERE: Final = Path(__file__).parent


def our_tool(arguments: Sequence[str]) -> Said:
    """Our tool, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    return Said(code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def java_tool(directory: Path, version: str = "4.3.0") -> Iterator[Tool]:
    """Kafka's tool, in a JVM that starts once; `directory` is where it looks for files."""
    jars = kafka_jars.resolve(version)
    argv = [
        jars.java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
        "-Djava.net.preferIPv4Stack=true",
        f"-Dlog4j2.configurationFile={_HERE / 'kafka' / 'tools-log4j2.properties'}",
        "-cp", jars.classpath, str(_HERE / "ToolDriver.java"),
    ]  # fmt: skip
    with subprocess.Popen(
        processes.tethered(argv),
        cwd=directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, answered = process.stdin, process.stdout

        def ask(arguments: Sequence[str]) -> Said:
            words = (f"={base64.b64encode(each.encode()).decode()}" for each in arguments)
            asked.write(" ".join(words) + "\n")
            asked.flush()
            code, *streams = answered.readline().split()
            out, err = (base64.b64decode(each[1:]).decode() for each in streams)
            return Said(int(code), out, err)

        try:
            yield ask
        finally:
            asked.close()


def replay(world: World, tool: Tool, directory: Path) -> dict[str, Said]:
    """Every transcript that the world has the groups for, in order; what the tool said, by name."""
    for each in transcripts().values():
        for name, text in each.files.items():
            (directory / name).write_text(text, encoding="utf-8")
    looks, clicks, changes = in_order()
    said: dict[str, Said] = {}
    with socket.socket() as taken, contextlib.chdir(directory):
        # Bound and not listening: nobody else gets the port, and nobody answers there.
        taken.bind((HOST, 0))
        nobody = f"{HOST}:{taken.getsockname()[1]}"

        def play(scenes: list[Transcript]) -> None:
            for scene in scenes:
                if not scene.mentions(world.absent):
                    said[scene.name] = tool(scene.arguments(world.bootstrap, nobody))

        play(looks)
        world.make_clicks()
        play(clicks)
        world.remove_clicks()
        play(changes)
    return said


def not_playable(absent: set[str]) -> dict[str, str]:
    """The transcripts that cannot be replayed yet, and why."""
    reasons: dict[str, str] = {}
    for name, each in transcripts().items():
        missing = each.mentions(absent)
        if each.secured:
            reasons[name] = "needs users, ACLs and SASL"
        elif missing:
            reasons[name] = f"needs groups that the cluster does not serve: {sorted(missing)}"
    return reasons
