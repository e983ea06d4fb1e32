"""A Kafka-protocol cluster for other people's tests: no Java, no containers, well under a second.

    with EmbeddedCluster(brokers=3) as cluster:
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})

Under pytest the fixture `coterie_cluster` is there by itself once the package is installed.
"""

from __future__ import annotations

from coterie.testing.embedded import AsyncEmbeddedCluster, EmbeddedCluster

__all__ = ["AsyncEmbeddedCluster", "EmbeddedCluster"]
