"""The fixture `coterie_cluster`, for every project that has Coterie installed and runs pytest.

pytest imports this at each start, so nothing heavy may be imported at the top.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from coterie.testing.embedded import EmbeddedCluster

__all__ = ["coterie_cluster"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "coterie(brokers=1, **options): arguments of the cluster for this test"
    )


@pytest.fixture
def coterie_cluster(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    """A fresh cluster in memory; `@pytest.mark.coterie(brokers=3)` gives arguments."""
    from coterie.testing.embedded import EmbeddedCluster

    marker = request.node.get_closest_marker("coterie")
    options = marker.kwargs if marker else {}
    with EmbeddedCluster(**options) as cluster:
        yield cluster
