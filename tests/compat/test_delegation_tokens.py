"""Delegation tokens (KIP-48, KIP-373): our cluster answers as Apache Kafka does; Java's clients use both."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from coterie.client import AdminClient
from coterie.client.blocking import BlockingAdminClient
from coterie.error_codes import ErrorCode
from coterie.protocol.messages.acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from coterie.protocol.messages.cluster import MetadataRequest, MetadataResponse
from coterie.protocol.messages.delegation_tokens import (
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
from coterie.protocol.metadata_records import (
    DelegationTokenRecord,
    decode_metadata_record,
    encode_metadata_record,
)
from coterie.protocol.records import decode_batches
from coterie.security.acls import Operation, PatternType, Permission, ResourceType
from coterie.security.scram import ScramClient, ScramMechanism
from coterie.security.secrets import Secret
from coterie.security.tls import Store, TlsSettings, client_context
from coterie.testing import EmbeddedCluster
from tests.compat.java import JavaTools
from tests.compat.secure import MAPPING_RULES, STORE_PASSWORD, Certificates, login, secure_kafka
from tests.compat.token_conversations import DAY, TokenTalk, create, describe, wait_for_tokens
from tests.kit.plugin import require_kafka
from tests.kit.wire_client import WireClient

pytestmark = pytest.mark.kafka

USERS = {name: f"{name}-hush" for name in ("alice", "bob", "carol", "dave", "erin", "admin")}
SETTINGS = {"delegation.token.secret.key": "secret-key-hush"}
DEADLINE_SECONDS = 30


class Address(NamedTuple):
    """The listeners of one cluster."""

    plain: tuple[str, int]
    sasl: tuple[str, int]
    mutual: tuple[str, int]
    directory: Path

    @property
    def bootstrap(self) -> str:
        return "{}:{}".format(*self.sasl)

    def connect(self, user: str) -> WireClient:
        return login(self.sasl, user, USERS[user]) if user else WireClient(*self.plain)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def kafka(certificates: Certificates) -> Iterator[Address]:
    require_kafka()
    with secure_kafka(certificates, USERS, SETTINGS) as running:
        yield Address(
            running.addresses[0],
            running.listener("SASL"),
            running.listener("MUTUAL"),
            running.log_dir(0),
        )


def our_settings(certificates: Certificates) -> dict[str, str]:
    return {
        "listeners": "SASL://127.0.0.1:0,OPEN://127.0.0.1:0,MUTUAL://127.0.0.1:0",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,OPEN:PLAINTEXT,MUTUAL:SSL",
        "listener.name.mutual.ssl.client.auth": "required",
        "ssl.keystore.location": str(certificates.server.pkcs12),
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.truststore.location": str(certificates.authority),
        "ssl.principal.mapping.rules": MAPPING_RULES,
        "connection.failed.authentication.delay.ms": "1",
    }


def our_address(cluster: EmbeddedCluster, directory: Path) -> Address:
    def of(listener: str) -> tuple[str, int]:
        host, _, port = cluster.bootstrap_servers_of(listener).partition(":")
        return host, int(port)

    return Address(of("OPEN"), of("SASL"), of("MUTUAL"), directory / "broker-1")


@pytest.fixture(scope="module")
def ours(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    directory = tmp_path_factory.mktemp("ours")
    with EmbeddedCluster(
        users=USERS,
        super_users=["User:admin"],
        config=our_settings(certificates) | SETTINGS,
        data_dir=directory,
    ) as running:
        yield our_address(running, directory)


@pytest.fixture(params=["ours", "kafka"])
def address(request: pytest.FixtureRequest) -> Address:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Address)
    return found


# -- the same answers -------------------------------------------------------------------------------------


def conversation(address: Address) -> dict[str, Any]:
    talk = TokenTalk(address.connect)
    talk.refusals()
    secrets = talk.creations()
    with address.connect("admin") as admin:
        wait_for_tokens(admin, *secrets)
        talk.descriptions()
        mine, renewable, other = secrets[0], secrets[2], secrets[11]
        talk.changes(mine, renewable, other)
        wait_for_tokens(admin, mine, renewable, gone=True)
        for secret in secrets:
            answer = admin.ask(
                ExpireDelegationTokenRequest(secret, -1), ExpireDelegationTokenResponse
            )
            assert answer.error_code in {0, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 62}
    return talk.answers


def test_every_answer_about_tokens_is_kafkas(ours: Address, kafka: Address) -> None:
    assert conversation(ours) == conversation(kafka)


def test_tokens_are_off_without_a_secret_key(certificates: Certificates) -> None:
    def conversation(address: Address) -> dict[str, Any]:
        talk = TokenTalk(address.connect)
        talk.refusals()
        for owners in (None, (), ("User:alice",)):
            request = DescribeDelegationTokenRequest(None) if owners is None else describe(*owners)
            talk.ask(f"describe {owners}", "alice", request)
        talk.ask("create", "alice", create())
        talk.ask("create v1", "alice", create(), 1)
        talk.ask("create for another owner", "admin", create("bob", "User:alice"))
        return talk.answers

    off = {"delegation.token.secret.key": ""}
    with EmbeddedCluster(
        users=USERS, super_users=["User:admin"], config=our_settings(certificates) | off
    ) as running:
        ours = conversation(our_address(running, Path()))
    with secure_kafka(certificates, USERS, off) as kafka:
        theirs = conversation(
            Address(kafka.addresses[0], kafka.listener("SASL"), kafka.listener("MUTUAL"), Path())
        )
    assert ours == theirs


# -- rights -----------------------------------------------------------------------------------------------


def new_token(
    address: Address, user: str, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    with address.connect(user) as client:
        token = client.ask(request, CreateDelegationTokenResponse)
        assert not token.error_code, ErrorCode.of(token.error_code)
    with address.connect("admin") as client:
        wait_for_tokens(client, token.hmac)
    return token


def remove(address: Address, user: str, hmac: bytes) -> None:
    with address.connect(user) as client:
        answer = client.ask(ExpireDelegationTokenRequest(hmac, -1), ExpireDelegationTokenResponse)
        assert not answer.error_code, ErrorCode.of(answer.error_code)


def visible(address: Address, user: str) -> set[str]:
    with address.connect(user) as client:
        answer = client.ask(DescribeDelegationTokenRequest(None), DescribeDelegationTokenResponse)
        assert not answer.error_code
        return {each.token_id for each in answer.tokens}


def allow(address: Address, user: str, kind: ResourceType, name: str, what: Operation) -> None:
    literal, yes = PatternType.LITERAL, Permission.ALLOW
    creation = AclCreation(kind, name, literal, f"User:{user}", "*", what, yes)
    with address.connect("admin") as client:
        answer = client.ask(CreateAclsRequest((creation,)), CreateAclsResponse)
        assert not answer.results[0].error_code, answer


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline


def test_rights_to_see_and_to_create_tokens(address: Address) -> None:
    """Describe on a token, DescribeTokens and CreateTokens on its owner (KIP-373)."""
    token = new_token(address, "bob", create())
    other = new_token(address, "bob", create("", "User:erin"))
    assert not visible(address, "alice") & {token.token_id, other.token_id}
    assert visible(address, "erin") == {other.token_id}
    allow(address, "carol", ResourceType.DELEGATION_TOKEN, token.token_id, Operation.DESCRIBE)
    until(lambda: visible(address, "carol") == {token.token_id})
    allow(address, "dave", ResourceType.USER, "User:bob", Operation.DESCRIBE_TOKENS)
    until(lambda: visible(address, "dave") >= {token.token_id, other.token_id})
    allow(address, "erin", ResourceType.USER, "User:bob", Operation.CREATE_TOKENS)

    def created() -> bool:
        with address.connect("erin") as client:
            answer = client.ask(create("bob"), CreateDelegationTokenResponse)
        made.append(answer)
        return not answer.error_code

    made: list[CreateDelegationTokenResponse] = []
    until(created)
    assert made[-1].principal_name == "bob"
    assert made[-1].token_requester_principal_name == "erin"
    assert made[-1].token_id not in visible(address, "erin")
    with address.connect("admin") as client:
        wait_for_tokens(client, made[-1].hmac)
    for each in (token, other, made[-1]):
        remove(address, "bob", each.hmac)


def test_a_client_with_a_certificate_may_have_tokens(
    address: Address, certificates: Certificates
) -> None:
    store = Store(
        setting="k", location=str(certificates.client.pkcs12), password=Secret(STORE_PASSWORD)
    )
    trust = Store(setting="t", location=str(certificates.authority))
    context = client_context(TlsSettings(keystore=store, truststore=trust))
    with WireClient(*address.mutual, tls=context) as client:
        token = client.ask(create(), CreateDelegationTokenResponse)
        assert (token.error_code, token.principal_name) == (0, "alice")
    with address.connect("admin") as client:
        wait_for_tokens(client, token.hmac)
    remove(address, "alice", token.hmac)


# -- logins -----------------------------------------------------------------------------------------------


def authenticate(
    address: Address,
    token: CreateDelegationTokenResponse,
    mechanism: ScramMechanism,
    *,
    secret: bytes | None = None,
    tokenauth: bool = True,
) -> tuple[WireClient, SaslAuthenticateResponse]:
    client = WireClient(*address.sasl)
    password = Secret(base64.b64encode(secret or token.hmac).decode())
    machine = ScramClient(mechanism, token.token_id, password, tokenauth=tokenauth)
    return client, client.authenticate(machine)


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_a_client_logs_in_with_a_token(address: Address, mechanism: ScramMechanism) -> None:
    token = new_token(address, "alice", create())
    client, welcome = authenticate(address, token, mechanism)
    with client:
        assert not welcome.error_code
        # The session ends with the token.
        assert DAY - 3_600_000 < welcome.session_lifetime_ms <= DAY
        assert client.ask(MetadataRequest(()), MetadataResponse).brokers
        forbidden = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        created = client.ask(create(), CreateDelegationTokenResponse)
        assert (created.error_code, created.principal_name) == (forbidden, "alice")
        assert created.issue_timestamp_ms == -1
        described = client.ask(
            DescribeDelegationTokenRequest(None), DescribeDelegationTokenResponse
        )
        assert described == DescribeDelegationTokenResponse(forbidden)
        renewed = client.ask(
            RenewDelegationTokenRequest(token.hmac, 5), RenewDelegationTokenResponse
        )
        assert renewed == RenewDelegationTokenResponse(forbidden, -1)
        expired = client.ask(
            ExpireDelegationTokenRequest(token.hmac, -1), ExpireDelegationTokenResponse
        )
        assert expired == ExpireDelegationTokenResponse(forbidden, -1)
    refused = (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism "
        f"{mechanism.mechanism}"
    )
    wrong = (
        authenticate(address, token, mechanism, secret=b"another"),
        authenticate(address, token, mechanism, tokenauth=False),
    )
    for client, answer in wrong:
        with client:
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert answer.error_message == refused
    remove(address, "alice", token.hmac)

    def is_gone() -> bool:
        client, answer = authenticate(address, token, mechanism)
        client.close()
        assert answer.error_message in {None, refused}
        return bool(answer.error_code)

    until(is_gone)


def test_an_expired_token(address: Address) -> None:
    """It is there until it is removed, and a login with it ends at once."""
    token = new_token(address, "alice", create(lifetime=1))
    with address.connect("alice") as client:

        def ask(period: int) -> ErrorCode:
            renewed = client.ask(
                RenewDelegationTokenRequest(token.hmac, period), RenewDelegationTokenResponse
            )
            return ErrorCode.of(renewed.error_code)

        until(lambda: ask(5) is ErrorCode.DELEGATION_TOKEN_EXPIRED)
        expired = client.ask(
            ExpireDelegationTokenRequest(token.hmac, 5), ExpireDelegationTokenResponse
        )
        assert expired == ExpireDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    assert token.token_id in visible(address, "alice")
    client, welcome = authenticate(address, token, ScramMechanism.SHA_256)
    with client:
        assert (welcome.error_code, welcome.session_lifetime_ms) == (0, 0)
        with pytest.raises(ConnectionError):
            client.ask(MetadataRequest(()), MetadataResponse)
    remove(address, "alice", token.hmac)


def test_our_client_logs_in_with_a_token(address: Address) -> None:
    token = new_token(address, "alice", create())
    settings = {
        "bootstrap.servers": address.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": jaas(token),
    }
    admin: BlockingAdminClient
    with AdminClient.connect(settings) as admin:
        assert admin.list_groups().complete
    remove(address, "alice", token.hmac)


def jaas(token: CreateDelegationTokenResponse) -> str:
    return (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{token.token_id}" password="{base64.b64encode(token.hmac).decode()}" '
        'tokenauth="true";'
    )


# -- Java -------------------------------------------------------------------------------------------------


def test_javas_tool_and_a_java_client_with_a_token(address: Address, tmp_path: Path) -> None:
    tools = JavaTools(address.bootstrap, tmp_path)
    owner = tmp_path / "owner.properties"
    owner.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="admin" password="{USERS["admin"]}";\n'
    )

    def run(*arguments: str) -> str:
        said = tools.run("delegation-tokens", "--command-config", str(owner), *arguments)
        assert said.code == 0, said
        return said.out

    created = run(
        "--create", "--max-life-time-period", "-1", "--owner-principal", "User:alice",
        "--renewer-principal", "User:bob",
    )  # fmt: skip
    words = created.split()
    at = words.index("User:alice")
    token = CreateDelegationTokenResponse(
        token_id=words[at - 2], hmac=base64.b64decode(words[at - 1])
    )
    with address.connect("admin") as client:
        wait_for_tokens(client, token.hmac)
    assert token.token_id in run("--describe", "--owner-principal", "User:alice")
    by_token = tmp_path / "token.properties"
    by_token.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f"sasl.jaas.config={jaas(token)}\n"
    )
    listed = tools.run("topics", "--command-config", str(by_token), "--list")
    assert listed.code == 0, listed
    hmac = base64.b64encode(token.hmac).decode()
    refused = tools.run(
        "delegation-tokens", "--command-config", str(owner), "--renew", "--hmac", hmac,
        "--renew-time-period", "-1",
    )  # fmt: skip
    assert "DelegationTokenOwnerMismatchException" in refused.out + refused.err, refused
    owner.write_text(owner.read_text().replace("admin", "bob"))
    assert "New expiry date" in run("--renew", "--hmac", hmac, "--renew-time-period", "-1")
    assert "New expiry date" in run("--expire", "--hmac", hmac, "--expiry-time-period", "-1")


# -- the log ----------------------------------------------------------------------------------------------


def test_records_of_tokens_are_kafkas(kafka: Address, ours: Address, tmp_path: Path) -> None:
    """We read and write Kafka's records, to the byte; Kafka's tool prints ours."""
    found: dict[Address, DelegationTokenRecord] = {}
    for address in (kafka, ours):
        token = new_token(address, "alice", create("", "User:bob"))
        (segment,) = address.directory.glob("__cluster_metadata-0/*.log")
        for batch in decode_batches(segment.read_bytes()).batches:
            for record in [] if batch.is_control else batch.records():
                decoded = decode_metadata_record(record.value or b"")
                if isinstance(decoded, DelegationTokenRecord):
                    assert encode_metadata_record(decoded) == record.value
                    if decoded.token_id == token.token_id:
                        found[address] = decoded
        remove(address, "alice", token.hmac)
    theirs, mine = found[kafka], found[ours]
    assert (theirs.owner, theirs.requester, theirs.renewers) == (
        mine.owner, mine.requester, mine.renewers,
    )  # fmt: skip
    assert theirs.max_timestamp - theirs.issue_timestamp == 7 * DAY
    tools = JavaTools("", tmp_path)
    (segment,) = ours.directory.glob("__cluster_metadata-0/*.log")
    dumped = tools.run("dump-log", "--cluster-metadata-decoder", "--files", str(segment))
    assert mine.token_id in dumped.out
    assert "REMOVE_DELEGATION_TOKEN_RECORD" in dumped.out
