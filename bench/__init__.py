"""How fast we are, beside the libraries that a user would otherwise take: `python -m bench`.

A part is a module of this package with a function `measurements`, and its measurements are named after
it. The parts are listed here and imported only when they run, since each has peers of its own.
"""

from __future__ import annotations

from typing import Final

__all__ = ["PARTS"]

#: In the order in which they run; `bench.<part>` is the module.
PARTS: Final = ("protocol", "cluster", "cli", "client", "requests", "security", "spark")
