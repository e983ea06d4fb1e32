"""Delegation tokens on the embedded cluster: expiry, sessions, restarts, audit log; no secret is shown."""

from __future__ import annotations

import base64
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from coterie.protocol.messages.session import SaslAuthenticateResponse
from coterie.security.plain import PlainClient
from coterie.security.scram import ScramClient, ScramMechanism
from coterie.security.secrets import Secret
from coterie.server.security.audit import AUDIT_LOGGER
from coterie.server.settings.config import ConfigError
from coterie.testing import EmbeddedCluster
from tests.kit.wire_client import WireClient

USERS = {"alice": "alice-hush", "bob": "bob-hush"}
SETTINGS = {
    "delegation.token.secret.key": "secret-key-hush",
    "connection.failed.authentication.delay.ms": "1",
}
ALL = DescribeDelegationTokenRequest(None)


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(users=USERS, config=SETTINGS) as running:
        yield running


def connect(cluster: EmbeddedCluster) -> WireClient:
    host, port = cluster.bootstrap_servers.split(":")
    return WireClient(host, int(port))


def login(cluster: EmbeddedCluster, user: str = "alice") -> WireClient:
    client = connect(cluster)
    assert not client.authenticate(PlainClient(user, Secret(USERS[user]))).error_code
    return client


def created(
    client: WireClient, renewer: str = "", lifetime: int = -1
) -> CreateDelegationTokenResponse:
    renewers = (CreatableRenewers("User", renewer),) if renewer else ()
    request = CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=lifetime)
    token = client.ask(request, CreateDelegationTokenResponse)
    assert not token.error_code
    return token


def authenticate(
    client: WireClient, token: CreateDelegationTokenResponse, secret: bytes | None = None
) -> SaslAuthenticateResponse:
    password = Secret(base64.b64encode(secret or token.hmac).decode())
    machine = ScramClient(ScramMechanism.SHA_256, token.token_id, password, tokenauth=True)
    return client.authenticate(machine)


def ids(client: WireClient) -> list[str]:
    return [each.token_id for each in client.ask(ALL, DescribeDelegationTokenResponse).tokens]


def test_expired_tokens_are_removed() -> None:
    often = {"delegation.token.expiry.check.interval.ms": "20"}
    with EmbeddedCluster(users=USERS, config=SETTINGS | often) as running, login(running) as client:
        kept, short = created(client), created(client, lifetime=1)
        deadline = time.monotonic() + 30
        while ids(client) != [kept.token_id]:
            assert time.monotonic() < deadline
        gone = client.ask(RenewDelegationTokenRequest(short.hmac), RenewDelegationTokenResponse)
        assert gone.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_settings_limit_lifetimes() -> None:
    limits = {
        "delegation.token.max.lifetime.ms": "50000000",
        "delegation.token.expiry.time.ms": "20000000",
    }
    with (
        EmbeddedCluster(users=USERS, config=SETTINGS | limits) as running,
        login(running) as client,
    ):
        token = created(client, lifetime=90_000_000)
        assert token.max_timestamp_ms - token.issue_timestamp_ms == 50_000_000
        assert token.expiry_timestamp_ms - token.issue_timestamp_ms == 20_000_000


@pytest.mark.parametrize("value", ["0", "-1", "soon"])
def test_lifetimes_that_are_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r"delegation\.token\.max\.lifetime\.ms"):
        EmbeddedCluster(config={"delegation.token.max.lifetime.ms": value})


@pytest.mark.parametrize(("session", "longest"), [(60_000, 60_000), (5_000_000, 3_600_000)])
def test_a_session_ends_with_the_token_or_before(session: int, longest: int) -> None:
    """The shorter of connections.max.reauth.ms and the lifetime of the token."""
    config = SETTINGS | {"connections.max.reauth.ms": str(session)}
    with EmbeddedCluster(users=USERS, config=config) as running:
        with login(running) as client:
            token = created(client, lifetime=3_600_000)
        with connect(running) as client:
            lifetime = authenticate(client, token).session_lifetime_ms
            assert longest - 50_000 < lifetime <= longest


