"""The user's directories, below XDG_CONFIG_HOME, XDG_STATE_HOME and XDG_CACHE_HOME on Linux.

platformdirs takes milliseconds to load, and a command that is given a cluster needs none of them.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_directory", "config_path", "state_directory"]


def config_path() -> Path:
    """The configuration file: COTERIE_CONFIG, or config.toml in the user's configuration directory."""
    if chosen := os.environ.get("COTERIE_CONFIG"):
        return Path(chosen)
    from platformdirs import user_config_path

    return user_config_path("coterie", appauthor=False) / "config.toml"


def state_directory(name: str) -> Path:
    """The default directory of undo files, of a cluster's data and of the demo's tables; it may not exist."""
    from platformdirs import user_state_path

    return user_state_path("coterie", appauthor=False) / name


def cache_directory() -> Path:
    """The directory of files that can be made again; it may not exist."""
    from platformdirs import user_cache_path

    return user_cache_path("coterie", appauthor=False)
