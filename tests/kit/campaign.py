"""How long a campaign of random examples is: short inside `make test`, long in `make faults`."""

from __future__ import annotations

import os

__all__ = ["EXAMPLES", "KILLS"]

#: Multiplies the number of examples of property tests.
EXAMPLES = int(os.environ.get("COTERIE_EXAMPLES", "1"))
#: How often a server is killed and started again.
KILLS = int(os.environ.get("COTERIE_KILLS", "4"))
