"""Stock clients over SASL_SSL on our cluster: log in, produce, consume in a group, commit; and be refused."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from coterie.cli.kafka_acls import command as kafka_acls
from coterie.client import AdminClient
from coterie.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from coterie.server.connections.authentication import SaslGate
from coterie.testing import EmbeddedCluster
from tests.compat.clients.base import until
from tests.compat.clients.confluent import _quiet
from tests.compat.java import JavaTools
from tests.compat.members import Java
from tests.compat.members import java as java_consumers
from tests.compat.programs import Program, find_program, require_program
from tests.compat.scenarios import unique
from tests.compat.secure import STORE_PASSWORD, Certificates

WORDS = {"alice": "alice-hush", "admin": "admin-hush", "mallory": "mallory-hush"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def allow(kind: ResourceType, operation: Operation) -> AclBinding:
    return AclBinding(
        kind, "a-", PatternType.PREFIXED, "User:alice", "*", operation, Permission.ALLOW
    )


ACLS = [
    allow(ResourceType.TOPIC, Operation.WRITE),
    allow(ResourceType.TOPIC, Operation.READ),
    allow(ResourceType.TOPIC, Operation.CREATE),
    allow(ResourceType.GROUP, Operation.READ),
]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def cluster(certificates: Certificates) -> Iterator[EmbeddedCluster]:
    config = {
        "ssl.keystore.location": str(certificates.server.pkcs12),
        "ssl.keystore.password": STORE_PASSWORD,
    }
    with EmbeddedCluster(
        2, users=WORDS, super_users=["User:admin"], acls=ACLS, config=config
    ) as running:
        yield running


@pytest.fixture
def topic(cluster: EmbeddedCluster) -> str:
    name = unique("a-topic")
    cluster.create_topic(name, 1)
    return name


def committed(cluster: EmbeddedCluster, certificates: Certificates, group: str) -> int:
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": WORDS["alice"],
        "ssl.ca.location": certificates.authority,
    }
    with AdminClient.connect(settings) as admin:
        offsets = admin.list_offsets([group]).unwrap()[group]
        return sum(each.offset for each in offsets.offsets.values())


def librdkafka(
    cluster: EmbeddedCluster, certificates: Certificates, mechanism: str, user: str
) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": mechanism,
        "sasl.username": user,
        "sasl.password": WORDS[user],
        "ssl.ca.location": str(certificates.authority),
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka(
    cluster: EmbeddedCluster, certificates: Certificates, mechanism: str, topic: str
) -> None:
    config = librdkafka(cluster, certificates, mechanism, "alice")
    producer = Producer(config, logger=_quiet)
    producer.produce(topic, b"value")
    assert producer.flush(30) == 0
    group = unique("a-group")
    consumer = Consumer(
        {**config, "group.id": group, "auto.offset.reset": "earliest"}, logger=_quiet
    )
    consumer.subscribe([topic])
    (message,) = consumer.consume(1, 30)
    assert message.value() == b"value"
    consumer.commit(asynchronous=False)
    consumer.close()
    assert committed(cluster, certificates, group) == 1


def test_librdkafka_without_rights(
    cluster: EmbeddedCluster, certificates: Certificates, topic: str
) -> None:
    errors: list[str] = []
    config = librdkafka(cluster, certificates, "PLAIN", "mallory")
    producer = Producer(config, logger=_quiet)
    producer.produce(
        topic,
        b"value",
        on_delivery=lambda error, _: errors.append(error.name() if error else "NONE"),
    )
    producer.flush(30)
    assert errors == ["TOPIC_AUTHORIZATION_FAILED"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_librdkafka_renews_its_session(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """KIP-368 from the server's side: a stock client authenticates again and goes on, nothing is lost."""
    welcomes: list[str] = []
    welcome = SaslGate._welcome

    def counted(self: SaslGate, principal: str, token_expiry_ms: int | None) -> int:
        welcomes.append(principal)
        return welcome(self, principal, token_expiry_ms)

    monkeypatch.setattr(SaslGate, "_welcome", counted)
    config = {"connections.max.reauth.ms": 1_000}
    errors: list[object] = []
    with EmbeddedCluster(users=WORDS, config=config) as running:
        running.create_topic("steady", 1)
        producer = Producer(
            {
                "bootstrap.servers": running.bootstrap_servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanisms": mechanism,
                "sasl.username": "alice",
                "sasl.password": WORDS["alice"],
                "error_cb": errors.append,
            },
            logger=_quiet,
        )
        producer.produce("steady", b"first")
        assert producer.flush(30) == 0
        logins = len(welcomes)

        def renewed() -> bool:
            producer.produce("steady", b"value")
            assert producer.flush(30) == 0
            return len(welcomes) > logins

        until(renewed, "librdkafka authenticates again")
        renewed()
        assert errors == []
    assert set(welcomes) == {"User:alice"}


def trusting(certificates: Certificates) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificates.authority))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka(
    cluster: EmbeddedCluster, certificates: Certificates, mechanism: str, topic: str
) -> None:
    options = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": WORDS["alice"],
        "ssl_context": trusting(certificates),
    }
    group = unique("a-group")

    async def play() -> None:
        async with AIOKafkaProducer(**options) as producer:
            await producer.send_and_wait(topic, b"value")
        async with AIOKafkaConsumer(
            topic,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **options,
        ) as consumer:
            assert (await consumer.getone()).value == b"value"
            await consumer.commit()

    asyncio.run(asyncio.wait_for(play(), 60))
    assert committed(cluster, certificates, group) == 1


