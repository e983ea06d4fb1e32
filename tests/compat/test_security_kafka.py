"""Security beside Apache Kafka 4.3.0 with StandardAuthorizer: the same calls of the same users are answered
alike, and our client works on Kafka over SASL_SSL."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coterie.client import AdminClient
from coterie.error_codes import ErrorCode
from coterie.errors import AuthenticationFailed, GroupAuthorizationFailed
from coterie.protocol.messages.cluster import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from coterie.protocol.messages.consumer_groups import ConsumerGroupHeartbeatResponse
from coterie.protocol.messages.groups import DeleteGroupsRequest, DeleteGroupsResponse
from coterie.protocol.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from coterie.protocol.metadata_records import decode_metadata_record, encode_metadata_record
from coterie.protocol.records import decode_batches
from coterie.protocol.types import Uuid
from coterie.protocol.versioned import Undecoded
from coterie.server.clock import SystemClock
from coterie.server.metadata.cluster_log import ClusterLog
from coterie.server.security.cluster_security import ClusterSecurity
from coterie.server.settings.security import SecurityConfig
from coterie.testing import EmbeddedCluster
from tests.compat.consumer_conversations import beat
from tests.compat.secure import (
    STORE_PASSWORD,
    Certificates,
    add_scram_users,
    login,
    secure_kafka,
)
from tests.kit.acl_calls import CALLS, Call
from tests.kit.acl_matrix import (
    GROUP,
    OTHER_TOPIC,
    TOPIC,
    USERS,
    Answers,
    make_world,
    password,
)
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
def our_address() -> Iterator[tuple[str, int]]:
    config = {"offsets.topic.num.partitions": 4}  # as in the kit's Kafka
    with EmbeddedCluster(
        users=PASSWORDS, super_users=["User:admin"], config=config, first_broker_id=0
    ) as running:
        host, port = running.bootstrap_servers.split(":")
        with login((host, int(port)), "admin", password("admin")) as client:
            make_world(client)
        yield host, int(port)


@pytest.fixture(scope="module")
def ours(our_address: tuple[str, int]) -> Answers:
    return Answers.of(lambda user: login(our_address, user, password(user)), CALLS)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_f40_the_same_answers(ours: Answers, theirs: Answers, call: Call) -> None:
    assert ours.by_call[call.name] == theirs.by_call[call.name]


def matched(address: tuple[str, int], user: str, pattern: str) -> set[str] | ErrorCode:
    """The topics that a member of this user is given for a pattern, or why it is no member."""
    group, epoch, given = f"m-patterns-{user}-{pattern}", 0, None
    with login(address, user, password(user)) as client:
        request = MetadataRequest(topics=None)
        names = {each.topic_id: each.name for each in client.ask(request, MetadataResponse).topics}
        while given is None or not given.topic_partitions:
            wishes: dict[str, Any] = {}
            if epoch == 0:
                wishes = {"subscribed_topic_names": None, "subscribed_topic_regex": pattern}
            asked = beat(group, "member", epoch, **wishes)
            answer = client.ask(asked, ConsumerGroupHeartbeatResponse, 1)
            if answer.error_code and not ErrorCode.of(answer.error_code).retriable:
                return ErrorCode.of(answer.error_code)
            epoch, given = max(epoch, answer.member_epoch), answer.assignment
        leave = beat(group, "member", -1)
        assert not client.ask(leave, ConsumerGroupHeartbeatResponse, 1).error_code
    with login(address, "admin", password("admin")) as client:
        # Other tests list all groups.
        gone = client.ask(DeleteGroupsRequest((group,)), DeleteGroupsResponse, 2)
        assert not gone.results[0].error_code
    return {names[each.topic_id] or "" for each in given.topic_partitions}


@pytest.mark.parametrize(
    ("user", "pattern", "topics"),
    [
        ("admin", "m-.*", {TOPIC, OTHER_TOPIC}),
        ("wildcard", "m-.*", {TOPIC, OTHER_TOPIC}),
        ("from-here", "m-.*", {TOPIC, OTHER_TOPIC}),
        ("denied", "m-.*", {OTHER_TOPIC}),
        ("denied", ".*(orders|payments)", {OTHER_TOPIC}),
        ("admin", "__consumer_.*", {"__consumer_offsets"}),
        ("none", "m-.*", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ("denied-read", "m-.*", ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
)
def test_patterns_match_what_their_user_may_describe(
    kafka: KafkaCluster,
    our_address: tuple[str, int],
    user: str,
    pattern: str,
    topics: set[str] | ErrorCode,
) -> None:
    """KIP-848: a pattern tells nobody of a topic that he could not see otherwise."""
    assert matched(kafka.listener("SASL"), user, pattern) == topics
    assert matched(our_address, user, pattern) == topics


def test_we_read_kafkas_own_metadata_log(kafka: KafkaCluster) -> None:
    """Its records of ACLs and users are ours, to the byte, and say what Kafka says."""
    (segment,) = kafka.log_dir(0).glob("__cluster_metadata-0/*.log")
    batches = decode_batches(segment.read_bytes()).batches
    security = ClusterSecurity(
        SecurityConfig(),
        cast("ClusterLog", SimpleNamespace(attach=lambda _part: None)),
        SystemClock(),
        invention_key=b"",
        new_uuid=lambda: Uuid.ZERO,
    )
    for record in (each for batch in batches if not batch.is_control for each in batch.records()):
        decoded = decode_metadata_record(record.value or b"")
        if not isinstance(decoded, Undecoded):  # topics, brokers
            assert encode_metadata_record(decoded) == record.value
            security.replay(decoded)
    admin_login = {"sasl_username": "admin", "sasl_password": password("admin")}
    plain = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    with AdminClient.connect(settings(kafka, "SASL", **plain, **admin_login)) as admin:
        assert set(security._acls) == set(admin.describe_acls())
        assert [user for (user, _), _ in security.users] == [
            each.name for each in admin.describe_users()
        ]
    word = password("reader")
    assert all(known.verifies(mechanism, word) for (_, mechanism), known in security.users)


def test_the_clusters_log_is_no_topic(kafka: KafkaCluster, our_address: tuple[str, int]) -> None:
    name = "__cluster_metadata"
    told = []
    for address in (kafka.listener("SASL"), our_address):
        with login(address, "admin", password("admin")) as client:
            asked = MetadataRequest(
                (MetadataRequestTopic(name=name),), allow_auto_topic_creation=True
            )
            (found,) = client.ask(asked, MetadataResponse).topics
            wanted = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
            (made,) = client.ask(CreateTopicsRequest((wanted,)), CreateTopicsResponse).topics
            everything = client.ask(MetadataRequest(topics=None), MetadataResponse).topics
        told.append((found.error_code, made.error_code, made.error_message))
        assert name not in [each.name for each in everything]
    assert told[0] == told[1]


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


class TokenEndpoint(BaseHTTPRequestHandler):
    """Gives every client with the right secret a token in its name (RFC 6749, section 4.4)."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        given = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        name, _, secret = given.partition(":")
        self.send_response(200 if secret == "client-hush" else 401)
        self.end_headers()
        told = {"access_token": unsecured_token(name)[0], "expires_in": 600}
        self.wfile.write(json.dumps(told).encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Say nothing."""


def test_our_client_with_client_credentials(kafka: KafkaCluster) -> None:
    """The grant from end to end: our client, an endpoint, Kafka's OAUTHBEARER."""
    with ThreadingHTTPServer(("127.0.0.1", 0), TokenEndpoint) as endpoint:
        threading.Thread(target=endpoint.serve_forever, daemon=True).start()
        given = settings(kafka, "TOKENS") | {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{endpoint.server_port}/token",
            "sasl.oauthbearer.client.id": "admin",
            "sasl.oauthbearer.client.secret": "client-hush",
        }
        with AdminClient.connect(given) as admin:
            assert sorted(each.group_id for each in admin.list_groups()) == [GROUP, "m-other"]
        reader = given | {"sasl.oauthbearer.client.id": "reader"}
        with AdminClient.connect(reader) as admin:
            assert [each.group_id for each in admin.list_groups()] == [GROUP]
        wrong = given | {"sasl.oauthbearer.client.secret": "wrong-hush"}
        with (
            AdminClient.connect(wrong) as admin,
            pytest.raises(AuthenticationFailed, match="status 401") as failed,
        ):
            admin.list_groups()
        assert "hush" not in str(failed.value)
        endpoint.shutdown()


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
