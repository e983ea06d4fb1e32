"""The admin clients that are measured, each as a process that takes orders.

`python bench/client_contestants.py NAME HOST:PORT` starts one. An order is a line on stdin (`list`,
`list Stable`, `describe`, `lag`, `delete NAME NAME ...`) and its answer a line of JSON on stdout:
milliseconds by the contestant's own clock, the number of groups and of rows, the sum of all lags, and
requests where the client can count them. The programs in Java and Go do the same. Each does what its users
would write: everything at once where its API takes many groups. It imports its own library and no other.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from coterie.client import AdminClient


class Told(NamedTuple):
    """What an order found."""

    groups: int
    rows: int = 0
    lag: int = 0


class Contestant(Protocol):
    """An admin client, connected."""

    def listed(self, state: str) -> Told: ...

    def describe(self) -> Told: ...

    def lag(self) -> Told: ...

    def delete(self, groups: list[str]) -> Told: ...

    def requests(self) -> int: ...


class Coterie:
    """Ours, in a loop of its own, as aiokafka's."""

    def __init__(self, bootstrap: str) -> None:
        self._run = asyncio.new_event_loop().run_until_complete
        client = import_module("coterie.client").AdminClient
        self._admin: AdminClient = client(bootstrap_servers=bootstrap)

    def requests(self) -> int:
        return self._admin.requests.total() - self._admin.requests["ApiVersions"]

    def listed(self, state: str) -> Told:
        wanted = {state} if state else None
        return Told(len(self._run(self._admin.list_groups(states=wanted)).unwrap()))

    def describe(self) -> Told:
        groups = self._run(self._admin.list_groups()).unwrap()
        described = self._run(self._admin.describe_groups(groups)).unwrap()
        return Told(len(described), sum(len(each.members) for each in described.values()))

    def lag(self) -> Told:
        groups = self._run(self._admin.list_groups()).unwrap()
        lags = self._run(self._admin.lag(groups)).unwrap().values()
        rows = sum(len(each.partitions) for each in lags)
        return Told(len(lags), rows, sum(each.total for each in lags))

    def delete(self, groups: list[str]) -> Told:
        return Told(len(self._run(self._admin.delete_groups(groups)).unwrap()))


class Confluent:
    """librdkafka's."""

    def __init__(self, bootstrap: str) -> None:
        self._library = import_module("confluent_kafka")
        self._admin: Any = import_module("confluent_kafka.admin").AdminClient(
            {"bootstrap.servers": bootstrap, "log_level": 0}
        )

    def requests(self) -> int:
        return -1

    def _ids(self) -> list[str]:
        return [each.group_id for each in self._admin.list_consumer_groups().result().valid]

    def listed(self, state: str) -> Told:
        states = {self._library.ConsumerGroupState[state.upper()]} if state else set()
        found = self._admin.list_consumer_groups(states=states).result()
        return Told(len(found.valid))

    def _describe(self) -> dict[str, Any]:
        futures = self._admin.describe_consumer_groups(self._ids(), request_timeout=60)
        return {group: each.result() for group, each in futures.items()}

    def describe(self) -> Told:
        found = self._describe()
        return Told(len(found), sum(len(each.members) for each in found.values()))

    def lag(self) -> Told:
        asked = self._library.ConsumerGroupTopicPartitions
        latest = import_module("confluent_kafka.admin").OffsetSpec.latest()
        groups = self._describe()
        waiting = [
            self._admin.list_consumer_group_offsets([asked(group)], request_timeout=60)[group]
            for group in groups
        ]
        offsets = [each.result() for each in waiting]
        committed = {
            (g.group_id, p.topic, p.partition): p.offset
            for g in offsets
            for p in g.topic_partitions
        }
        wanted = {(p.topic, p.partition): p for g in offsets for p in g.topic_partitions}
        ends = {
            (p.topic, p.partition): future.result().offset
            for p, future in self._admin.list_offsets(
                dict.fromkeys(wanted.values(), latest)
            ).items()
        }
        lags = [ends[topic, index] - at for (_, topic, index), at in committed.items() if at >= 0]
        return Told(len(groups), len(lags), sum(lags))

    def delete(self, groups: list[str]) -> Told:
        futures = self._admin.delete_consumer_groups(groups, request_timeout=60)
        return Told(len([each.result() for each in futures.values()]))


class KafkaPython:
    """kafka-python's. It calls KIP-848 groups Dead."""

    def __init__(self, bootstrap: str) -> None:
        self._admin: Any = import_module("kafka").KafkaAdminClient(bootstrap_servers=bootstrap)

    def requests(self) -> int:
        return -1

    def listed(self, state: str) -> Told:
        return Told(len(self._admin.list_groups(states_filter=[state] if state else None)))

    def _ids(self) -> list[str]:
        return [each["group_id"] for each in self._admin.list_groups()]

    def describe(self) -> Told:
        found = self._admin.describe_groups(self._ids())
        return Told(len(found), sum(len(each["members"]) for each in found.values()))

    def lag(self) -> Told:
        latest = import_module("kafka.admin").OffsetSpec.LATEST
        groups = self._ids()
        self._admin.describe_groups(groups)
        offsets = self._admin.list_group_offsets(dict.fromkeys(groups))
        committed = [(tp, at.offset) for each in offsets.values() for tp, at in each.items()]
        wanted = {tp: latest for tp, _ in committed}
        ends = self._admin.list_partition_offsets(wanted)
        lags = [ends[tp].offset - at for tp, at in committed if at >= 0]
        return Told(len(groups), len(lags), sum(lags))

    def delete(self, groups: list[str]) -> Told:
        return Told(len(self._admin.delete_groups(groups)))


class AioKafka:
    """aiokafka's: it can list, and no more of many groups (its connections are closed under it)."""

    def __init__(self, bootstrap: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._admin: Any = import_module("aiokafka.admin").AIOKafkaAdminClient(
            bootstrap_servers=bootstrap, loop=self._loop
        )
        self._loop.run_until_complete(self._admin.start())

    def requests(self) -> int:
        return -1

    def listed(self, state: str) -> Told:
        if state:
            raise NotImplementedError
        return Told(len(self._loop.run_until_complete(self._admin.list_consumer_groups())))

    def describe(self) -> Told:
        raise NotImplementedError

    def lag(self) -> Told:
        raise NotImplementedError

    def delete(self, groups: list[str]) -> Told:
        raise NotImplementedError


CONTESTANTS: dict[str, Callable[[str], Contestant]] = {
    "coterie": Coterie,
    "confluent-kafka": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": AioKafka,
}


def obey(contestant: Contestant, order: str, *rest: str) -> Told:
    if order == "list":
        return contestant.listed(rest[0] if rest else "")
    if order == "delete":
        return contestant.delete(list(rest))
    return contestant.describe() if order == "describe" else contestant.lag()


def main(name: str, bootstrap: str) -> None:
    contestant = CONTESTANTS[name](bootstrap)
    for line in sys.stdin:
        before = contestant.requests()
        start = perf_counter()
        told = obey(contestant, *line.split())
        took = (perf_counter() - start) * 1e3
        answer = {"ms": took, "requests": contestant.requests() - before, **told._asdict()}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
