"""An embedded cluster in a background thread, for tests with blocking clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.server.background import BackgroundCluster
from tests.kit.wire_client import WireClient


@pytest.fixture(scope="module")
def cluster() -> Iterator[BackgroundCluster]:
    """One broker that keeps everything in memory, shared by the tests of a module."""
    with BackgroundCluster() as running:
        yield running


@pytest.fixture
def client(cluster: BackgroundCluster) -> Iterator[WireClient]:
    with WireClient(*cluster.address()) as connected:
        yield connected
