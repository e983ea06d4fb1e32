"""What spark-submit runs: `spark-submit [options] .../coterie/spark/submit.py run --segments DIR --out DIR`.

The arguments are those of `coterie pipeline`; master, memory and logs are spark-submit's.
"""

from __future__ import annotations

import sys

import click

from coterie.errors import CoterieError
from coterie.spark.command import command

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run a step; the exit code, as `coterie` has it."""
    try:
        command.main(args=arguments, prog_name="coterie pipeline", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except CoterieError as error:
        click.echo(f"Error: {error}", err=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
