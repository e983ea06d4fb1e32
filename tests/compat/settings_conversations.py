"""Requests about settings, sent in the same order to Apache Kafka and to our cluster.

Kafka applies changes of broker settings some time after it has answered, so they are not read back here.
Broker ids differ (Kafka's kit counts from 0), so requests name the broker by the id they are given.
"""

from __future__ import annotations

from collections.abc import Iterator

from coterie.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    LegacyAlterableConfig,
    LegacyAlterConfigsResource,
    ListConfigResourcesRequest,
)
from coterie.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from coterie.protocol.schema import Request

__all__ = ["settings_questions"]

Question = tuple[str, Request, int]
_TOPIC, _BROKER, _LOGGER, _METRICS, _GROUP = 2, 4, 8, 16, 32
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)

#: Values of topic settings, legal and not.
_TOPIC_VALUES = (
    ("segment.bytes", "200"), ("segment.bytes", "1048575"), ("segment.bytes", "abc"),
    ("segment.bytes", "99999999999"), ("segment.ms", "0"), ("segment.index.bytes", "3"),
    ("max.message.bytes", "-1"), ("retention.ms", "-2"), ("retention.ms", "x"),
    ("compression.type", "bogus"), ("compression.gzip.level", "0"), ("compression.gzip.level", "9"),
    ("compression.lz4.level", "18"), ("compression.lz4.level", "1"), ("compression.zstd.level", "23"),
    ("compression.zstd.level", "-5"), ("remote.storage.enable", "true"),
    ("remote.storage.enable", "false"), ("remote.log.copy.disable", "true"), ("cleanup.policy", ""),
    ("cleanup.policy", "compact,compact"), ("cleanup.policy", "bogus"),
    ("cleanup.policy", "compact,,delete"), ("min.cleanable.dirty.ratio", "2"),
    ("min.cleanable.dirty.ratio", "1"), ("preallocate", "maybe"), ("preallocate", "TRUE"),
    ("message.timestamp.type", "Bogus"), ("nonsense", "1"), ("local.retention.ms", "-3"),
    ("local.retention.ms", "5"), ("local.retention.bytes", "7"), ("min.insync.replicas", "0"),
    ("leader.replication.throttled.replicas", "bogus"),
    ("leader.replication.throttled.replicas", "0:1,1:2"), ("flush.messages", "+5"),
    ("max.compaction.lag.ms", "0"), ("unclean.leader.election.enable", "no"),
)  # fmt: skip


def settings_questions(broker: int) -> Iterator[Question]:
    """All requests about settings; the cluster has a topic `orders`."""
    yield from _created()
    yield from _changed_topics()
    yield from _replaced_topics()
    yield from _brokers(str(broker))
    yield from _groups()
    yield from _others(str(broker))


def _change(kind: int, name: str, *changes: tuple[str, int, str | None]) -> Request:
    configs = tuple(AlterableConfig(*change) for change in changes)
    return IncrementalAlterConfigsRequest((AlterConfigsResource(kind, name, configs),))


def _replace(kind: int, name: str, *values: tuple[str, str | None]) -> Request:
    configs = tuple(LegacyAlterableConfig(*value) for value in values)
    return AlterConfigsRequest((LegacyAlterConfigsResource(kind, name, configs),))


def _show(kind: int, name: str, *keys: str) -> Request:
    resource = DescribeConfigsResource(kind, name, keys or None)
    return DescribeConfigsRequest((resource,), include_synonyms=True, include_documentation=True)


def _created() -> Iterator[Question]:
    for number, (name, value) in enumerate(_TOPIC_VALUES):
        configs = (CreatableTopicConfig(name, value),)
        topic = CreatableTopic(f"s{number}", 1, 1, configs=configs)
        request = CreateTopicsRequest(topics=(topic,), validate_only=True)
        yield f"settings: create with {name}={value}", request, 7
    nothing = CreatableTopic("null", 1, 1, configs=(CreatableTopicConfig("retention.ms", None),))
    yield (
        "settings: create with null",
        CreateTopicsRequest(topics=(nothing,), validate_only=True),
        7,
    )


