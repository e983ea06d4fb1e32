"""What users of Kafka do, told once and played by every client on every cluster.

A scenario returns what a user could see: states, errors, offsets, who got what. It must be the same on our
cluster and on Apache Kafka; what must be true on both is asserted on the way. Names end with a word that is
new each time, so that scenarios can be played on one cluster at once and in any order.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from tests.compat.clients.base import Client, GroupConsumer, Read, until

__all__ = ["SCENARIOS", "Scenario", "drain", "joined", "unique", "values"]

RECORDS = 1_000
PARTITIONS = 4

Result = dict[str, Any]


class Scenario(NamedTuple):
    """One play, and what a library must be able to do for it."""

    play: Callable[[Client], Result]
    needs: frozenset[str] = frozenset()


def unique(word: str) -> str:
    return f"{word}-{uuid.uuid4().hex[:12]}"


def values(count: int, word: str = "record") -> list[bytes]:
    return [f"{word} {number}".encode() for number in range(count)]


def drain(
    consumers: Collection[GroupConsumer],
    expected: Collection[bytes],
    found: list[Read] | None = None,
) -> list[Read]:
    """Read until every expected value has been read; nothing else may come, and nothing twice."""
    read = [] if found is None else found

    def all_there() -> bool:
        for consumer in consumers:
            read.extend(consumer.poll())
        return len(read) >= len(expected)

    until(all_there, f"{len(expected)} records, have {len(read)}")
    assert sorted(each.value for each in read) == sorted(expected)
    return read


def joined(consumers: Collection[GroupConsumer], partitions: int, found: list[Read]) -> list[int]:
    """Poll until the members share all partitions, each with some; how many each has, sorted."""

    def shared() -> bool:
        for consumer in consumers:
            found.extend(consumer.poll())
        assigned = [consumer.assignment() for consumer in consumers]
        return (
            all(assigned) and sum(map(len, assigned)) == len(set().union(*assigned)) == partitions
        )

    until(shared, f"{len(consumers)} members with {partitions} partitions")
    return sorted(len(consumer.assignment()) for consumer in consumers)


def by_partition(offsets: Mapping[tuple[str, int], int]) -> dict[int, int]:
    return {partition: offset for (_, partition), offset in sorted(offsets.items())}


def described(client: Client, group: str) -> dict[str, Any]:
    found = client.describe(group)
    return {
        "state": found.state,
        "protocol": found.protocol,
        "members": found.members,
        "assigned": found.assigned,
        "instances": found.instances,
        "error": found.error,
    }


def settled(client: Client, group: str, state: str, members: int) -> dict[str, Any]:
    """The group's description once it is in a state; a leave takes its time to be seen."""
    until(
        lambda: (client.describe(group).state, client.describe(group).members) == (state, members),
        f"{group} is {state} with {members} members, not {client.describe(group)}",
    )
    return described(client, group)


def compressions(client: Client) -> Result:
    """1,000 records in every codec of the library, read back in a group."""
    topics = {codec: unique(f"codec-{codec}") for codec in client.compressions}
    result: Result = {}
    for codec, topic in topics.items():
        result[codec] = [
            client.create_topic(topic, PARTITIONS),
            client.create_topic(topic, PARTITIONS),
            client.produce(topic, values(RECORDS, codec), PARTITIONS, compression=codec),
        ]
    expected = [value for codec in topics for value in values(RECORDS, codec)]
    with client.consumer(unique("codecs"), *topics.values()) as consumer:
        read = drain([consumer], expected)
    assert len({(each.topic, each.partition, each.offset) for each in read}) == len(read)
    return result


def idempotence(client: Client) -> Result:
    topic = unique("idempotent")
    client.create_topic(topic, PARTITIONS)
    ends = client.produce(topic, values(RECORDS), PARTITIONS, idempotent=True)
    with client.consumer(unique("reader"), topic) as consumer:
        drain([consumer], values(RECORDS))
    return {"ends": ends}


