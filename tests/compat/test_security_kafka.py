"""Security beside Apache Kafka 4.3.0 with StandardAuthorizer: the same calls of the same users are answered
alike, and our client works on Kafka over SASL_SSL."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Iterator

import pytest

from coterie.client import AdminClient
from coterie.errors import AuthenticationFailed, GroupAuthorizationFailed
from coterie.testing import EmbeddedCluster
from tests.compat.secure import (
    STORE_PASSWORD,
    Certificates,
    add_scram_users,
    login,
    secure_kafka,
)
from tests.kit.acl_calls import CALLS, Call
from tests.kit.acl_matrix import GROUP, USERS, Answers, make_world, password
from tests.kit.kafka import KafkaCluster
from tests.kit.plugin import require_kafka
from tests.kit.wire_client import WireClient

PASSWORDS = {user: password(user) for user in USERS}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def kafka(certificates: Certificates) -> Iterator[KafkaCluster]:
    require_kafka()
    with secure_kafka(certificates, PASSWORDS) as running:
        with WireClient(*running.addresses[0]) as client:
            make_world(client)
            add_scram_users(client, {"reader": password("reader")})
        yield running


@pytest.fixture(scope="module")
def theirs(kafka: KafkaCluster) -> Answers:
    address = kafka.listener("SASL")
    return Answers.of(lambda user: login(address, user, password(user)), CALLS)


@pytest.fixture(scope="module")
def ours() -> Iterator[Answers]:
    config = {"offsets.topic.num.partitions": 4}  # as in the kit's Kafka
    with EmbeddedCluster(users=PASSWORDS, super_users=["User:admin"], config=config) as running:
        host, port = running.bootstrap_servers.split(":")
        with login((host, int(port)), "admin", password("admin")) as client:
            make_world(client)
        yield Answers.of(lambda user: login((host, int(port)), user, password(user)), CALLS)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_f40_the_same_answers(ours: Answers, theirs: Answers, call: Call) -> None:
    assert ours.by_call[call.name] == theirs.by_call[call.name]


def settings(kafka: KafkaCluster, listener: str, **more: object) -> dict[str, object]:
    host, port = kafka.listener(listener)
    dotted = {name.replace("_", "."): value for name, value in more.items()}
    return {"bootstrap.servers": f"{host}:{port}", **dotted}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_our_client_over_sasl_ssl(
    kafka: KafkaCluster, certificates: Certificates, mechanism: str
) -> None:
    module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    word = password("reader")
    java = settings(
        kafka,
        "SECURE",
        security_protocol="SASL_SSL",
        sasl_mechanism=mechanism,
        sasl_jaas_config=f"org.apache.kafka.common.security.{module}LoginModule required "
        f'username="reader" password="{word}";',
        ssl_truststore_location=certificates.truststore,
        ssl_truststore_type="PKCS12",
        ssl_truststore_password=STORE_PASSWORD,
    )
    librdkafka = settings(
        kafka,
        "SECURE",
        security_protocol="sasl_ssl",
        sasl_mechanisms=mechanism,
        sasl_username="reader",
        sasl_password=word,
        ssl_ca_location=certificates.authority,
    )
    for given in (java, librdkafka):
        with AdminClient.connect(given) as admin:
            assert [each.group_id for each in admin.list_groups()] == [GROUP]
            refused = admin.delete_groups([GROUP])
            assert isinstance(refused.errors[GROUP], GroupAuthorizationFailed)


def test_our_client_with_a_certificate(kafka: KafkaCluster, certificates: Certificates) -> None:
    mine = settings(
        kafka,
        "MUTUAL",
        security_protocol="SSL",
        ssl_ca_location=certificates.authority,
        ssl_keystore_location=certificates.client.pkcs12,
        ssl_keystore_password=STORE_PASSWORD,
    )
    with AdminClient.connect(mine) as admin:
        assert len(admin.list_groups()) == 0  # alice is nobody here
    without = {name: value for name, value in mine.items() if "keystore" not in name}
    with (
        AdminClient.connect(without) as admin,
        pytest.raises(AuthenticationFailed, match=r"ssl\.keystore\.location"),
    ):
        admin.list_groups()


def test_f39_our_client_never_falls_back(kafka: KafkaCluster, certificates: Certificates) -> None:
    word = password("reader")
    plain = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    credentials = {"sasl.username": "reader", "sasl.password": word}
    tokens = settings(kafka, "TOKENS") | plain | credentials
    with (
        AdminClient.connect(tokens) as admin,
        pytest.raises(AuthenticationFailed, match="does not take PLAIN; it offers OAUTHBEARER"),
    ):
        admin.list_groups()
    wrong = settings(kafka, "SASL") | plain | credentials | {"sasl.password": "wrong-hush"}
    with (
        AdminClient.connect(wrong) as admin,
        pytest.raises(AuthenticationFailed, match="Invalid username or password") as failed,
    ):
        admin.list_groups()
    assert "hush" not in str(failed.value)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_f38_our_client_renews_its_session(kafka: KafkaCluster, mechanism: str) -> None:
    """KIP-368: on the same connections, before Kafka would close them."""
    given = settings(
        kafka,
        "SHORT",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_username="reader",
        sasl_password=password("reader"),
    )

    async def play() -> None:
        async with AdminClient(given) as admin:
            await admin.list_groups()
            opened = dict(admin._network._open)
            logins = admin.requests["SaslHandshake"]
            async with asyncio.timeout(60):
                while admin.requests["SaslHandshake"] < logins + len(opened):
                    await admin.list_groups()
            await admin.list_groups()
            assert dict(admin._network._open) == opened
            assert not any(each.closed for each in opened.values())

    asyncio.run(play())


def unsecured_token(subject: str) -> tuple[str, float]:
    """What Kafka's development validator takes: a JWT without a signature."""
    now = time.time()
    parts = [{"alg": "none"}, {"sub": subject, "iat": now, "exp": now + 600}]
    encoded = [
        base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts
    ]
    return ".".join([*encoded, ""]), now + 600


def test_our_client_with_a_token(kafka: KafkaCluster) -> None:
    given = settings(
        kafka,
        "TOKENS",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        oauth_cb=lambda _: unsecured_token("admin"),
    )
    with AdminClient.connect(given) as admin:
        assert sorted(each.group_id for each in admin.list_groups()) == [GROUP, "m-other"]
    bad = given | {"oauth.cb": lambda _: "not.a.token"}
    with (
        AdminClient.connect(bad) as admin,
        pytest.raises(AuthenticationFailed, match="invalid_token"),
    ):
        admin.list_groups()
