"""Faults at the door: TLS and SASL cut, slow, out of order, wrong; each by its number in the campaign."""

from __future__ import annotations

import asyncio
import logging
import select
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coterie.client import AdminClient
from coterie.error_codes import ErrorCode
from coterie.errors import AuthenticationFailed, CoterieError
from coterie.protocol.api import ApiKey
from coterie.protocol.frames import encode_request
from coterie.protocol.messages.acls import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from coterie.protocol.messages.cluster import MetadataRequest, MetadataResponse
from coterie.protocol.messages.groups import ListGroupsRequest
from coterie.protocol.messages.session import (
    ApiVersionsRequest,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from coterie.security.plain import PlainClient
from coterie.security.sasl import SaslFailed
from coterie.security.scram import ScramClient, ScramMechanism
from coterie.security.secrets import Secret
from coterie.server.cluster import Cluster
from coterie.server.dispatch import HANDLERS
from coterie.server.settings.security import SecurityConfig
from coterie.testing import EmbeddedCluster
from coterie.testing.certificates import Authority
from tests.integration.client.talk import ScriptedBroker
from tests.kit.golden import vectors
from tests.kit.wire_client import WireClient

USERS = {"alice": "alice-hush", "bob": "bob-hush"}
#: No waiting for what is tested elsewhere; and short deadlines, so that they pass.
QUICK: dict[str, str | int | bool] = {
    "connection.failed.authentication.delay.ms": 1,
    "coterie.authentication.deadline.ms": 300,
    "coterie.frame.deadline.ms": 300,
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    config = {"connection.failed.authentication.delay.ms": 1}
    with EmbeddedCluster(users=USERS, config=config) as running:
        yield running


@pytest.fixture(scope="module")
def hurried(directory: Path) -> Iterator[EmbeddedCluster]:
    keystore = str(Authority().issue("127.0.0.1").write(directory).keystore)
    config = {**QUICK, "ssl.keystore.location": keystore}
    with EmbeddedCluster(users=USERS, config=config) as running:
        yield running


def address(cluster: EmbeddedCluster) -> tuple[str, int]:
    host, port = cluster.bootstrap_servers.split(":")
    return host, int(port)


def inside(cluster: EmbeddedCluster) -> Cluster:
    return cluster._twin.cluster


def connect(cluster: EmbeddedCluster, tls: ssl.SSLContext | None = None) -> WireClient:
    return WireClient(*address(cluster), tls=tls)


def unchecked() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def ends(connection: socket.socket) -> bool:
    """Whether the peer hangs up, with or without last words."""
    connection.settimeout(20)
    try:
        while connection.recv(65536):
            pass
    except (ConnectionError, ssl.SSLError):
        pass
    return True


def hangs_up(ask: Callable[[], object]) -> bool:
    with pytest.raises((ConnectionError, OSError)):
        ask()
    return True


# -- F21, F27, F28: before a word is said -----------------------------------------------------------------


def test_f21_a_tls_hello_that_is_never_finished(hurried: EmbeddedCluster) -> None:
    with socket.create_connection(address(hurried)) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00")
        assert ends(connection)


def test_f21_sasl_that_is_never_finished(hurried: EmbeddedCluster) -> None:
    with connect(hurried, tls=unchecked()) as client:
        client.ask(SaslHandshakeRequest("PLAIN"), SaslHandshakeResponse, 1)
        assert ends(client._socket)
    (broker,) = inside(hurried).brokers.values()
    assert broker.closed["the client did not authenticate in time"] >= 1


def test_f21_a_byte_now_and_then_does_not_renew_the_deadline(hurried: EmbeddedCluster) -> None:
    with connect(hurried, tls=unchecked()) as client:
        data = encode_request(SaslHandshakeRequest("PLAIN"), 1, correlation_id=1, client_id="loris")
        with pytest.raises((ConnectionError, ssl.SSLError)):  # noqa: PT012 - it may end at any byte
            while True:
                for byte in data[:-1]:
                    client._socket.sendall(bytes([byte]))
                    client._socket.settimeout(0.2)
                    try:
                        if not client._socket.recv(1):
                            raise ConnectionError
                    except TimeoutError:
                        pass


def test_f27_strangers_at_the_tls_port(
    hurried: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    said = {
        b"GET / HTTP/1.1\r\n\r\n": "this looks like HTTP",
        encode_request(ApiVersionsRequest(), 0, correlation_id=1, client_id="x"): "plain text",
    }
    (broker,) = inside(hurried).brokers.values()
    for bytes_, hint in said.items():
        with caplog.at_level(logging.INFO), socket.create_connection(address(hurried)) as stranger:
            stranger.sendall(bytes_)
            assert ends(stranger)
        assert any(hint in reason for reason in broker.closed), broker.closed


def test_f27_tls_and_http_at_the_plain_port(cluster: EmbeddedCluster) -> None:
    (broker,) = inside(cluster).brokers.values()
    for hello in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET / HTTP/1.1\r\n\r\n"):
        with socket.create_connection(address(cluster)) as stranger:
            stranger.sendall(hello)
            assert ends(stranger)
    reasons = " ".join(broker.closed)
    assert "a TLS handshake" in reasons
    assert "an HTTP request" in reasons


def test_f28_tls_cut_in_the_middle_of_a_record(hurried: EmbeddedCluster) -> None:
    with socket.create_connection(address(hurried)) as connection:
        tls = unchecked().wrap_socket(connection)
        # Half of a record, straight into the socket below.
        raw = socket.socket(fileno=socket.dup(tls.fileno()))
        raw.sendall(b"\x17\x03\x03\x40\x00half")
        raw.shutdown(socket.SHUT_WR)
        raw.close()
        tls.close()
    with connect(hurried, tls=unchecked()) as client:  # others are served
        assert client.served


def test_f28_renegotiation_is_not_offered(hurried: EmbeddedCluster) -> None:
    """TLS 1.3 has none; for 1.2 the server's context refuses it."""
    tls = inside(hurried).listeners["SASL_SSL"].tls
    assert tls is not None
    assert tls._current.options & ssl.OP_NO_RENEGOTIATION


# -- F32 to F35: order and shape of SASL ------------------------------------------------------------------


def test_f32_nothing_is_served_before_authentication(cluster: EmbeddedCluster) -> None:
    for api in HANDLERS:
        if api in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE):
            continue
        vector = next(each for each in vectors(api.api_name) if each["kind"] == "request")
        with connect(cluster) as client:
            head = api.to_bytes(2, "big") + vector["version"].to_bytes(2, "big") + bytes(4)
            body = head + b"\xff\xff" + b"\x00" * 64
            client._socket.sendall(len(body).to_bytes(4, "big") + body)
            assert ends(client._socket), api


def test_f33_a_mechanism_that_is_not_enabled(cluster: EmbeddedCluster) -> None:
    for name in ("GSSAPI", "OAUTHBEARER", "", "plain"):
        with connect(cluster) as client:
            answer = client.ask(SaslHandshakeRequest(name), SaslHandshakeResponse, 1)
            assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
            assert answer.mechanisms == ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
            assert ends(client._socket)


def test_f34_a_token_before_the_handshake(cluster: EmbeddedCluster) -> None:
    with connect(cluster) as client:
        client._socket.sendall(client._in_flight.send(SaslAuthenticateRequest(b"x"), 2)[1])
        assert ends(client._socket)


@pytest.mark.parametrize("request_", [SaslHandshakeRequest("PLAIN"), MetadataRequest(topics=())])
def test_f34_another_request_between_the_steps(
    cluster: EmbeddedCluster, request_: SaslHandshakeRequest | MetadataRequest
) -> None:
    with connect(cluster) as client:
        client.ask(SaslHandshakeRequest("SCRAM-SHA-256"), SaslHandshakeResponse, 1)
        first = ScramClient(ScramMechanism.SHA_256, "alice", Secret("alice-hush")).start()
        client.ask(SaslAuthenticateRequest(first), SaslAuthenticateResponse)
        if isinstance(request_, SaslHandshakeRequest):
            answer = client.ask(request_, SaslHandshakeResponse, 1)
            assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        else:
            client.ask(request_, MetadataResponse, 9)  # which has no place for an error
        assert ends(client._socket)


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"alice",
        b"\0alice\0alice-hush\0",
        b"\0\0x",
        b"bob\0alice\0alice-hush",
        b"\0a\0" + b"x" * 65536,
    ],
    ids=["empty", "no NULs", "three NULs", "no user", "for another", "64 KiB"],
)
def test_f35_plain_tokens(cluster: EmbeddedCluster, token: bytes) -> None:
    with connect(cluster) as client:
        client.ask(SaslHandshakeRequest("PLAIN"), SaslHandshakeResponse, 1)
        answer = client.ask(SaslAuthenticateRequest(token), SaslAuthenticateResponse)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == "Authentication failed: Invalid username or password"
        assert ends(client._socket)