def group_life(client: Client) -> Result:
    """Two join, read all, commit; one leaves, the other goes on; a third resumes where they stopped."""
    topic, group = unique("life"), unique("life")
    client.create_topic(topic, PARTITIONS)
    client.produce(topic, values(RECORDS, "first"), PARTITIONS)
    result: Result = {}
    found: list[Read] = []
    with client.consumer(group, topic) as stays:
        # The first reads alone for a while; what it has is committed before the second comes.
        drain([stays], values(RECORDS, "first"), found)
        stays.commit()
        leaves = client.consumer(group, topic)
        again: list[Read] = []
        result["shares"] = joined([stays, leaves], PARTITIONS, again)
        assert not again, "what was committed came again"
        client.produce(topic, values(RECORDS, "second"), PARTITIONS)
        drain([stays, leaves], values(RECORDS, "second"))
        stays.commit()
        leaves.commit()
        result["together"] = settled(client, group, "Stable", 2)
        leaves.close()
        result["alone"] = joined([stays], PARTITIONS, again)
        client.produce(topic, values(10, "third"), PARTITIONS)
        drain([stays], values(10, "third"), again)
        stays.commit()
        result["one left"] = settled(client, group, "Stable", 1)
    result["nobody left"] = settled(client, group, "Empty", 0)
    client.produce(topic, values(10, "fourth"), PARTITIONS)
    with client.consumer(group, topic) as resumes:
        drain([resumes], values(10, "fourth"))
        resumes.commit()
    result["offsets"] = by_partition(client.offsets(group))
    return result


def static_membership(client: Client) -> Result:
    """A static member that comes back gets its partitions again; the other one notices nothing."""
    topic, group = unique("static"), unique("static")
    client.create_topic(topic, PARTITIONS)
    result: Result = {}
    found: list[Read] = []
    first = client.consumer(group, topic, instance="one")
    with client.consumer(group, topic, instance="two") as second:
        result["shares"] = joined([first, second], PARTITIONS, found)
        result["before"] = settled(client, group, "Stable", 2)
        had, others = first.assignment(), second.assignment()
        first.close()
        result["gone"] = described(client, group)
        with client.consumer(group, topic, instance="one") as back:
            joined([back, second], PARTITIONS, found)
            result["same partitions"] = back.assignment() == had, second.assignment() == others
            result["back"] = settled(client, group, "Stable", 2)
    return result


def cooperation(client: Client) -> Result:
    """With the cooperative protocol a member keeps what it need not give away."""
    topic, group = unique("cooperative"), unique("cooperative")
    client.create_topic(topic, PARTITIONS)
    client.produce(topic, values(RECORDS), PARTITIONS)
    found: list[Read] = []
    with client.consumer(group, topic, cooperative=True) as first:
        drain([first], values(RECORDS), found)
        first.commit()
        had = first.assignment()
        with client.consumer(group, topic, cooperative=True) as second:
            kept = True

            def balanced() -> bool:
                nonlocal kept
                assert not first.poll() + second.poll(), "what was committed came again"
                kept = kept and bool(first.assignment() & had)
                return [len(first.assignment()), len(second.assignment())] == [2, 2]

            until(balanced, "two partitions each")
            result = {"described": settled(client, group, "Stable", 2), "kept": kept}
    result["offsets"] = by_partition(client.offsets(group))
    return result


def administration(client: Client) -> Result:
    """Look at a live group and an empty one, change offsets, delete what may be deleted and what not."""
    topic, live, missing = unique("admin"), unique("admin"), unique("missing")
    client.create_topic(topic, 2)
    client.produce(topic, values(20), 2)
    result: Result = {"missing": [described(client, missing), client.offsets(missing)]}
    with client.consumer(live, topic) as consumer:
        drain([consumer], values(20))
        consumer.commit()
        result["live"] = settled(client, live, "Stable", 1)
        result["listed live"] = client.list_groups().get(live)
        result["offsets"] = by_partition(client.offsets(live))
        result |= _refusals(client, live, topic)
        if "states" in client.can:
            result["stable"] = live in client.list_groups("Stable")
            result["stable is not empty"] = live in client.list_groups("Empty")
    result["empty"] = settled(client, live, "Empty", 0)
    result["listed empty"] = client.list_groups().get(live)
    if "states" in client.can:
        result["empty now"] = live in client.list_groups("Empty")
        result["both states"] = live in client.list_groups("Empty", "Stable")
    return result | _changes(client, live, topic) | _deletions(client, live, missing)