@pytest.mark.filterwarnings("ignore:.*unclosed <ssl.SSLSocket:ResourceWarning")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(
    cluster: EmbeddedCluster, certificates: Certificates, mechanism: str, topic: str
) -> None:
    options = {
        "bootstrap_servers": cluster.bootstrap_servers.split(","),
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": WORDS["alice"],
        "ssl_cafile": str(certificates.authority),
    }
    group = unique("a-group")
    producer = KafkaProducer(**options)
    producer.send(topic, b"value").get(30)
    producer.close()
    consumer = KafkaConsumer(
        topic, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False, **options
    )
    assert next(iter(consumer)).value == b"value"
    consumer.commit()
    consumer.close()
    gc.collect()  # a connection that it gave up on a slow machine is told of here, and not in another test
    assert committed(cluster, certificates, group) == 1


def test_franz_go(cluster: EmbeddedCluster, certificates: Certificates) -> None:
    require_program("franz_go")
    program = find_program("franz_go")
    assert isinstance(program, Program)
    environment = {
        **program.environment,
        "CLIENT_USER": "admin",
        "CLIENT_PASSWORD": WORDS["admin"],
        "CLIENT_CA": str(certificates.authority),
    }
    told = dataclasses.replace(program, environment=environment).run(
        cluster.bootstrap_servers, unique("topic"), unique("group")
    )
    assert told


def properties(user: str, certificates: Certificates) -> str:
    """A user's settings as Java has them."""
    return (
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{user}" password="{WORDS[user]}";\n'
        f"ssl.truststore.location={certificates.truststore}\n"
        f"ssl.truststore.type=PKCS12\nssl.truststore.password={STORE_PASSWORD}\n"
    )


@pytest.fixture(scope="module")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    with java_consumers(tmp_path_factory.mktemp("consumers")) as running:
        yield running


@pytest.fixture(scope="module")
def java(
    cluster: EmbeddedCluster, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> tuple[JavaTools, Path]:
    directory = tmp_path_factory.mktemp("java")
    for user in WORDS:
        (directory / f"{user}.properties").write_text(properties(user, certificates))
    return JavaTools(cluster.bootstrap_servers, directory), directory


@pytest.mark.kafka
def test_java(java: tuple[JavaTools, Path], cluster: EmbeddedCluster) -> None:
    tools, directory = java
    cluster.scene("empty_group", "a-java-group", offset=3)
    cluster.scene("empty_group", "other-group")

    def groups(user: str, *arguments: str) -> Any:
        config = ("--command-config", str(directory / f"{user}.properties"))
        return tools.run("consumer-groups", *arguments, *config)

    listed = groups("alice", "--list")
    assert "a-java-group" in listed.lines, listed
    assert "other-group" not in listed.lines
    denied = groups("alice", "--delete", "--group", "a-java-group")
    assert "GroupAuthorizationException" in denied.out + denied.err
    deleted = groups("admin", "--delete", "--group", "a-java-group")
    assert "successful" in deleted.out, deleted


@pytest.mark.kafka
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_java_consumer(
    jvm: Java, cluster: EmbeddedCluster, certificates: Certificates, topic: str, protocol: str
) -> None:
    """Kafka's own client: log in, consume in a group of either protocol, commit."""
    producer = Producer(librdkafka(cluster, certificates, "PLAIN", "alice"), logger=_quiet)
    producer.produce(topic, b"value")
    assert producer.flush(30) == 0
    group = unique("a-group")
    lines = properties("alice", certificates).splitlines()
    more = dict(line.split("=", maxsplit=1) for line in lines)
    member = jvm.join(
        cluster.bootstrap_servers, group, topic, **more | {"group.protocol": protocol}
    )
    member.read(1)
    member.commit()
    assert member.committed() == [1]
    member.close()
    assert committed(cluster, certificates, group) == 1


def said(text: str) -> set[str]:
    """The lines of kafka-acls; entries are in the order of a hash."""
    return {line.strip() for line in re.split(r"\n|(?=Current)", text) if line.strip()}


@pytest.mark.kafka
def test_kafka_acls_beside_kafkas_own(
    java: tuple[JavaTools, Path], cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    tools, directory = java
    config = ["--command-config", str(directory / "admin.properties")]

    def ours(*arguments: str) -> set[str]:
        given = ["--bootstrap-server", cluster.bootstrap_servers, *config, *arguments]
        kafka_acls.main(args=given, standalone_mode=False)
        return said(capsys.readouterr().out)

    add = [
        "--add", "--allow-principal", "User:zoe", "--deny-principal", "User:zoe", "--deny-host",
        "10.0.0.1", "--operation", "Read", "--operation", "Describe", "--topic", "z-topic",
    ]  # fmt: skip
    theirs = tools.run("acls", *config, *add)
    assert theirs.code == 0, theirs
    assert ours(*add) == said(theirs.out)
    listing = ("--list", "--topic", "z-topic", "--resource-pattern-type", "match")
    listed = tools.run("acls", *config, *listing)
    assert ours(*listing) == said(listed.out)
    assert ours("--remove", "--topic", "z-topic", "--force") == set()
    assert said(tools.run("acls", *config, "--list", "--topic", "z-topic").out) == set()
