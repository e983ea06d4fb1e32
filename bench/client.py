"""The admin client beside confluent-kafka, kafka-python, aiokafka, Kafka's own in Java, and franz-go's kadm.

All ask the same Apache Kafka of three brokers about the same groups: many that have only committed offsets,
and some with members, of the classic protocol and of KIP-848. Each is a process that takes orders
(client_contestants.py) and measures itself, so that what is compared is the client and not a pipe. `warm`
clients have done it before; a `cold` one is a process from its start to its end.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any, Final

from confluent_kafka import Consumer, Producer

from bench import servers
from bench.harness import Measurement, Round, must_equal
from bench.servers import Unavailable
from coterie.client import AdminClient, TopicPartition
from coterie.console.directories import cache_directory
from tests.kit import kafka_jars, processes
from tests.kit.kafka import KafkaCluster

__all__ = ["Contestant", "commands", "measurements"]

#: At most this many times the time of kadm, which is compiled.
_KADM_GOAL: Final = 0.5
_TOPIC: Final = "orders"
_PARTITIONS: Final = [TopicPartition(_TOPIC, index) for index in range(6)]
_RECORDS: Final = 10
#: A call has to end so soon after the cluster could answer it.
_GAP_MS: Final = 2_000.0
_AT_ONCE: Final = 1_000
#: So many new groups are hardly ever all on the same brokers.
_NEW: Final = 20
_ROUNDS: Final = 7
#: confluent-kafka takes seconds for each round of these.
_FEW_ROUNDS: Final = 2
_KADM: Final = "kadm"
_JAVA: Final = "Java"
_OURS: Final = "coterie"
#: Those that cannot do more than list.
_ONLY_LISTS: Final = frozenset({"aiokafka"})
_JVM_OPTIONS: Final = ("-server", "-XX:+UseG1GC", "-Xmx512M")
_PYTHON: Final = (sys.executable, str(Path(__file__).with_name("client_contestants.py")))


class Ended(Exception):
    """A contestant did not live to the end of an order."""


class Contestant:
    """A client in a process of its own, which takes orders until it is closed."""

    def __init__(self, argv: list[str], bootstrap: str) -> None:
        self._argv = [*argv, bootstrap]
        self._process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def obey(self, order: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            # confluent-kafka's process may abort with ten thousand requests under way.
            self.close()
            self._process = self._start()
            raise Ended(f"ended at {order[:40]!r}")
        told: dict[str, Any] = json.loads(answer)
        return told

    def peak_mb(self) -> float:
        """The most memory it ever had, as Linux counts it."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))

    def close(self) -> None:
        """Let it end by itself, for it has no more orders."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)


def commands() -> dict[str, list[str]]:
    """How to start each contestant that can be had here, without the address."""
    found = {
        name: [*_PYTHON, name] for name in (_OURS, "confluent-kafka", "kafka-python", "aiokafka")
    }
    for name, make in {_JAVA: _java, _KADM: _kadm}.items():
        try:
            found[name] = make()
        except Unavailable as error:
            print(f"NOT MEASURED: {name} cannot be had here: {error}", file=sys.stderr)
    return found


def _kadm() -> list[str]:
    return [str(servers.build_go("kadm_client"))]


def _java() -> list[str]:
    """Kafka's client, compiled into a cache outside of the repository."""
    compiler = shutil.which("javac")
    if compiler is None:
        raise Unavailable("no javac on the PATH")
    jars = kafka_jars.resolve(servers.KAFKA_VERSION)
    home = cache_directory() / "bench" / "java_admin"
    source = Path(__file__).with_name("java_admin") / "AdminContestant.java"
    built = subprocess.run(
        [compiler, "-cp", jars.classpath, "-d", str(home), str(source)],
        check=False,
        capture_output=True,
        text=True,
    )
    if built.returncode != 0:
        raise Unavailable(f"javac: {built.stderr[-300:]}")
    path = f"{home}{os.pathsep}{jars.classpath}"
    return processes.tethered([jars.java, *_JVM_OPTIONS, "-cp", path, "AdminContestant"])


def measurements(*, tiny: bool = False) -> Iterator[Measurement]:
    """All of this part, on one cluster that gets more groups as it goes."""
    with ExitStack() as until_the_end:
        try:
            kafka_jars.resolve(servers.KAFKA_VERSION)
        except kafka_jars.KafkaUnavailable as error:
            print(f"NOT MEASURED: kafka cannot be had here: {error.reason}", file=sys.stderr)
            return
        kafka = until_the_end.enter_context(KafkaCluster(servers.KAFKA_VERSION, 3))
        field = _Field(kafka.bootstrap, until_the_end)
        field.live(classic=1 if tiny else 10, consumer=1 if tiny else 5)
        for size in (15,) if tiny else (1_000, 10_000):
            field.fill(size)
            yield from field.warm(size)
        yield field.changed(size)
        yield from field.cold(size)
        yield from field.deleting(5 if tiny else 1_000)
        yield from field.requests(size)
        yield from field.memory(size)
        if not tiny:
            yield field.gap(kafka)