def _refusals(client: Client, live: str, topic: str) -> Result:
    result: Result = {}
    if "alter_offsets" in client.can:
        result["alter live"] = client.alter_offset(live, topic, 0, 1)
    if "delete_offsets" in client.can:
        result["delete subscribed"] = client.delete_offset(live, topic, 0)
    if "delete_groups" in client.can:
        result["delete live"] = client.delete_group(live)
    return result


def _changes(client: Client, group: str, topic: str) -> Result:
    result: Result = {}
    if "alter_offsets" in client.can:
        result["altered"] = client.alter_offset(group, topic, 0, 3)
        result["altered nothing"] = client.alter_offset(group, unique("no-topic"), 0, 3)
        result["after altering"] = by_partition(client.offsets(group))
    if "delete_offsets" in client.can:
        result["deleted offset"] = client.delete_offset(group, topic, 0)
        result["deleted unknown offset"] = client.delete_offset(group, topic, 9)
        result["deleted offset of nobody"] = client.delete_offset(unique("no-group"), topic, 0)
        result["after deleting"] = by_partition(client.offsets(group))
    return result


def _deletions(client: Client, group: str, missing: str) -> Result:
    if "delete_groups" not in client.can:
        return {}
    return {
        "deleted": client.delete_group(group),
        "deleted again": client.delete_group(group),
        "deleted missing": client.delete_group(missing),
        "listed no more": client.list_groups().get(group),
        "described no more": described(client, group),
    }


def transactions(client: Client) -> Result:
    """Commit, abort, and commit with offsets; a reader of committed records sees no other."""
    topic, source, group = unique("txn"), unique("txn-source"), unique("txn")
    client.create_topic(topic, 1)
    client.create_topic(source, 1)
    client.produce(source, values(5), 1)
    result: Result = {}
    producer = client.transactions(unique("txn"))
    try:
        producer.begin()
        producer.send(topic, values(10, "committed"))
        producer.commit()
        producer.begin()
        producer.send(topic, values(10, "aborted"))
        producer.abort()
        with client.consumer(group, source) as consumer:
            drain([consumer], values(5))
            producer.begin()
            producer.send(topic, values(10, "with offsets"))
            producer.send_offsets(consumer, {(source, 0): 3})
            producer.abort()
            result["offsets after abort"] = by_partition(client.offsets(group))
            producer.begin()
            producer.send(topic, values(10, "at last"))
            producer.send_offsets(consumer, {(source, 0): 5})
            producer.commit()
            # Kafka answers a commit before the coordinators have written it.
            until(lambda: client.offsets(group), "the offsets of the transaction")
            result["offsets after commit"] = by_partition(client.offsets(group))
    finally:
        producer.close()
    good = values(10, "committed") + values(10, "at last")
    with client.consumer(unique("committed"), topic, committed_only=True) as consumer:
        result["committed"] = [each.offset for each in drain([consumer], good)]
    every = good + values(10, "aborted") + values(10, "with offsets")
    with client.consumer(unique("uncommitted"), topic) as consumer:
        result["all"] = [each.offset for each in drain([consumer], every)]
    return result


SCENARIOS: dict[str, Scenario] = {
    "compressions": Scenario(compressions),
    "idempotence": Scenario(idempotence),
    "group_life": Scenario(group_life),
    "static_membership": Scenario(static_membership, frozenset({"static"})),
    "cooperation": Scenario(cooperation, frozenset({"cooperative"})),
    "administration": Scenario(administration),
    "transactions": Scenario(transactions, frozenset({"transactions"})),
}
