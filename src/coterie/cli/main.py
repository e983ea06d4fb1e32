"""`coterie`: the entry point. Finds the command, turns errors into one line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

import coterie
from coterie.console.commands import LateGroup
from coterie.console.options import connected
from coterie.console.process import buffer_stdout
from coterie.console.terminal import NobodyReads, flush, note, shown
from coterie.errors import CoterieError

__all__ = ["cli", "main", "run"]

_INTERRUPTED = 130  # as a shell reports SIGINT
_NOBODY_READS = 141  # as a shell reports SIGPIPE

#: Commands and their modules, imported when used: one command must not load another's needs.
COMMANDS = {
    "acls": "coterie.cli.acls",
    "cluster": "coterie.cli.cluster",
    "completion": "coterie.cli.completion",
    "context": "coterie.cli.context",
    "demo": "coterie.cli.demo",
    "groups": "coterie.cli.groups",
    "pipeline": "coterie.cli.pipeline",
    "server": "coterie.cli.server",
    "topics": "coterie.cli.topics",
    "simulate": "coterie.cli.simulate",
    "wire": "coterie.cli.wire",
}


@contextmanager
def _told_as_ours() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise NobodyReads from None


class _Commands(LateGroup):
    """Commands may write by click, which would end the process for a closed pipe, with another code."""

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        with _told_as_ours():  # --help writes, too
            return super().make_context(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        with _told_as_ours():
            return super().invoke(ctx)


@click.group(
    cls=_Commands, places=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(coterie.__version__, prog_name="coterie")
@connected
def cli() -> None:
    """Consumer groups for Kafka: what are they doing, what were they doing, what may I delete?"""


def main(arguments: list[str] | None = None) -> None:
    """Run a command.

    Exit codes: 0 all done, 1 failed, 2 wrong usage, 3 partial, 130 interrupted, 141 nobody reads the output.
    """
    buffer_stdout()
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run a command; its exit code. What went wrong has been told by then."""
    code = _run(arguments)
    if code != 0:
        _drop_unwritten()
    return code


def _run(arguments: list[str] | None) -> int:
    try:
        code = cli.main(args=arguments, prog_name="coterie", standalone_mode=False)
        flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except NobodyReads:
        return _NOBODY_READS
    except (click.Abort, KeyboardInterrupt):
        return _INTERRUPTED
    except CoterieError as error:
        note(f"Error: {shown(str(error))}")
        return 1
    except Exception as error:
        if os.environ.get("COTERIE_DEBUG"):
            raise
        note(f"Error: {type(error).__name__}: {shown(str(error))}; COTERIE_DEBUG=1 shows where")
        return 1
    return code if isinstance(code, int) else 0


def _drop_unwritten() -> None:
    """Python writes what is left at its end, and complains if it cannot; that has been told already."""
    try:
        flush()
    except (NobodyReads, CoterieError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
