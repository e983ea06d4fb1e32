"""Where the commands keep files that nobody gave them a place for: the user's state directory."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["state_directory"]


def state_directory(name: str) -> Path:
    """A directory of ours below XDG_STATE_HOME; it need not exist."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base).absolute() / "coterie" / name
