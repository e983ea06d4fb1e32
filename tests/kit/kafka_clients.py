"""Kafka's Java client of every minor version from 2.0, resolved from Maven Central once.

What this is: one run of Maven on tests/kit/kafka/clients.xml, which copies kafka-clients of each version,
and slf4j, without which they do not start, into a directory of the cache of tests/kit/kafka_jars.py.
What this is not: the compression libraries; a producer that uses these jars does not compress.
Who calls it: tests/kit/plugin.py.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.kit import kafka_jars

_POM: Final = Path(__file__).parent / "kafka" / "clients.xml"
_ITEM: Final = re.compile(r"<artifactId>kafka-clients</artifactId><version>(.+?)</version>")
#: The oldest first.
VERSIONS: Final = tuple(_ITEM.findall(_POM.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class KafkaClients:
    """The clients of all versions, ready to run."""

    directory: Path
    java: str

    def classpath(self, version: str) -> str:
        """One version's client and what it needs."""
        client = self.directory / f"kafka-clients-{version}.jar"
        return os.pathsep.join(map(str, [client, *self.directory.glob("slf4j-api-*.jar")]))


def resolve() -> KafkaClients:
    """The clients of all versions and the java to run them with, or KafkaUnavailable."""
    java = kafka_jars.find_java(os.environ)
    # A directory for each state of the pom: a new list of versions never meets an old set of jars.
    digest = hashlib.sha256(_POM.read_bytes()).hexdigest()[:12]
    directory = kafka_jars.cache_root(os.environ) / "clients" / digest
    arguments = ["--file", str(_POM), f"{kafka_jars.DEPENDENCY_PLUGIN}:copy"]
    kafka_jars.ensure_copied(directory, arguments, VERSIONS[-1])
    return KafkaClients(directory, java)
