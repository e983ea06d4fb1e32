"""TLS between our client and our cluster: stores of every kind, names, certificates of clients, reloads."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.client import AdminClient
from coterie.errors import AuthenticationFailed, CoterieError, InvalidSetting
from coterie.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from coterie.security.secrets import Secret
from coterie.security.tls import Store, TlsSettings, client_context, server_context
from coterie.testing import AsyncEmbeddedCluster, EmbeddedCluster
from coterie.testing.certificates import Authority, Files

AUTHORITY = Authority()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def server(directory: Path) -> Files:
    return AUTHORITY.issue("127.0.0.1").write(directory, "server", "store-hush")


@pytest.fixture(scope="module")
def authority(directory: Path) -> Path:
    return AUTHORITY.write(directory / "authority.pem")


@pytest.fixture(scope="module")
def cluster(server: Files) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(config={"ssl.keystore.location": str(server.keystore)}) as running:
        running.scene("empty_group", "orders")
        yield running


def settings(cluster: EmbeddedCluster, **more: object) -> dict[str, object]:
    dotted = {name.replace("_", "."): value for name, value in more.items()}
    address = {"bootstrap.servers": cluster.bootstrap_servers}
    return {**address, "security.protocol": "SSL", **dotted}


def groups(given: dict[str, object]) -> list[str]:
    with AdminClient.connect(given) as admin:
        return [group.group_id for group in admin.list_groups()]


def test_librdkafkas_names(cluster: EmbeddedCluster, authority: Path) -> None:
    assert groups(settings(cluster, ssl_ca_location=authority)) == ["orders"]
    assert groups(settings(cluster, ssl_ca_pem=AUTHORITY.pem)) == ["orders"]


def test_javas_names(cluster: EmbeddedCluster, authority: Path, directory: Path) -> None:
    pem = {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority}
    assert groups(settings(cluster) | pem) == ["orders"]
    store = AUTHORITY.write_pkcs12(directory / "trust.p12", "trust-hush")
    java = {
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": store,
        "ssl.truststore.password": "trust-hush",
        "ssl.protocol": "TLSv1.3",
        "ssl.enabled.protocols": "TLSv1.2",
        "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    }
    assert groups(settings(cluster) | java) == ["orders"]


def test_a_pkcs12_keystore_on_the_server(server: Files, authority: Path) -> None:
    config = {
        "ssl.keystore.location": str(server.pkcs12),
        "ssl.keystore.password": "store-hush",
        "ssl.keystore.type": "PKCS12",
    }
    with EmbeddedCluster(config=config) as running:
        assert groups(settings(running, ssl_ca_location=authority)) == []


def test_an_encrypted_key_as_text(authority: Path) -> None:
    issued = AUTHORITY.issue("127.0.0.1")
    config = {
        "ssl.keystore.certificate.chain": issued.certificate_pem,
        "ssl.keystore.key": issued.key_pem("key-hush"),
        "ssl.key.password": "key-hush",
    }
    with EmbeddedCluster(config=config) as running:
        assert groups(settings(running, ssl_ca_location=authority)) == []
    with pytest.raises(InvalidSetting, match=r"ssl\.key\.password") as failed:
        EmbeddedCluster(config=config | {"ssl.key.password": "other-hush"}).start()
    assert "hush" not in str(failed.value)


def test_f28_a_stranger_is_not_believed(cluster: EmbeddedCluster, directory: Path) -> None:
    other = Authority("somebody else").write(directory / "other.pem")
    with pytest.raises(AuthenticationFailed, match=r"not accepted.*ssl\.ca\.location"):
        groups(settings(cluster, ssl_ca_location=other))
    with pytest.raises(AuthenticationFailed, match="not accepted"):
        groups(settings(cluster))  # the system's authorities do not know ours


def test_f28_expired_wrong_host_and_self_signed(authority: Path, directory: Path) -> None:
    bad = {
        "expired": AUTHORITY.issue("127.0.0.1", expired=True),
        "mismatch": AUTHORITY.issue("127.0.0.1", hosts=["elsewhere.example"]),
    }
    for says, issued in bad.items():
        files = issued.write(directory, says)
        config = {"ssl.keystore.location": str(files.keystore)}
        with EmbeddedCluster(config=config) as running:
            with pytest.raises(AuthenticationFailed, match=says):
                groups(settings(running, ssl_ca_location=authority))
            unnamed = {"ssl.endpoint.identification.algorithm": ""}
            if says == "mismatch":
                assert groups(settings(running, ssl_ca_location=authority) | unnamed) == []
            unchecked = settings(running) | {"enable.ssl.certificate.verification": "false"}
            assert groups(unchecked) == []


def test_f28_old_versions_are_not_spoken(cluster: EmbeddedCluster) -> None:
    with pytest.raises(InvalidSetting, match=r"ssl\.enabled\.protocols takes TLSv1\.2"):
        client_context(TlsSettings(enabled_protocols="TLSv1.1"))
    host, port = cluster.bootstrap_servers.split(":")

    async def old() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        await asyncio.open_connection(host, int(port), ssl=context)

    with pytest.raises((ssl.SSLError, ConnectionError)):
        asyncio.run(old())


def test_f28_clients_with_and_without_certificates(
    server: Files, authority: Path, directory: Path
) -> None:
    """Mutual TLS: the principal is the subject, by the mapping rules, and ACLs are for it."""
    config = {
        "ssl.keystore.location": str(server.keystore),
        "ssl.truststore.location": str(authority),
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?),OU=tests,O=Acme$/$1/L,DEFAULT",
    }
    acl = AclBinding(
        ResourceType.GROUP,
        "orders",
        PatternType.LITERAL,
        "User:alice",
        "*",
        Operation.DESCRIBE,
        Permission.ALLOW,
    )
    mine = AUTHORITY.issue("Alice", organization="Acme").write(directory, "alice", "alice-hush")
    theirs = AUTHORITY.issue("Bob").write(directory, "bob")
    stranger = Authority("somebody").issue("Alice", organization="Acme").write(directory, "mallory")
    with EmbeddedCluster(config=config, acls=[acl]) as running:
        running.scene("empty_group", "orders")
        base = settings(running, ssl_ca_location=authority)
        files = {"ssl.certificate.location": mine.certificate, "ssl.key.location": mine.key}
        assert groups(base | files) == ["orders"]
        java = {"ssl.keystore.location": mine.pkcs12, "ssl.keystore.password": "alice-hush"}
        assert groups(base | java) == ["orders"]
        assert groups(base | {"ssl.keystore.location": theirs.keystore}) == []
        strange: list[dict[str, object]] = [{}, {"ssl.keystore.location": stranger.keystore}]
        for more in strange:
            # The server's alert says why, and arrives.
            with pytest.raises(AuthenticationFailed, match=r"TLS failed.*ssl\.keystore\.location"):
                groups(base | more)


def test_certificates_are_replaced_without_a_restart(authority: Path, tmp_path: Path) -> None:
    path = AUTHORITY.issue("first").write(tmp_path).keystore
    config = {"ssl.keystore.location": str(path)}
    context = client_context(TlsSettings(truststore=Store(setting="x", location=str(authority))))

    async def subject(cluster: AsyncEmbeddedCluster) -> str:
        host, port = cluster.bootstrap_servers.split(":")
        _, writer = await asyncio.open_connection(host, int(port), ssl=context)
        certificate = writer.get_extra_info("peercert")
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()
        return str(certificate["subject"][-1][0][1])

    async def play() -> None:
        async with AsyncEmbeddedCluster(config=config) as cluster:
            assert await subject(cluster) == "first"
            tls = cluster.cluster.listeners["SSL"].tls
            assert tls is not None
            path.write_text("half of a file", encoding="ascii")
            await tls.reload()
            assert await subject(cluster) == "first"
            path.write_bytes(AUTHORITY.issue("second").write(tmp_path, "new").keystore.read_bytes())
            async with asyncio.timeout(30):
                while await subject(cluster) != "second":
                    pass  # the watcher looks every second

    asyncio.run(play())


def test_plain_text_and_tls_do_not_meet(cluster: EmbeddedCluster) -> None:
    plain = {"bootstrap.servers": cluster.bootstrap_servers, "default.api.timeout.ms": 1000}
    with AdminClient.connect(plain) as admin, pytest.raises(Exception, match="needs no TLS"):
        admin.list_groups()
    with (
        EmbeddedCluster() as other,
        pytest.raises(CoterieError, match=r"security\.protocol"),
    ):
        groups(settings(other, ssl_ca_pem=AUTHORITY.pem))


@pytest.mark.parametrize(
    ("store", "says"),
    [
        ({"location": "/nowhere"}, "cannot be read"),
        ({"location": "{pkcs12}", "password": Secret("wrong-hush")}, "its password is another"),
        ({"location": "{certificate}"}, "no private key"),
        ({"location": "{key}"}, "no certificate"),
        ({"location": "{pkcs12}", "type": "JKS"}, "keytool -importkeystore"),
        ({"certificates": "nonsense", "key": Secret("x")}, "no certificate"),
        ({}, "TLS needs a certificate"),
    ],
)
def test_stores_that_cannot_be_used(server: Files, store: dict[str, object], says: str) -> None:
    given = {
        name: value.format(**{k: str(v) for k, v in server._asdict().items()})
        if isinstance(value, str)
        else value
        for name, value in store.items()
    }
    keystore = Store(setting="ssl.keystore.location", **given)  # type: ignore[arg-type]
    with pytest.raises(InvalidSetting, match=says) as failed:
        server_context(TlsSettings(keystore=keystore))
    assert "hush" not in str(failed.value)