class _Field:
    """The contestants, pointed at one cluster."""

    def __init__(self, bootstrap: str, until_the_end: ExitStack) -> None:
        self._bootstrap = bootstrap
        self._until_the_end = until_the_end
        self._commands = commands()
        self._numbers = count()
        self._admin = until_the_end.enter_context(AdminClient.connect(bootstrap_servers=bootstrap))
        self._players: dict[str, Contestant] = {}
        for name, argv in self._commands.items():
            player = self._players[name] = Contestant(argv, bootstrap)
            until_the_end.callback(player.close)
        self._filled = 0
        self._newer = 0

    # -- the groups -----------------------------------------------------------------------------------

    def live(self, *, classic: int, consumer: int) -> None:
        """Groups with a member each, that have read and committed everything."""
        self._admin.create_topics({_TOPIC: len(_PARTITIONS)}).unwrap()
        while not self._admin.log_offsets(_PARTITIONS).complete:
            pass
        producer = Producer({"bootstrap.servers": self._bootstrap, "log_level": 0})
        for number in range(_RECORDS * len(_PARTITIONS)):
            producer.produce(_TOPIC, b"x", partition=number % len(_PARTITIONS))
        producer.flush(60)
        members = [self._member("classic") for _ in range(classic)]
        members += [self._member("consumer") for _ in range(consumer)]
        self._newer = consumer
        for member in members:
            end = monotonic() + 60
            while len(member.assignment()) < len(_PARTITIONS) and monotonic() < end:
                member.poll(0.1)
            places = member.assignment()
            for each in places:
                each.offset = _RECORDS
            member.commit(offsets=places, asynchronous=False)

    def _member(self, protocol: str) -> Consumer:
        member = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": f"live-{protocol}-{next(self._numbers)}",
                "group.protocol": protocol,
                "enable.auto.commit": False,
                # It is never polled again: its own threads keep it in the group.
                "max.poll.interval.ms": 24 * 60 * 60 * 1000,
                "log_level": 0,
            }
        )
        member.subscribe([_TOPIC])
        self._until_the_end.callback(member.close)
        return member

    def fill(self, until: int) -> None:
        """Groups that have committed to every partition and read nothing since."""
        self._commit([f"group-{number:05d}" for number in range(self._filled, until)])
        self._filled = until

    def _commit(self, groups: list[str]) -> None:
        for first in range(0, len(groups), _AT_ONCE):
            some = groups[first : first + _AT_ONCE]
            wanted = dict.fromkeys(_PARTITIONS, _RECORDS - 1)
            self._admin.alter_offsets(dict.fromkeys(some, wanted)).unwrap()

    # -- the measurements -----------------------------------------------------------------------------

    def warm(self, size: int) -> Iterator[Measurement]:
        for name, order in {
            "list": "list",
            "list_by_state": "list Stable",
            "describe": "describe",
            "lag": "lag",
        }.items():
            others = [each for each in self._peers() if order == "list" or each not in _ONLY_LISTS]
            few = name in {"describe", "lag"} and "confluent-kafka" in others
            yield Measurement(
                name=f"client.{name}_{size}",
                ours=self._timed(_OURS, order),
                peers={each: self._timed(each, order) for each in others},
                goal=1.0,
                agree=partial(self._agree, order, others),
                max_rounds=_FEW_ROUNDS if few else _ROUNDS,
            )
            if _KADM in self._players:
                yield Measurement(
                    name=f"client.{name}_{size}_kadm",
                    ours=self._timed(_OURS, order),
                    peers={_KADM: self._timed(_KADM, order)},
                    goal=_KADM_GOAL,
                    agree=partial(self._agree, order, [_KADM]),
                    max_rounds=_ROUNDS,
                )

    def changed(self, size: int) -> Measurement:
        """A list of which each broker's part has changed: what is new has to be decoded."""

        def after_a_change(name: str) -> Round:
            def one_round() -> float:
                self._commit([f"new-{next(self._numbers)}" for _ in range(_NEW)])
                return self._timed(name, "list")()

            return one_round

        return Measurement(
            name=f"client.list_{size}_changed",
            ours=after_a_change(_OURS),
            peers={each: after_a_change(each) for each in self._peers()},
            goal=1.0,
            agree=partial(self._agree, "list", self._peers()),
            max_rounds=_ROUNDS,
        )

    def _peers(self) -> list[str]:
        """All but kadm, which is compiled and has a goal of its own."""
        return [each for each in self._players if each not in {_OURS, _KADM}]

    def _compiled(self) -> list[str]:
        return [each for each in self._players if each == _KADM]

    def _timed(self, name: str, order: str) -> Round:
        """A peer that does not come to an end took forever; ours has to."""

        def one_round() -> float:
            try:
                return float(self._players[name].obey(order)["ms"])
            except Ended as error:
                if name == _OURS:
                    raise
                print(f"{name}: {error}", file=sys.stderr)
                return math.inf

        return one_round

    def _agree(self, order: str, peers: list[str]) -> None:
        ours = self._players[_OURS].obey(order)
        for name in peers:
            try:
                theirs = self._players[name].obey(order)
            except Ended:
                continue
            # kadm's lag leaves the groups of KIP-848 out, without a word.
            missing = self._newer if (name, order) == (_KADM, "lag") else 0
            must_equal(f"{order}: groups", ours["groups"], theirs["groups"] + missing)
            must_equal(f"{order}: lag", ours["lag"], theirs["lag"])

    def cold(self, size: int) -> Iterator[Measurement]:
        """A process from its start to its end, with one order in between."""
        for order in ("list", "lag"):
            others = [each for each in self._peers() if order == "list" or each not in _ONLY_LISTS]
            # A start of Python alone takes longer than kadm: there is no goal, only the figure.
            for suffix, peers, goal in (("", others, 1.0), ("_kadm", self._compiled(), 0.0)):
                if peers:
                    yield Measurement(
                        name=f"client.cold_{order}_{size}{suffix}",
                        ours=self._cold(_OURS, order),
                        peers={each: self._cold(each, order) for each in peers},
                        goal=goal,
                        agree=lambda: None,
                        max_rounds=_FEW_ROUNDS,
                    )

    def _cold(self, name: str, order: str) -> Round:
        def one_round() -> float:
            start = perf_counter()
            player = Contestant(self._commands[name], self._bootstrap)
            try:
                player.obey(order)
            except Ended:
                return math.inf
            finally:
                player.close()
            return (perf_counter() - start) * 1e3

        return one_round

    def deleting(self, size: int) -> Iterator[Measurement]:
        others = [each for each in self._peers() if each not in _ONLY_LISTS]
        for suffix, peers, goal in (("", others, 1.0), ("_kadm", self._compiled(), _KADM_GOAL)):
            if peers:
                yield Measurement(
                    name=f"client.delete_{size}{suffix}",
                    ours=self._deletion(_OURS, size),
                    peers={each: self._deletion(each, size) for each in peers},
                    goal=goal,
                    agree=lambda: None,
                    max_rounds=_ROUNDS,
                )

    def _deletion(self, name: str, size: int) -> Round:
        def one_round() -> float:
            groups = [f"going-{next(self._numbers)}-{number}" for number in range(size)]
            self._commit(groups)
            told = self._players[name].obey(" ".join(["delete", *groups]))
            must_equal("deleted", told["groups"], size)
            return float(told["ms"])

        return one_round

    def requests(self, size: int) -> Iterator[Measurement]:
        """Requests without the greetings of connections; only some clients can count them."""
        for order in ("list", "describe", "lag"):
            read = partial(self._requests, order)
            yield from self._figure(f"requests_{order}_{size}", read, [_KADM, _JAVA], "req")

    def _requests(self, order: str, name: str) -> float:
        return float(self._players[name].obey(order)["requests"])

    def gap(self, kafka: KafkaCluster) -> Measurement:
        """A broker is killed in front of a call: from when the cluster can answer to when the call does.

        When the cluster can is found by asking again and again, with a client of its own.
        """
        groups = [f"group-{number:05d}" for number in range(200)]

        def one_round() -> float:
            victim = next(iter(self._admin.find_coordinators(groups))).node_id
            kafka.kill_broker(victim)
            with ThreadPoolExecutor(1) as thread:
                call = thread.submit(self._ended_at, groups)
                with AdminClient.connect(bootstrap_servers=self._bootstrap) as other:
                    while not other.describe_groups(groups, timeout=0.5).complete:
                        pass
                    could = perf_counter()
                # The call may be sooner than the watcher; a ratio needs something to divide by.
                took = max(1e-4, call.result() - could) * 1e3
            kafka.start_broker(victim)
            return took

        return Measurement(
            name="client.gap_after_kill",
            ours=one_round,
            peers={"budget": lambda: _GAP_MS},
            goal=1.0,
            agree=lambda: None,
            max_rounds=2,
        )

    def _ended_at(self, groups: list[str]) -> float:
        self._admin.describe_groups(groups, timeout=60).unwrap()
        return perf_counter()

    def memory(self, size: int) -> Iterator[Measurement]:
        def peak(name: str) -> float:
            return self._players[name].peak_mb()

        yield from self._figure(f"peak_memory_{size}", peak, [_JAVA], "MB")

    def _figure(
        self, name: str, read: Callable[[str], float], peers: list[str], unit: str
    ) -> Iterator[Measurement]:
        here = {each: partial(read, each) for each in peers if each in self._players}
        if here:
            yield Measurement(
                name=f"client.{name}",
                ours=partial(read, _OURS),
                peers=here,
                goal=1.0,
                agree=lambda: None,
                unit=unit,
                max_rounds=1,
            )
