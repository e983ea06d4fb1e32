"""A stock client on the embedded cluster: the life of some groups, as confluent-kafka sees it.

    python examples/stock_client.py

Three brokers run in this process; everything else is confluent-kafka, which does not know that it is not
talking to Apache Kafka.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from group_log import tell_lives

from coterie.testing import EmbeddedCluster

ORDERS = 200


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="coterie-demo-") as directory:
        began = time.perf_counter()
        with EmbeddedCluster(brokers=3, data_dir=directory) as cluster:
            print(
                f"Three brokers in {time.perf_counter() - began:.2f} s: {cluster.bootstrap_servers}\n"
            )
            play(cluster)
        print("The cluster is stopped. What its log of groups says:\n")
        tell_lives(Path(directory))


def play(cluster: EmbeddedCluster) -> None:
    settings: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
    cluster.create_topic("orders", partitions=4)
    produce(settings)

    first, second = member(settings, "billing"), member(settings, "billing")
    consume([first, second], ORDERS)
    for consumer in (first, second):
        consumer.commit(asynchronous=False)
    reader = member(settings, "reports")
    consume([reader], ORDERS // 2)
    reader.commit(asynchronous=False)
    reader.close()
    cluster.scene("rebalancing_group", "restless")
    cluster.scene("stale_group", "forgotten", days=90)

    admin = AdminClient(settings)
    print("Groups and their states")
    show_groups(admin)
    print("Lag of billing and reports")
    show_lag(admin, ["billing", "reports"])

    first.close()
    print("One of two members of billing left; the other took over")
    wait_until_stable(admin, "billing", second)
    show_members(admin, "billing")

    node = cluster.coordinator_of("billing")
    cluster.kill_broker(node)
    print(
        f"Broker {node}, the coordinator of billing, was killed; broker "
        f"{cluster.coordinator_of('billing')} took over"
    )
    # A client that knew the dead broker would ask it for its time-out's length.
    admin = AdminClient(settings)
    show_groups(admin)

    print("Deleting: forgotten may go, billing is in use, nobody knows nothing")
    for group, future in admin.delete_consumer_groups(["forgotten", "billing", "nothing"]).items():
        try:
            future.result()
            print(f"  {group:<12}deleted")
        except KafkaException as refusal:
            print(f"  {group:<12}{refusal.args[0].str()}")
    print()
    second.close()


def produce(settings: dict[str, Any]) -> None:
    producer = Producer(settings)
    for number in range(ORDERS):
        producer.produce("orders", key=str(number), value=f"order {number}")
    producer.flush(30)


def member(settings: dict[str, Any], group: str) -> Consumer:
    consumer = Consumer(
        settings
        | {
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 200,
        }
    )
    consumer.subscribe(["orders"])
    return consumer


def consume(consumers: list[Consumer], count: int) -> None:
    """Read so many records, and go on until every consumer has partitions."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for consumer in consumers:
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                count -= 1
        if count <= 0 and all(consumer.assignment() for consumer in consumers):
            return


def wait_until_stable(admin: AdminClient, group: str, consumer: Consumer) -> None:
    """Keep a consumer polling, as it must while its group rebalances."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        consumer.poll(0.05)
        described = admin.describe_consumer_groups([group])[group].result()
        if described.state is ConsumerGroupState.STABLE and len(described.members) == 1:
            return


def show_groups(admin: AdminClient) -> None:
    listed = admin.list_consumer_groups(request_timeout=10).result()
    for group in sorted(listed.valid, key=lambda each: each.group_id):
        print(f"  {group.group_id:<12}{state_name(group.state)}")
    print()


def state_name(state: ConsumerGroupState) -> str:
    return str(state.name).replace("_", " ").lower()


def show_lag(admin: AdminClient, groups: list[str]) -> None:
    latest = {TopicPartition("orders", p): OffsetSpec.latest() for p in range(4)}  # type: ignore[no-untyped-call]
    ends = {tp.partition: f.result().offset for tp, f in admin.list_offsets(latest).items()}
    for group in groups:
        asked = [ConsumerGroupTopicPartitions(group)]
        (future,) = admin.list_consumer_group_offsets(asked).values()
        done = {tp.partition: tp.offset for tp in future.result().topic_partitions}
        lag = sum(end - done.get(partition, 0) for partition, end in ends.items())
        print(f"  {group:<12}{lag} of {sum(ends.values())} behind")
    print()


def show_members(admin: AdminClient, group: str) -> None:
    described = admin.describe_consumer_groups([group])[group].result()
    print(f"  {group:<12}{state_name(described.state)}, {described.partition_assignor}")
    for each in described.members:
        owned = ", ".join(f"{tp.topic}-{tp.partition}" for tp in each.assignment.topic_partitions)
        print(f"  {'':<12}{each.client_id} at {each.host}: {owned}")
    print()


if __name__ == "__main__":
    main()
