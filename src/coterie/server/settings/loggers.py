"""Levels of the server's loggers, as Kafka shows and changes them (KIP-412)."""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["LEVELS", "logger_levels", "set_level"]

ROOT: Final = "root"
#: Kafka's names of levels; TRACE and FATAL have the nearest of Python's.
LEVELS: Final = {
    "OFF": logging.CRITICAL + 10,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG - 5,
}
_NAMES: Final = {level: name for name, level in LEVELS.items()}


def logger_levels() -> dict[str, str]:
    """The level of each of our loggers, and of the root logger."""
    manager = logging.root.manager
    ours = sorted(name for name in manager.loggerDict if name.startswith("coterie"))
    loggers = {ROOT: logging.root} | {name: logging.getLogger(name) for name in ours}
    return {name: _NAMES.get(each.getEffectiveLevel(), "INFO") for name, each in loggers.items()}


def set_level(name: str, level: str | None) -> None:
    """Change a logger's level; None lets it follow its parent."""
    logger = logging.root if name == ROOT else logging.getLogger(name)
    logger.setLevel(logging.NOTSET if level is None else LEVELS[level])