def test_f38_a_client_cannot_leave_its_owner(cluster: EmbeddedCluster) -> None:
    """A client that authenticates again with a token of another owner is refused (KIP-368)."""
    with login(cluster, "bob") as client:
        other = created(client)
    with login(cluster) as client:
        token = created(client)
        assert set(ids(client)) >= {token.token_id, other.token_id}  # there is no authorizer
    with connect(cluster) as client:
        assert not authenticate(client, token).error_code
        refused = client.ask(ALL, DescribeDelegationTokenResponse)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert authenticate(client, other).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_f37_an_unknown_token_looks_like_a_known_one(cluster: EmbeddedCluster) -> None:
    with login(cluster) as client:
        token = created(client)
    unknown = CreateDelegationTokenResponse(token_id="no-such-token", hmac=token.hmac)
    answers = []
    for each in (token, unknown):
        with connect(cluster) as client:
            answers.append(authenticate(client, each, b"another"))
    assert answers[0] == answers[1]
    assert answers[0].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_tokens_survive_a_restart_and_need_the_secret_key(tmp_path: Path) -> None:
    with (
        EmbeddedCluster(users=USERS, config=SETTINGS, data_dir=tmp_path) as running,
        login(running) as client,
    ):
        token, gone = created(client, "bob"), created(client)
        client.ask(ExpireDelegationTokenRequest(gone.hmac, -1), ExpireDelegationTokenResponse)
        (before,) = client.ask(ALL, DescribeDelegationTokenResponse).tokens
    kept = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
    assert token.token_id.encode() in kept
    assert token.hmac not in kept
    with EmbeddedCluster(config=SETTINGS | SASL, data_dir=tmp_path) as running:
        with login(running, "bob") as client:
            assert client.ask(ALL, DescribeDelegationTokenResponse).tokens == (before,)
            request = RenewDelegationTokenRequest(token.hmac, 5)
            renewed = client.ask(request, RenewDelegationTokenResponse)
            assert not renewed.error_code
            assert renewed.expiry_timestamp_ms < token.expiry_timestamp_ms
        with connect(running) as client:
            assert not authenticate(client, token).error_code
    for key in ("another-hush", ""):
        config = SETTINGS | SASL | {"delegation.token.secret.key": key}
        with (
            EmbeddedCluster(config=config, data_dir=tmp_path) as running,
            connect(running) as client,
        ):
            answer = authenticate(client, token)
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


SASL = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"}


def test_f43_the_audit_log_names_tokens_and_nothing_shows_their_secrets(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG), login(cluster) as client:
        token = created(client, "bob")
        answers = [
            client.ask(RenewDelegationTokenRequest(token.hmac), RenewDelegationTokenResponse),
            client.ask(ALL, DescribeDelegationTokenResponse),
            client.ask(ExpireDelegationTokenRequest(token.hmac, -1), ExpireDelegationTokenResponse),
            client.ask(ExpireDelegationTokenRequest(token.hmac, -1), ExpireDelegationTokenResponse),
        ]
        with connect(cluster) as stranger:
            assert authenticate(stranger, token).error_code
    lines = [json.loads(each.message) for each in caplog.records if each.name == AUDIT_LOGGER]
    changes = [
        (each["api"], each["resource"], each["names"], each["errors"])
        for each in lines
        if each["event"] == "changed"
    ]
    assert changes == [
        ("CreateDelegationToken", "DelegationToken", [token.token_id], []),
        ("RenewDelegationToken", "DelegationToken", [token.token_id], []),
        ("ExpireDelegationToken", "DelegationToken", [token.token_id], []),
        ("ExpireDelegationToken", "DelegationToken", [], ["DELEGATION_TOKEN_NOT_FOUND"]),
    ]
    out, err = capfd.readouterr()
    shown = "\n".join([caplog.text, out, err, repr(answers), repr(token)])
    for secret in (
        base64.b64encode(token.hmac).decode(),
        token.hmac.hex(),
        repr(token.hmac),
        "hush",
    ):
        assert secret not in shown
