"""`coterie`: the entry point. Finds the command, turns errors into one line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

import coterie
from coterie.console.options import connected
from coterie.console.terminal import ExitCode, NoReader, buffer_stdout, flush, note
from coterie.errors import CoterieError
from coterie.safe_text import shown

__all__ = ["LateGroup", "cli", "main", "run"]

#: Commands and their modules.
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


class LateGroup(click.Group):
    """A group whose commands are imported when they are used: one command must not load another's needs.

    The place of a command is `module`, which has `command`, or `module:name`.
    """

    def __init__(self, *args: Any, places: Mapping[str, str], **more: Any) -> None:
        super().__init__(*args, **more)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._places)

    def get_command(
        self,
        ctx: click.Context,
        cmd_name: str,
    ) -> click.Command | None:
        if cmd_name not in self._places:
            return None
        module, _, name = self._places[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), name or "command")
        return command


@contextmanager
def _no_reader_as_ours() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise NoReader from None


class _Commands(LateGroup):
    """Commands may write by click, which would end the process with another code for a closed pipe."""

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        with _no_reader_as_ours():  # --help writes, too
            return super().make_context(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        with _no_reader_as_ours():
            return super().invoke(ctx)


def _print_version(context: click.Context, _option: click.Parameter, wanted: object) -> None:
    if not wanted or context.resilient_parsing:
        return
    from coterie import compiled

    click.echo(f"coterie, version {coterie.__version__}")
    if compiled.native is None:
        click.echo(
            "There is no compiled code: decoding is slower. Install a wheel or a C compiler to change that."
        )
    context.exit()


@click.group(
    cls=_Commands, places=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
@connected
def cli() -> None:
    """Consumer groups for Kafka: inspect, watch, change and analyse them."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command, and end the process with an ExitCode."""
    buffer_stdout()
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run a command; its exit code. Errors have been reported by then."""
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
    except NoReader:
        return ExitCode.NO_READER
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except CoterieError as error:
        note(f"Error: {shown(str(error))}")
        return ExitCode.FAILED
    except Exception as error:
        if os.environ.get("COTERIE_DEBUG"):
            raise
        note(f"Error: {type(error).__name__}: {shown(str(error))}; COTERIE_DEBUG=1 shows where")
        return ExitCode.FAILED
    return code if isinstance(code, int) else ExitCode.DONE


def _drop_unwritten() -> None:
    """Python flushes at its end, and reports an error if it cannot, which has been reported already."""
    try:
        flush()
    except (NoReader, CoterieError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
