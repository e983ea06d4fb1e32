"""A Kafka-protocol cluster for other people's tests: no Java, no containers, well under a second.

    with EmbeddedCluster(brokers=3) as cluster:
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})

Under pytest the fixture `coterie_cluster` is there by itself once the package is installed. For that pytest
imports this package at each of its starts, so the cluster itself is imported when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.testing.embedded import AsyncEmbeddedCluster, EmbeddedCluster

__all__ = ["AsyncEmbeddedCluster", "EmbeddedCluster"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from coterie.testing import embedded

    return getattr(embedded, name)