def _changed_topics() -> Iterator[Question]:
    for name, value in _TOPIC_VALUES:
        yield f"settings: set {name}={value}", _change(_TOPIC, "orders", (name, _SET, value)), 1
        yield f"settings: shown after {name}={value}", _show(_TOPIC, "orders", name), 4
        yield (
            f"settings: unset {name}, {value}",
            _change(_TOPIC, "orders", (name, _DELETE, None)),
            1,
        )
    policy = "cleanup.policy"
    operations: tuple[tuple[str, int, str | None], ...] = (
        ("append", _APPEND, "compact"), ("append again", _APPEND, "compact"),
        ("append nonsense", _APPEND, "bogus"), ("subtract", _SUBTRACT, "delete"),
        ("subtract the last", _SUBTRACT, "compact"), ("subtract what is not there", _SUBTRACT, "compact"),
        ("set null", _SET, None), ("append null", _APPEND, None), ("operation 9", 9, "x"),
        ("delete", _DELETE, "compact"),
    )  # fmt: skip
    for title, operation, given in operations:
        yield f"settings: {title}", _change(_TOPIC, "orders", (policy, operation, given)), 1
        yield f"settings: shown after {title}", _show(_TOPIC, "orders", policy), 4
    number = _change(_TOPIC, "orders", ("retention.ms", _APPEND, "5"))
    yield "settings: append to a number", number, 1
    number = _change(_TOPIC, "orders", ("nonsense", _APPEND, "5"))
    yield "settings: append to nonsense", number, 1
    yield "settings: no such topic", _change(_TOPIC, "missing", ("retention.ms", _SET, "5")), 1
    yield "settings: no topic", _change(_TOPIC, "", ("retention.ms", _SET, "5")), 1
    yield "settings: bad topic", _change(_TOPIC, "a/b", ("retention.ms", _SET, "5")), 1
    twice = (("retention.ms", _SET, "5"), ("retention.ms", _SET, "6"))
    yield "settings: one setting twice", _change(_TOPIC, "orders", *twice), 1
    resource = AlterConfigsResource(_TOPIC, "orders", (AlterableConfig("retention.ms", _SET, "5"),))
    yield "settings: one topic twice", IncrementalAlterConfigsRequest((resource, resource)), 1
    yield (
        "settings: only validate",
        IncrementalAlterConfigsRequest((resource,), validate_only=True),
        1,
    )
    yield "settings: nothing", _change(_TOPIC, "orders"), 1
    yield "settings: topic", _show(_TOPIC, "orders"), 4
    yield "settings: topic, nonsense", _show(_TOPIC, "orders", "nonsense"), 4
    yield "settings: show no such topic", _show(_TOPIC, "missing"), 4
    yield "settings: show a bad topic", _show(_TOPIC, "a/b"), 4


def _replaced_topics() -> Iterator[Question]:
    for title, values in {
        "two": (("retention.ms", "5000"), ("cleanup.policy", "compact")),
        "one": (("retention.ms", "6000"),),
        "bad": (("retention.ms", "-6"),),
        "null": (("retention.ms", None),),
        "twice": (("retention.ms", "1"), ("retention.ms", "2")),
        "unknown": (("nonsense", "1"),),
        "nothing": (),
    }.items():
        for version in (1, 2):
            request = _replace(_TOPIC, "orders", *values)
            yield f"settings: replace {title} v{version}", request, version
        keys = ("retention.ms", "cleanup.policy")
        yield f"settings: after replacing {title}", _show(_TOPIC, "orders", *keys), 4
    yield "settings: replace in no topic", _replace(_TOPIC, "missing", ("retention.ms", "5")), 2
    for kind in (_LOGGER, 0, 99):
        yield f"settings: replace of type {kind}", _replace(kind, "x", ("a", "b")), 2
    yield (
        "settings: replace in a group",
        _replace(_GROUP, "g", ("consumer.session.timeout.ms", "50000")),
        2,
    )
    yield "settings: group replaced", _show(_GROUP, "g", "consumer.session.timeout.ms"), 4
    yield "settings: replace in a group by nothing", _replace(_GROUP, "g"), 2


