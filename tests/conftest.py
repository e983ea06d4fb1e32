"""What all tests share: the kit's fixtures, and Hypothesis settings."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from tests.kit.campaign import EXAMPLES

pytest_plugins = [
    "tests.kit.plugin",
    "tests.kit.secret_watch",
    "tests.kit.invariant_watch",
    "tests.kit.workers",
    "tests.kit.last_words",
    "tests.kit.readers",
    "tests.compat.missing_programs",
]

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# CI looks for regressions, not for luck: the same examples every time.
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As a job in the background: the commands that tests start would inherit it, deaf to Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line(
        "markers", "campaign: takes minutes; runs in `make faults`, with a short form elsewhere"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Campaigns run only where they were asked for; pytest says how many were left out."""
    if EXAMPLES > 1:
        return
    campaigns = [item for item in items if item.get_closest_marker("campaign")]
    if campaigns:
        config.hook.pytest_deselected(items=campaigns)
        items[:] = [item for item in items if item not in campaigns]
