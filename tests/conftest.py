"""What all tests share: the kit's fixtures, and Hypothesis settings."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.kit.plugin"]

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# CI looks for regressions, not for luck: the same examples every time.
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")
