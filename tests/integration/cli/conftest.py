"""The cluster and the command of tests/unit/cli."""

from __future__ import annotations

from tests.unit.cli.conftest import nowhere, tool, world

__all__ = ["nowhere", "tool", "world"]
