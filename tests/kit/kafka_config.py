"""server.properties for the brokers the tests run, and the JVM options they run with.

What this is: plain functions from (version, ports, directories) to Kafka's own configuration
keys: KRaft with a static quorum of combined nodes, or ZooKeeper for lines before it.
What this is not: advice for production; everything here trades safety for a quick start.
Who calls it: tests/kit/kafka.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.kit.kafka_jars import KafkaRelease

HOST = "127.0.0.1"
LOGGING = Path(__file__).parent / "kafka"


@dataclass(frozen=True)
class Ports:
    """The loopback ports of one cluster; brokers[i] and controllers[i] belong to node.id i."""

    brokers: Sequence[int]
    controllers: Sequence[int]
    zookeeper: int
    #: Ports of further listeners of broker 0, by the listener's name.
    extra: Mapping[str, int] = field(default_factory=dict)


def jvm_options(log: Path, level: str, heap_mb: int) -> list[str]:
    """Options for a small JVM that starts quickly and logs to one file only.

    Both backends' switches are given; a Kafka line reads the one it knows.
    """
    return [
        f"-Xmx{heap_mb}m",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        "-Djava.awt.headless=true",
        "-Djava.net.preferIPv4Stack=true",
        f"-Dlog4j2.configurationFile={LOGGING / 'log4j2.properties'}",
        f"-Dlog4j.configuration=file:{LOGGING / 'log4j.properties'}",
        f"-Dcoterie.kafka.log={log}",
        f"-Dcoterie.kafka.log.level={level}",
    ]


def broker_properties(
    release: KafkaRelease,
    node_id: int,
    ports: Ports,
    log_dir: Path,
    config: Mapping[str, str],
    *,
    listeners: Mapping[str, str] | None = None,
) -> str:
    """One broker's server.properties. config is laid over the kit's own values; listeners are more of
    them than the one in plain text, name to security protocol."""
    properties = _test_friendly(release, len(ports.brokers))
    properties["log.dirs"] = str(log_dir)
    if release.kraft:
        properties |= _kraft(node_id, ports)
    else:
        properties |= _zookeeper_client(node_id, ports)
    for name, protocol in (listeners or {}).items():
        address = f"{name}://{HOST}:{ports.extra[name]}"
        for setting in ("listeners", "advertised.listeners"):
            properties[setting] += f",{address}"
        properties["listener.security.protocol.map"] += f",{name}:{protocol}"
    return as_properties({**properties, **config})


def zookeeper_properties(ports: Ports, data_dir: Path) -> str:
    """zoo.cfg of the one ZooKeeper node."""
    return as_properties(
        {
            "dataDir": str(data_dir),
            "clientPort": str(ports.zookeeper),
            "clientPortAddress": HOST,
            "maxClientCnxns": "0",
            # The shortest session ZooKeeper grants is two ticks; see _zookeeper_client.
            "tickTime": "1000",
            # Its web server would take a fixed port, and its jars are not there.
            "admin.enableServer": "false",
        }
    )


def as_properties(properties: Mapping[str, str]) -> str:
    """Java properties text. A backslash is Java's escape character."""
    lines = (f"{key}={value}".replace("\\", "\\\\") for key, value in properties.items())
    return "\n".join(lines) + "\n"


def _test_friendly(release: KafkaRelease, brokers: int) -> dict[str, str]:
    properties = {
        "auto.create.topics.enable": "true",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": str(min(brokers, 3)),
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        # 128 MB by default, a quarter of the heap.
        "log.cleaner.dedupe.buffer.size": "4194304",
    }
    if release.line >= (4, 0):
        properties |= {
            "share.coordinator.state.topic.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            # Members that a test joins by hand have no heart that beats.
            **{
                f"group.{kind}.{which}session.timeout.ms": "600000"
                for kind in ("share", "streams")
                for which in ("", "max.")
            },
        }
    return properties


def _kraft(node_id: int, ports: Ports) -> dict[str, str]:
    # A static quorum formats the same way on every KRaft line, one node or three.
    voters = (f"{voter}@{HOST}:{port}" for voter, port in enumerate(ports.controllers))
    broker = f"PLAINTEXT://{HOST}:{ports.brokers[node_id]}"
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.voters": ",".join(voters),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{broker},CONTROLLER://{HOST}:{ports.controllers[node_id]}",
        "advertised.listeners": broker,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        # A killed broker is noticed after 6 s, not 9, and registers again as soon.
        "broker.session.timeout.ms": "6000",
        "broker.heartbeat.interval.ms": "500",
    }


def _zookeeper_client(node_id: int, ports: Ports) -> dict[str, str]:
    listener = f"PLAINTEXT://{HOST}:{ports.brokers[node_id]}"
    return {
        "broker.id": str(node_id),
        "listeners": listener,
        "advertised.listeners": listener,
        "zookeeper.connect": f"{HOST}:{ports.zookeeper}",
        # Brokers start beside ZooKeeper, not after it, and wait for it.
        "zookeeper.connection.timeout.ms": "60000",
        # A killed broker's registration lasts as long as its session, 18 s by default.
        "zookeeper.session.timeout.ms": "6000",
    }
