"""`coterie`: the entry point. Finds the command, turns errors into one line and an exit code."""

from __future__ import annotations

import sys
from importlib import import_module

import click

import coterie
from coterie.errors import CoterieError

__all__ = ["cli", "main"]

#: Commands and their modules, imported when used: one command must not load another's needs.
COMMANDS = {
    "pipeline": "coterie.spark.command",
    "server": "coterie.cli.server",
    "simulate": "coterie.simulation.command",
    "wire": "coterie.cli.wire",
}


class _LateCommands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(COMMANDS[cmd_name]).command
        return command


@click.group(cls=_LateCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(coterie.__version__, prog_name="coterie")
def cli() -> None:
    """Consumer groups for Kafka: what are they doing, what were they doing, what may I delete?"""


def main(arguments: list[str] | None = None) -> None:
    """Run a command. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    try:
        code = cli.main(args=arguments, prog_name="coterie", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except CoterieError as error:
        click.echo(f"Error: {error}", err=True)
        code = 1
    except (click.Abort, KeyboardInterrupt):
        code = 130
    sys.exit(code if isinstance(code, int) else 0)
