"""A fleet's life, simulated: real coordinators, real records, a clock that runs as fast as it can.

`simulate` plans a fleet from a seed, drives the pure coordinator through its days and writes what a
broker would have on its disk: segments of `__consumer_offsets`. Beside them go the history of end offsets
and the truth about what happened, which no broker writes down.
"""

from __future__ import annotations

from coterie.simulation.simulator import Simulated, simulate

__all__ = ["Simulated", "simulate"]
