"""Replaying transcripts on a world: with our tool in this process, or with Kafka's own in one JVM."""

from __future__ import annotations

import base64
import contextlib
import functools
import io
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from coterie.cli.consumer_groups.main import run
from tests.kit import kafka_jars, processes
from tests.kit.cli_transcripts import (
    Said,
    Transcript,
    in_order,
    secured_in_order,
    transcripts,
)
from tests.kit.cli_world import World
from tests.kit.kafka_config import HOST

__all__ = [
    "Driver",
    "Tool",
    "java_driver",
    "java_tool",
    "not_playable",
    "our_tool",
    "replay",
    "replay_secured",
]

#: Runs a tool with arguments, in the current directory.
Tool = Callable[[Sequence[str]], Said]
#: Likewise, and which tool comes first: the name of its class.
Driver = Callable[[str, Sequence[str]], Said]

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
    with java_driver(directory, version) as driver:
        yield functools.partial(
            driver, "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        )


@contextlib.contextmanager
def java_driver(directory: Path, version: str = "4.3.0") -> Iterator[Driver]:
    """Any of Kafka's tools that does one thing and ends, all in one JVM."""
    jars = kafka_jars.resolve(version)
    options = [
        "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
        "-Djava.net.preferIPv4Stack=true",
        f"-Dlog4j2.configurationFile={_HERE / 'kafka' / 'tools-log4j2.properties'}",
    ]  # fmt: skip
    argv = [*jars.command(*options), str(_HERE / "ToolDriver.java")]
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
        alone = threading.Lock()

        def ask(main_class: str, arguments: Sequence[str]) -> Said:
            words = [main_class, *arguments]
            line = " ".join(f"={base64.b64encode(each.encode()).decode()}" for each in words)
            with alone:
                asked.write(f"{line}\n")
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
    looks, clicks, changes = in_order()
    said: dict[str, Said] = {}
    with _Stage(world.bootstrap, tool, directory) as stage:
        for scenes in (looks, clicks, changes):
            if scenes is clicks:
                world.make_clicks()
            for scene in scenes:
                if not scene.mentions(world.absent):
                    said[scene.name] = stage.play(scene)
            if scenes is clicks:
                world.remove_clicks()
    return said


def replay_secured(bootstrap: str, tool: Tool, directory: Path) -> dict[str, Said]:
    """Every transcript of the world with users, which has to be there."""
    with _Stage(bootstrap, tool, directory) as stage:
        return {scene.name: stage.play(scene) for scene in secured_in_order()}


class _Stage:
    """A directory for the files that a command line names, and an address where nobody listens."""

    def __init__(self, bootstrap: str, tool: Tool, directory: Path) -> None:
        self._bootstrap = bootstrap
        self._tool = tool
        self._directory = directory
        self._inside = contextlib.ExitStack()
        self._nobody = ""

    def __enter__(self) -> Self:
        # Bound and not listening: nobody else gets the port, and nobody answers there.
        taken = self._inside.enter_context(socket.socket())
        taken.bind((HOST, 0))
        self._nobody = f"{HOST}:{taken.getsockname()[1]}"
        self._inside.enter_context(contextlib.chdir(self._directory))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._inside.close()

    def play(self, scene: Transcript) -> Said:
        for name, text in scene.files.items():
            (self._directory / name).write_text(text, encoding="utf-8")
        return self._tool(scene.arguments(self._bootstrap, self._nobody))


def not_playable(absent: set[str]) -> dict[str, str]:
    """The transcripts that cannot be replayed yet, and why."""
    return {
        name: f"needs groups that the cluster does not serve: {sorted(missing)}"
        for name, each in transcripts().items()
        if (missing := each.mentions(absent))
    }
