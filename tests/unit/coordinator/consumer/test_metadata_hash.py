"""The hash of a group's topics is the number that Kafka writes."""

from __future__ import annotations

import pytest

from coterie.coordinator import Topic
from coterie.coordinator.consumer.subscriptions import group_hash, xxh3_64
from coterie.protocol.types import Uuid
from tests.unit.coordinator.driver import ORDERS, PAYMENTS, Topics

#: What hash4j, which Kafka uses, makes of so many bytes (7 * i + 3).
HASHES = {
    0: 3244421341483603138,
    1: 1433843135270481901,
    3: -6266602912829716452,
    4: 7895465118229274323,
    8: 6941064856527638883,
    9: -72226354546400344,
    16: -5131753158909839995,
    17: 8163341949877205007,
    33: 4486878507168070088,
    64: 2917965298538373825,
    65: -9038134159117547962,
    96: -1115511928276236477,
    97: 2137665177113230204,
    128: 7440608504995537343,
    129: -4150982730466284604,
    130: -6475952254391226709,
    200: 8389308914288017243,
    240: 7229805477010515663,
    241: -8364630114420064745,
    256: 4339360625268998362,
    512: -756038794506822371,
    1023: -3284946428344021948,
    1024: -7241394453710343503,
    1025: -9192937061388044938,
    1088: 3424848841118183642,
    2048: -6060151295482384687,
    2049: 6174105427284153526,
    5000: 8762507191635236893,
}


@pytest.mark.parametrize("size", HASHES)
def test_xxh3(size: int) -> None:
    assert xxh3_64(bytes((7 * i + 3) % 256 for i in range(size))) == HASHES[size]


def test_a_hash_that_kafka_wrote() -> None:
    """From the ConsumerGroupMetadata record of a group that read one topic, in a log of Kafka 4.3.0."""
    topic = Topic("orders", Uuid.parse("kP9coquLQsCOC8S8GuUxbw"), 4)
    assert group_hash(["orders"], Topics(topic)) == 364152573249163442


def test_what_it_depends_on() -> None:
    topics = Topics(ORDERS, PAYMENTS)
    both = group_hash(["orders", "payments"], topics)
    assert both == group_hash(["payments", "orders", "missing"], topics)
    assert both != group_hash(["orders"], topics)
    grown = Topics(Topic("orders", ORDERS.topic_id, 5), PAYMENTS)
    assert both != group_hash(["orders", "payments"], grown)
    assert group_hash([], topics) == group_hash(["missing"], topics) == 0
