"""Kafka's classes, parsed and checked beforehand: with such an archive its JVMs start in half the time.

What this is: the JDK's class data sharing for applications (JEP 350). A broker that starts and ends leaves
the archive beside the jars, once for each Kafka version and java; KafkaJars.command then names it.
What this is not: needed. A java that cannot write one gets an empty file, and no second try.
Who calls it: tests/kit/plugin.py, before the first cluster of a run.
"""

from __future__ import annotations

from tests.kit.kafka import KafkaCluster
from tests.kit.kafka_jars import KafkaJars, locked


def ensure(jars: KafkaJars) -> None:
    """Write the archive, unless it is there."""
    if jars.archive.exists():
        return
    with locked(jars.archive.with_suffix(".lock")):
        if jars.archive.exists():
            return
        unfinished = jars.archive.with_suffix(".new")
        unfinished.unlink(missing_ok=True)
        options = [f"-XX:ArchiveClassesAtExit={unfinished}"]
        with KafkaCluster(jars.release.version, jvm_options=options) as cluster:
            cluster.kill_broker(0, orderly=True)
        unfinished.touch()
        unfinished.replace(jars.archive)