@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_f35_a_refusal_is_held_back(user: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever guesses waits for the answer; everybody else is served meanwhile."""
    ten_minutes = {"connection.failed.authentication.delay.ms": 600_000}
    with (
        caplog.at_level(logging.INFO, "coterie.audit"),
        EmbeddedCluster(users=USERS, config=ten_minutes) as running,
        connect(running) as guesser,
        connect(running) as other,
    ):
        guesser.ask(SaslHandshakeRequest("PLAIN"), SaslHandshakeResponse, 1)
        guess = SaslAuthenticateRequest(PlainClient(user, Secret("wrong")).start())
        guesser.send(guess, 2)
        guesser.send(MetadataRequest(topics=()), 9)
        assert not other.authenticate(PlainClient("bob", Secret("bob-hush"))).error_code
        while "not authenticated" not in caplog.text:  # until the guess was looked at
            assert other.ask(MetadataRequest(topics=()), MetadataResponse).brokers
        assert other.ask(MetadataRequest(topics=()), MetadataResponse).brokers
        assert select.select([guesser._socket], [], [], 0)[0] == []
    assert SecurityConfig().failed_authentication_delay_ms == 100  # as Kafka's


def test_a_frame_too_large_for_a_stranger(cluster: EmbeddedCluster) -> None:
    with connect(cluster) as client:
        client._socket.sendall((200_000).to_bytes(4, "big"))
        assert ends(client._socket)


# -- F36 to F39: who is who -------------------------------------------------------------------------------


def test_f36_a_client_refuses_a_hostile_broker_and_keeps_its_loop() -> None:
    """Iterations 1 and 2^31-1, from a broker that would like a CPU (CVE-2026-10143)."""

    async def play(iterations: int) -> None:
        def challenge(request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
            nonce = request.auth_bytes.decode().rpartition("r=")[2]
            token = f"r={nonce}more,s=AAAA,i={iterations}".encode()
            return SaslAuthenticateResponse(auth_bytes=token, error_message=None)

        broker = ScriptedBroker(
            SaslHandshake=lambda _: SaslHandshakeResponse(mechanisms=("SCRAM-SHA-256",)),
            SaslAuthenticate=challenge,
        )
        async with broker:
            settings = {
                "bootstrap.servers": f"127.0.0.1:{broker.port}",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": "alice",
                "sasl.password": "alice-hush",
            }
            async with AdminClient(settings) as admin:
                with pytest.raises(AuthenticationFailed, match=f"asks for {iterations}"):
                    await admin.list_groups()

    for iterations in (1, 2**31 - 1):
        asyncio.run(play(iterations))


def test_f37_known_and_unknown_users_cost_the_same_work(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What takes time is hashing: as often, with as many rounds and salts of one size, for everybody."""
    hashed: list[tuple[int, int]] = []
    salted = ScramMechanism.salted

    def counted(self: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
        hashed.append((len(salt), iterations))
        return salted(self, password, salt, iterations)

    monkeypatch.setattr(ScramMechanism, "salted", counted)
    work = {}
    for user in ("alice", "nobody"):
        server = inside(cluster).security.sasl_server("PLAIN")
        with pytest.raises(SaslFailed) as failed:
            server.respond(PlainClient(user, Secret("wrong")).start())
        work[user] = (str(failed.value), failed.value.public, tuple(hashed))
        hashed.clear()
    assert work["alice"] == work["nobody"]
    assert work["alice"][2] == ((24, 4096),)


def test_f38_nobody_becomes_somebody_else(cluster: EmbeddedCluster) -> None:
    with connect(cluster) as client:
        client.authenticate(PlainClient("alice", Secret("alice-hush")))
        answer = client.authenticate(PlainClient("bob", Secret("bob-hush")))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert ends(client._socket)
    with connect(cluster) as client:
        client.authenticate(PlainClient("alice", Secret("alice-hush")))
        answer2 = client.ask(SaslHandshakeRequest("SCRAM-SHA-256"), SaslHandshakeResponse, 1)
        assert answer2.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert ends(client._socket)


def test_f38_a_session_that_was_not_renewed() -> None:
    config = {"connections.max.reauth.ms": 50}
    with EmbeddedCluster(users=USERS, config=config) as running, connect(running) as client:
        answer = client.authenticate(PlainClient("alice", Secret("alice-hush")))
        assert answer.session_lifetime_ms == 50

        def ask_for_ever() -> None:
            while True:
                client.ask(MetadataRequest(topics=()), MetadataResponse)

        assert hangs_up(ask_for_ever)
        (broker,) = inside(running).brokers.values()
        assert broker.closed["the session is over and the client did not renew it"] == 1


def test_f39_a_client_never_takes_less_than_it_was_told(cluster: EmbeddedCluster) -> None:
    """A broker that offers only PLAIN to a SCRAM client, and one that has no TLS."""
    weaker = {"sasl.enabled.mechanisms": "PLAIN"}
    with EmbeddedCluster(users=USERS, config=weaker) as running:
        given = {
            "bootstrap.servers": running.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": "alice-hush",
        }
        with (
            AdminClient.connect(given) as admin,
            pytest.raises(
                AuthenticationFailed, match="does not take SCRAM-SHA-512; it offers PLAIN"
            ),
        ):
            admin.list_groups()
    stripped = given | {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
    }
    with AdminClient.connect(stripped) as admin, pytest.raises(CoterieError, match="TLS"):
        admin.list_groups()


def test_f43_a_whole_exchange_leaves_no_secret_behind(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Logs at their most talkative, reprs of everything that carries a secret, and the text of errors."""
    seen: list[str] = []
    with caplog.at_level(logging.DEBUG):
        for word in ("alice-hush", "wrong-hush"):
            given = {
                "bootstrap.servers": cluster.bootstrap_servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
                f'username="alice" password="{word}";',
            }
            with AdminClient.connect(given) as admin:
                seen += [repr(admin), repr(admin._admin.settings), repr(admin._admin._network)]
                seen += [repr(vars(admin._admin._network._security))]
                try:
                    admin.list_groups()
                except AuthenticationFailed as error:
                    seen += [str(error), repr(error)]
    client = PlainClient("alice", Secret("alice-hush"))
    request = SaslAuthenticateRequest(client.start())
    answer = SaslAuthenticateResponse(auth_bytes=b"token-hush")
    upsertion = ScramCredentialUpsertion("alice", 1, 4096, b"salt", b"salted-hush")
    seen += [
        repr(AlterUserScramCredentialsRequest((), (upsertion,))),
        repr(client),
        repr(vars(client)),
        repr(request),
        repr(answer),
        str(ListGroupsRequest()),
    ]
    seen += [repr(inside(cluster).security), repr(inside(cluster).config)]
    out, err = capfd.readouterr()
    everything = "\n".join([*seen, caplog.text, out, err])
    assert "hush" not in everything
