"""What spark-submit runs: `spark-submit [options] .../coterie/spark/submit.py run --segments DIR --out DIR`.

The arguments are those of `coterie pipeline`; master, memory and logs are spark-submit's.
"""

from __future__ import annotations

import sys
from importlib import import_module

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run a step; the exit code, as `coterie` has it."""
    given = sys.argv[1:] if arguments is None else arguments
    # By its place, as `coterie` finds our commands: neither side has to be there for the other.
    code: int = import_module("coterie.cli.main").run(["pipeline", *given])
    return code


if __name__ == "__main__":
    sys.exit(main())
