"""Members of consumer groups by stock clients, librdkafka and Java, behind one face.

A member of librdkafka lives while it is polled. Java's live in threads of a JVM that is started once
(clients/Consumers.java), and die with it.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Consumer

from tests.compat.clients.confluent import _quiet
from tests.kit import kafka_config, kafka_jars, processes
from tests.kit.plugin import require_kafka

__all__ = ["PATIENCE_S", "Client", "Java", "Librdkafka", "Member", "java", "patient"]

PATIENCE_S = 60.0
_SOURCE = Path(__file__).parent / "clients" / "Consumers.java"
_VICTIM = """
import json, sys
from confluent_kafka import Consumer
members = []
for config, topics in json.loads(sys.argv[1]):
    members.append(Consumer(config))
    members[-1].subscribe(topics)
while True:
    for each in members:
        each.poll(0.02)
"""


def patient(done: Callable[[], bool], seen: Callable[[], object] = lambda: None) -> None:
    """Wait until something is done; `seen` says what there was instead."""
    end = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < end, seen()


class Member(Protocol):
    """One consumer."""

    def live(self) -> None:
        """Poll, if nobody else does it."""

    def assigned(self) -> int:
        """How many partitions it has."""

    def read(self, count: int) -> None:
        """Until it has read so many records."""

    def commit(self) -> None: ...

    def committed(self) -> list[int]:
        """The offsets of its partitions."""

    def close(self) -> None: ...


class Victim(Protocol):
    """A process full of members."""

    def kill(self) -> None:
        """kill -9: none of them can say goodbye."""


class Client(Protocol):
    """A stock client."""

    name: str
    #: What a member of the classic protocol needs to be taken over by the new one.
    classic: dict[str, str]

    def join(self, bootstrap: str, group: str, topic: str, **more: str) -> Member: ...

    def victim(self, *joins: tuple[str, str, str, str], directory: Path) -> Victim:
        """Members in a process of their own: bootstrap, group, topic and client id of each."""


def _config(bootstrap: str, group: str, more: dict[str, str]) -> dict[str, str]:
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
        "client.id": "one",
    } | more


class _LibrdkafkaMember:
    def __init__(self, config: dict[str, str], topic: str) -> None:
        self._consumer = Consumer(dict(config), logger=_quiet)
        self._consumer.subscribe([topic])

    def live(self) -> None:
        self._consumer.poll(0.02)

    def assigned(self) -> int:
        return len(self._consumer.assignment())

    def read(self, count: int) -> None:
        found = 0
        while found < count:
            found += len(self._consumer.consume(count - found, 0.1))

    def commit(self) -> None:
        where = self._consumer.position(self._consumer.assignment())
        self._consumer.commit(offsets=where, asynchronous=False)

    def committed(self) -> list[int]:
        mine = self._consumer.committed(self._consumer.assignment(), timeout=PATIENCE_S)
        return [each.offset for each in mine]

    def close(self) -> None:
        self._consumer.close()


class _LibrdkafkaVictim:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def kill(self) -> None:
        processes.end(self._process)


class Librdkafka:
    """librdkafka, through confluent-kafka."""

    name = "librdkafka"
    classic = {"partition.assignment.strategy": "cooperative-sticky"}  # noqa: RUF012 - not changed

    def join(self, bootstrap: str, group: str, topic: str, **more: str) -> Member:
        return _LibrdkafkaMember(_config(bootstrap, group, more), topic)

    def victim(self, *joins: tuple[str, str, str, str], directory: Path) -> Victim:
        told = [
            (_config(bootstrap, group, {"client.id": client_id}), [topic])
            for bootstrap, group, topic, client_id in joins
        ]
        argv = [sys.executable, "-c", _VICTIM, json.dumps(told)]
        return _LibrdkafkaVictim(processes.spawn(argv, directory / "victim.txt"))


class _JavaMember:
    def __init__(self, jvm: Java, name: str) -> None:
        self._jvm = jvm
        self._name = name
        self._closed = False

    def _ask(self, what: str) -> Any:
        return self._jvm.ask({"do": what, "name": self._name})

    def live(self) -> None:
        pass

    def assigned(self) -> int:
        return int(self._ask("assigned"))

    def read(self, count: int) -> None:
        patient(lambda: self._ask("read") >= count)

    def commit(self) -> None:
        self._ask("commit")

    def committed(self) -> list[int]:
        return list(self._ask("committed"))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._ask("close")


class Java:
    """Kafka's own client, in one JVM."""

    name = "java"
    classic = {  # noqa: RUF012 - not changed
        "partition.assignment.strategy": (
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
        )
    }

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._names = map(str, itertools.count())

    def ask(self, command: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer
        return answer["value"]

    def join(self, bootstrap: str, group: str, topic: str, **more: str) -> Member:
        name = next(self._names)
        config = _config(bootstrap, group, more)
        self.ask({"do": "open", "name": name, "config": config, "topics": [topic]})
        return _JavaMember(self, name)

    def victim(self, *joins: tuple[str, str, str, str], directory: Path) -> Victim:
        other = Java(_start(directory / "victim.log"))
        for bootstrap, group, topic, client_id in joins:
            other.join(bootstrap, group, topic, **{"client.id": client_id})
        return other

    def move(self, bootstrap: str, topic: str, to: int) -> None:
        """On Apache Kafka: partition 0 of a topic gets another broker."""
        self.ask({"do": "move", "bootstrap": bootstrap, "topic": topic, "to": to})

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


def _start(log: Path) -> subprocess.Popen[str]:
    jars = kafka_jars.resolve("4.3.0")
    options = kafka_config.jvm_options(log, "WARN", heap_mb=256)
    argv = [*jars.command(*options), str(_SOURCE)]
    return subprocess.Popen(
        processes.tethered(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@contextmanager
def java(directory: Path) -> Iterator[Java]:
    """The JVM, for as long as it is needed."""
    require_kafka("4.3.0")
    client = Java(_start(directory / "consumers.log"))
    try:
        yield client
    finally:
        client.kill()
