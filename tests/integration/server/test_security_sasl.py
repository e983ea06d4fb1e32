"""SASL on the embedded cluster: every mechanism, before, during and after authentication."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.client import AdminClient
from coterie.error_codes import ErrorCode
from coterie.errors import AuthenticationFailed, InvalidSetting
from coterie.protocol.messages.acls import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from coterie.protocol.messages.cluster import MetadataRequest, MetadataResponse
from coterie.protocol.messages.session import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from coterie.security.plain import PlainClient
from coterie.security.sasl import SaslClient
from coterie.security.scram import ScramClient, ScramMechanism
from coterie.security.secrets import Secret
from coterie.testing import EmbeddedCluster
from tests.kit.wire_client import WireClient

USERS = {"alice": "alice-hush", "admin": "admin-hush"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    config = {"connection.failed.authentication.delay.ms": 1}
    with EmbeddedCluster(brokers=2, users=USERS, config=config) as running:
        running.scene("empty_group", "orders")
        yield running


def machine(mechanism: str, user: str = "alice", password: str = "alice-hush") -> SaslClient:
    if mechanism == "PLAIN":
        return PlainClient(user, Secret(password))
    scram = next(each for each in ScramMechanism if each.mechanism == mechanism)
    return ScramClient(scram, user, Secret(password))


def connect(cluster: EmbeddedCluster) -> WireClient:
    host, port = cluster.bootstrap_servers.split(",")[0].split(":")
    return WireClient(host, int(port))


def settings(cluster: EmbeddedCluster, mechanism: str, **more: object) -> dict[str, object]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": "alice-hush",
        **more,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_admin_client_logs_in(cluster: EmbeddedCluster, mechanism: str) -> None:
    with AdminClient.connect(settings(cluster, mechanism)) as admin:
        assert [group.group_id for group in admin.list_groups()] == ["orders"]
        assert admin.describe_groups(["orders"]).complete


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_f37_a_wrong_password_and_an_unknown_user_read_the_same(
    cluster: EmbeddedCluster, mechanism: str, user: str
) -> None:
    with connect(cluster) as client:
        answer = client.authenticate(machine(mechanism, user, "wrong"))
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "Authentication failed: Invalid username or password"
        if mechanism == "PLAIN"
        else "Authentication failed during authentication due to invalid credentials with SASL "
        f"mechanism {mechanism}"
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_admin_client_says_why_it_may_not(cluster: EmbeddedCluster, mechanism: str) -> None:
    wrong = settings(cluster, mechanism) | {"sasl.password": "wrong"}
    with (
        AdminClient.connect(wrong) as admin,
        pytest.raises(AuthenticationFailed, match="Authentication failed"),
    ):
        admin.list_groups()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_bare_tokens_after_a_handshake_of_version_0(
    cluster: EmbeddedCluster, mechanism: str
) -> None:
    with connect(cluster) as client:
        exchange = machine(mechanism)
        told = client.ask(SaslHandshakeRequest(mechanism), SaslHandshakeResponse, 0)
        assert told.mechanisms == MECHANISMS
        token: bytes | None = exchange.start()
        while token is not None:
            client._socket.sendall(len(token).to_bytes(4, "big") + token)
            token = exchange.respond(client._read_frame())
        assert exchange.complete
        assert client.ask(MetadataRequest(topics=()), MetadataResponse).brokers


def test_requests_may_be_sent_behind_the_token(cluster: EmbeddedCluster) -> None:
    """Clients that pipeline: what comes behind the token waits until it was looked at."""
    with connect(cluster) as client:
        client.ask(SaslHandshakeRequest("PLAIN"), SaslHandshakeResponse, 1)
        token = SaslAuthenticateRequest(machine("PLAIN").start())
        frames = [client._in_flight.send(token, 2)[1]]
        frames += [client._in_flight.send(MetadataRequest(topics=()), 9)[1] for _ in range(3)]
        client._socket.sendall(b"".join(frames))
        answers: list[bytes] = []
        while len(answers) < 4:
            answers += client._frames.feed(client._socket.recv(65536))
        assert all(client._in_flight.receive(each)[1] for each in answers)


def test_scram_users_over_the_wire(cluster: EmbeddedCluster) -> None:
    mechanism = ScramMechanism.SHA_512
    salted = mechanism.salted("carol-hush", b"salt" * 4, 8192)
    with connect(cluster) as client:
        client.authenticate(machine("PLAIN"))
        upsertion = ScramCredentialUpsertion("carol", 2, 8192, b"salt" * 4, salted)
        answer = client.ask(
            AlterUserScramCredentialsRequest(upsertions=(upsertion,)),
            AlterUserScramCredentialsResponse,
        )
        assert [(each.user, each.error_code) for each in answer.results] == [("carol", 0)]
    for name in ("SCRAM-SHA-512", "PLAIN"):
        with connect(cluster) as client:
            assert not client.authenticate(machine(name, "carol", "carol-hush")).error_code
            told = client.ask(
                DescribeUserScramCredentialsRequest((UserName("carol"), UserName("nobody"))),
                DescribeUserScramCredentialsResponse,
            )
            assert [
                (
                    each.user,
                    each.error_code,
                    [(i.mechanism, i.iterations) for i in each.credential_infos],
                )
                for each in told.results
            ] == [("carol", 0, [(2, 8192)]), ("nobody", ErrorCode.RESOURCE_NOT_FOUND, [])]
    with connect(cluster) as client:
        assert client.authenticate(machine("SCRAM-SHA-256", "carol", "carol-hush")).error_code
    with connect(cluster) as client:
        client.authenticate(machine("PLAIN"))
        requests = [
            AlterUserScramCredentialsRequest(deletions=(ScramCredentialDeletion("carol", 2),)),
            AlterUserScramCredentialsRequest(deletions=(ScramCredentialDeletion("carol", 2),)),
            AlterUserScramCredentialsRequest(deletions=(ScramCredentialDeletion("x", 9),)),
            AlterUserScramCredentialsRequest(upsertions=(ScramCredentialUpsertion("", 1, 4096),)),
            AlterUserScramCredentialsRequest(upsertions=(ScramCredentialUpsertion("x", 1, 4095),)),
            AlterUserScramCredentialsRequest(upsertions=(ScramCredentialUpsertion("x", 1, 99999),)),
            AlterUserScramCredentialsRequest(
                (ScramCredentialDeletion("alice", 1),),
                (ScramCredentialUpsertion("alice", 1, 4096),),
            ),
        ]
        codes = [
            client.ask(each, AlterUserScramCredentialsResponse).results[0].error_code
            for each in requests
        ]
    assert codes == [
        ErrorCode.NONE,
        ErrorCode.RESOURCE_NOT_FOUND,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.UNACCEPTABLE_CREDENTIAL,
        ErrorCode.UNACCEPTABLE_CREDENTIAL,
        ErrorCode.UNACCEPTABLE_CREDENTIAL,
        ErrorCode.DUPLICATE_RESOURCE,
    ]


def test_users_survive_a_restart_and_their_passwords_are_nowhere(tmp_path: Path) -> None:
    with EmbeddedCluster(users=USERS, data_dir=tmp_path) as running, connect(running) as client:
        assert not client.authenticate(machine("PLAIN")).error_code
    config = {"sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    with EmbeddedCluster(data_dir=tmp_path, config=config) as running, connect(running) as client:
        assert not client.authenticate(machine("SCRAM-SHA-256")).error_code
    kept = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
    assert b"alice" in kept
    assert b"hush" not in kept


def test_sasl_without_a_user_does_not_start() -> None:
    """No mechanism can be on with nobody behind it (CVE-2026-110985)."""
    with pytest.raises(InvalidSetting, match="there is no user"):
        EmbeddedCluster(config={"sasl.enabled.mechanisms": "PLAIN"}).start()


@pytest.mark.parametrize(
    "config",
    [
        {"sasl.enabled.mechanisms": "GSSAPI"},
        {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"},
        {"ssl.client.auth": "always", "ssl.keystore.location": "x"},
        {"ssl.keystore.location": "/nowhere.pem"},
        {"ssl.principal.mapping.rules": "nonsense"},
    ],
)
def test_settings_that_cannot_be(config: dict[str, str]) -> None:
    with pytest.raises(InvalidSetting):
        EmbeddedCluster(config=config).start()


def test_plaintext_clusters_do_not_speak_sasl() -> None:
    with EmbeddedCluster() as running, connect(running) as client:
        answer = client.ask(SaslHandshakeRequest("PLAIN"), SaslHandshakeResponse, 1)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        token = client.ask(SaslAuthenticateRequest(b"x"), SaslAuthenticateResponse)
        assert token.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_sessions_are_renewed(caplog: pytest.LogCaptureFixture) -> None:
    """KIP-368: the client authenticates again on the same connection, before its session ends."""
    config = {"connections.max.reauth.ms": 1_000}

    async def play(cluster: EmbeddedCluster) -> None:
        async with AdminClient(settings(cluster, "SCRAM-SHA-256")) as admin:
            await admin.list_groups()
            opened = dict(admin._network._open)
            async with asyncio.timeout(30):
                while admin.requests["SaslHandshake"] < 2:
                    await asyncio.gather(*(admin.list_groups() for _ in range(3)))
            await admin.list_groups()
            assert dict(admin._network._open) == opened
            assert not any(each.closed for each in opened.values())

    with EmbeddedCluster(users=USERS, config=config) as running, caplog.at_level(logging.INFO):
        asyncio.run(play(running))
    assert "hush" not in caplog.text