_BROKER_VALUES = (
    ("log.retention.ms", "100000"), ("log.retention.ms", "-2"), ("message.max.bytes", "2000000"),
    ("message.max.bytes", "x"), ("log.cleaner.backoff.ms", "2000"), ("log.cleaner.threads", "1"),
    ("log.cleaner.threads", "9"), ("max.connections", "500"), ("num.io.threads", "9"),
    ("log.segment.bytes", "1"), ("log.cleaner.min.cleanable.ratio", "0.1"),
    ("background.threads", "0"), ("num.partitions", "3"), ("auto.create.topics.enable", "false"),
    ("nonsense", "1"), ("my.own.setting", "1"), ("ssl.keystore.location", "x"),
    ("leader.replication.throttled.rate", "1000"), ("min.insync.replicas", "2"),
    ("group.consumer.assignment.interval.ms", "10"), ("compression.type", "zstd"),
    ("log.retention.hours", "5"), ("log.cleanup.policy", "compact"), ("broker.id", "7"),
    ("listener.name.internal.ssl.keystore.location", "x"), ("node.id", "7"),
    ("max.connections.per.ip", "50"), ("log.message.timestamp.type", "bogus"),
    ("unclean.leader.election.enable", "true"), ("log.cleaner.enable", "false"),
    ("group.consumer.session.timeout.ms", "50000"),
)  # fmt: skip


def _brokers(broker: str) -> Iterator[Question]:
    for place in ("", broker):
        where = "all brokers" if not place else "one broker"
        for name, value in _BROKER_VALUES:
            request = _change(_BROKER, place, (name, _SET, value))
            yield f"settings: {where}, set {name}={value}", request, 1
            request = _change(_BROKER, place, (name, _DELETE, None))
            yield f"settings: {where}, unset {name}, {value}", request, 1
    two = (
        ("log.retention.ms", _SET, "1000"),
        ("num.partitions", _SET, "3"),
        ("node.id", _SET, "1"),
    )
    yield "settings: static ones", _change(_BROKER, broker, *two), 1
    for name in ("99", "x", "-1"):
        yield f"settings: broker {name}", _change(_BROKER, name, ("log.retention.ms", _SET, "5")), 1
        yield (
            f"settings: replace broker {name}",
            _replace(_BROKER, name, ("log.retention.ms", "5")),
            1,
        )
        yield f"settings: show broker {name}", _show(_BROKER, name, "log.retention.ms"), 4
    yield "settings: replace in all brokers", _replace(_BROKER, "", ("log.retention.ms", "7000")), 2
    yield (
        "settings: replace in a broker",
        _replace(_BROKER, broker, ("log.retention.ms", "8000")),
        2,
    )
    yield (
        "settings: append to a number of a broker",
        _change(_BROKER, broker, ("log.retention.ms", _APPEND, "1")),
        1,
    )
    yield (
        "settings: append to a list of brokers",
        _change(_BROKER, "", ("log.cleanup.policy", _APPEND, "compact")),
        1,
    )
    yield (
        "settings: null for a broker",
        _change(_BROKER, broker, ("log.retention.ms", _SET, None)),
        1,
    )
    for place in ("", broker):
        yield f"settings: clear {place and 'one'}", _replace(_BROKER, place), 2


