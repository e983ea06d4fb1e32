"""`coterie completion`: the script that makes a shell complete commands, options and live names."""

from __future__ import annotations

import click

from coterie.console.terminal import write

__all__ = ["command"]

_HOW = {
    "bash": 'eval "$(coterie completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(coterie completion zsh)"   # in ~/.zshrc',
    "fish": "coterie completion fish > ~/.config/fish/completions/coterie.fish",
}


@click.command(
    "completion",
    help="Print the completion script of a shell: bash, zsh or fish.\n\n\b\n"
    + "\n".join(_HOW.values()),
)
@click.argument("shell", type=click.Choice(list(_HOW)))
def command(shell: str) -> None:
    from click.shell_completion import get_completion_class  # noqa: PLC0415 - only here

    from coterie.cli.main import cli  # noqa: PLC0415 - which imports this one

    kind = get_completion_class(shell)
    if kind is not None:
        write(kind(cli, {}, "coterie", "_COTERIE_COMPLETE").source() + "\n")
