"""How the workers of `make test` share the suite, so that none is idle while another still has minutes to go.

What this is: a pytest plugin for pytest-xdist's --dist=loadscope. A module stays with one worker, and so do
modules that share what is dear to start: a Spark session, a Kafka of each version. What takes longest begins
first; the rest, in its random order, goes to whoever is free.
What this is not: of any effect where pytest runs without workers.
Who calls it: tests/conftest.py names it in pytest_plugins.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

#: Longest first. What begins with one of these names is one piece of work.
FIRST = (
    # What shares a fleet that went through the pipeline, and a Spark cluster; all marts; then the rest of
    # Spark, for whoever has a session by then.
    (
        "tests/spark/test_pipeline.py",
        "tests/spark/test_pipeline_engines.py",
        "tests/spark/test_source_engines.py",
    ),
    ("tests/spark/test_marts",),
    ("tests/spark/test_source_kafka.py",),
    ("tests/spark/test_source_cluster.py", "tests/spark/test_source_security.py"),
    ("tests/spark/test_pipeline_clusters.py",),
    ("tests/spark/test_pipeline_ingest.py",),
    ("tests/spark/test_pipeline_retention.py",),
    ("tests/spark/test_source_segments.py",),
    ("tests/spark/",),
    # Shares no Kafka with the rest of tests/compat.
    ("tests/compat/test_java_versions.py",),
    ("tests/compat/",),
    ("tests/faults/test_storage_faults.py",),
    ("tests/integration/test_bench.py",),
    ("tests/golden/test_cli.py",),
    ("tests/unit/test_fuzz.py",),
    ("tests/property/test_hostile_bytes.py",),
    ("tests/property/test_messages.py",),
    ("tests/property/test_kio.py",),
)


def rank(nodeid: str) -> int:
    """The place of a test's piece of work in FIRST, or behind all of them."""
    return next((i for i, names in enumerate(FIRST) if nodeid.startswith(names)), len(FIRST))


class LongestFirst(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Pieces of work in the order in which the workers have collected them."""

    def _split_scope(self, nodeid: str) -> str:
        place = rank(nodeid)
        return FIRST[place][0] if place < len(FIRST) else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LongestFirst | None:
    if config.getvalue("dist") != "loadscope":
        return None
    # By the number of their tests the longest would come last: they have the fewest.
    config.option.loadscopereorder = False
    return LongestFirst(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: rank(item.nodeid))