_GROUP_VALUES = (
    ("consumer.session.timeout.ms", "50000"), ("consumer.session.timeout.ms", "1"),
    ("consumer.session.timeout.ms", "70000"), ("consumer.heartbeat.interval.ms", "6000"),
    ("consumer.heartbeat.interval.ms", "1"), ("consumer.heartbeat.interval.ms", "20000"),
    ("consumer.assignment.interval.ms", "0"), ("consumer.assignment.interval.ms", "20000"),
    ("share.session.timeout.ms", "1"), ("share.session.timeout.ms", "70000"),
    ("share.heartbeat.interval.ms", "1"), ("share.heartbeat.interval.ms", "20000"),
    ("share.record.lock.duration.ms", "1000"), ("share.record.lock.duration.ms", "99999999"),
    ("share.delivery.count.limit", "1"), ("share.delivery.count.limit", "99"),
    ("share.partition.max.record.locks", "100"), ("share.partition.max.record.locks", "99999"),
    ("share.auto.offset.reset", "by_duration:PT1H"), ("share.auto.offset.reset", "x"),
    ("share.isolation.level", "read_committed"), ("share.isolation.level", "x"),
    ("share.renew.acknowledge.enable", "false"), ("share.assignment.interval.ms", "99999"),
    ("streams.num.standby.replicas", "1"), ("streams.num.standby.replicas", "9"),
    ("streams.initial.rebalance.delay.ms", "5"), ("streams.session.timeout.ms", "1"),
    ("streams.session.timeout.ms", "70000"), ("streams.heartbeat.interval.ms", "1"),
    ("streams.heartbeat.interval.ms", "20000"), ("streams.assignment.interval.ms", "99999"),
    ("nonsense", "1"),
)  # fmt: skip


def _groups() -> Iterator[Question]:
    for name, value in _GROUP_VALUES:
        yield f"settings: group, set {name}={value}", _change(_GROUP, "g", (name, _SET, value)), 1
        yield f"settings: group, shown after {name}={value}", _show(_GROUP, "g", name), 4
        yield (
            f"settings: group, unset {name}, {value}",
            _change(_GROUP, "g", (name, _DELETE, None)),
            1,
        )
    yield "settings: group", _show(_GROUP, "g"), 4
    yield "settings: group without a name", _show(_GROUP, ""), 4
    unnamed = _change(_GROUP, "", ("consumer.session.timeout.ms", _SET, "50000"))
    yield "settings: set in a group without a name", unnamed, 1
    both = (
        ("consumer.session.timeout.ms", _SET, "50000"),
        ("consumer.heartbeat.interval.ms", _SET, "x"),
    )
    yield "settings: group, one of two is bad", _change(_GROUP, "g", *both), 1
    null = _change(_GROUP, "g", ("consumer.session.timeout.ms", _SET, None))
    yield "settings: group, null", null, 1
    kept = _change(_GROUP, "kept", ("consumer.session.timeout.ms", _SET, "50000"))
    yield "settings: group kept", kept, 1


def _others(broker: str) -> Iterator[Question]:
    for kind in (0, 3, 64):
        yield f"settings: change type {kind}", _change(kind, "x", ("a", _SET, "b")), 1
        yield f"settings: show type {kind}", _show(kind, "x"), 4
    for name in ("", "99", "x"):
        yield f"settings: loggers of {name!r}", _show(_LOGGER, name), 4
        yield (
            f"settings: change loggers of {name!r}",
            _change(_LOGGER, name, ("root", _SET, "INFO")),
            1,
        )
    yield "settings: no metrics", _show(_METRICS, ""), 4
    yield "settings: metrics", _show(_METRICS, "subscription"), 4
    for kinds in ((), (_TOPIC,), (_GROUP,), (_BROKER,), (_METRICS,), (_GROUP, _TOPIC), (99,), (0,)):
        request = ListConfigResourcesRequest(resource_types=kinds)
        yield f"settings: resources {kinds}", request, 1
    yield "settings: resources v0", ListConfigResourcesRequest(), 0
