"""SASL's step machines, each side against the other and against RFC examples."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable

import pytest

from coterie.errors import InvalidSetting
from coterie.security.oauth import OauthClient, OauthToken
from coterie.security.plain import PlainClient, PlainServer
from coterie.security.sasl import SaslFailed
from coterie.security.scram import (
    ScramClient,
    ScramCredential,
    ScramMechanism,
    ScramServer,
    TokenLogin,
    invented_credential,
    new_credential,
)
from coterie.security.secrets import Secret

BOTH = pytest.mark.parametrize("mechanism", list(ScramMechanism))


def exchange(client: ScramClient, server: ScramServer) -> None:
    first = server.respond(client.start())
    proof = client.respond(first)
    assert proof is not None
    assert client.respond(server.respond(proof)) is None


def finder(credential: ScramCredential) -> Callable[[str], ScramCredential]:
    return lambda _: credential


def server_for(mechanism: ScramMechanism, password: str = "pencil") -> ScramServer:
    credential = new_credential(mechanism, password)
    return ScramServer(mechanism, lambda _: credential)


@BOTH
@pytest.mark.parametrize("user", ["alice", "a=b,c", "Zoë"])
def test_scram_both_sides(mechanism: ScramMechanism, user: str) -> None:
    client = ScramClient(mechanism, user, Secret("pencil"))
    server = server_for(mechanism)
    exchange(client, server)
    assert client.complete
    assert server.complete
    assert server.user == user


@BOTH
@pytest.mark.parametrize("tokenauth", [True, False])
def test_scram_with_a_delegation_token(mechanism: ScramMechanism, *, tokenauth: bool) -> None:
    """With `tokenauth=true` the name is a token's id, and the user is the token's owner."""
    token = TokenLogin("alice", new_credential(mechanism, "aG1hYw=="), 5_000)
    user = new_credential(mechanism, "pencil")
    server = ScramServer(mechanism, lambda _: user, find_token=lambda _: token)
    password = Secret("aG1hYw==" if tokenauth else "pencil")
    client = ScramClient(mechanism, "id", password, tokenauth=tokenauth)
    assert client.start().endswith(b",tokenauth=true") is tokenauth
    exchange(client, server)
    assert (server.user, server.token_expiry_ms) == (
        ("alice", 5_000) if tokenauth else ("id", None)
    )


@pytest.mark.parametrize(
    ("extensions", "by_token"),
    [
        (b",tokenauth=TRUE", True),
        (b",x=y,tokenauth=true", True),
        (b",tokenauth=false,tokenauth=true", True),
        (b",tokenauth=true,tokenauth=false", False),
        (b",tokenauth=yes", False),
        (b",xtokenauth=true", False),
    ],
)
def test_the_extension_is_read_as_java_reads_it(extensions: bytes, *, by_token: bool) -> None:
    asked: list[bool] = []

    def find(_: str) -> ScramCredential:
        asked.append(False)
        return new_credential(ScramMechanism.SHA_256, "pencil")

    def find_token(name: str) -> TokenLogin:
        asked.append(True)
        return TokenLogin(name, new_credential(ScramMechanism.SHA_256, "pencil"), None)

    server = ScramServer(ScramMechanism.SHA_256, find, find_token=find_token)
    server.respond(b"n,,n=id,r=abc" + extensions)
    assert asked == [by_token]


def test_scram_as_in_rfc_7677() -> None:
    """The example of RFC 7677, to the byte, on both sides."""
    mechanism = ScramMechanism.SHA_256
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = mechanism.salted("pencil", salt, 4096)
    credential = ScramCredential.from_salted(mechanism, salt, salted, 4096)
    client = ScramClient(mechanism, "user", Secret("pencil"), "rOprNGfwEbeRWgbNEkqO")
    server = ScramServer(mechanism, lambda _: credential, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert client.start() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    first = server.respond(client.start())
    assert first == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    proof = client.respond(first)
    assert proof == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert server.respond(proof) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@BOTH
def test_a_wrong_password_and_an_unknown_user_fail_at_the_same_step(
    mechanism: ScramMechanism,
) -> None:
    known = new_credential(mechanism, "pencil")
    shapes = set()
    for credential in (known, invented_credential(mechanism, "nobody", b"key")):
        server = ScramServer(mechanism, finder(credential))
        client = ScramClient(mechanism, "x", Secret("wrong"))
        first = server.respond(client.start())
        shapes.add(re.sub(rb"[A-Za-z0-9+/_-]+", b"x", first) + str(len(first)).encode())
        proof = client.respond(first)
        assert proof is not None
        with pytest.raises(SaslFailed, match="proof is wrong"):
            server.respond(proof)
        assert not server.complete
    assert len(shapes) == 1


def test_an_invented_salt_is_the_same_each_time() -> None:
    salts = [invented_credential(ScramMechanism.SHA_256, "nobody", b"key").salt for _ in range(2)]
    assert salts[0] == salts[1]
    other = invented_credential(ScramMechanism.SHA_256, "nobody", b"another key")
    assert other.salt != salts[0]


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\xff",
        b"n,,",
        b"n,,n=user",
        b"n,,r=abc,n=user",
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,a=root,n=user,r=abc",
        b"n,,n=us=er,r=abc",
        b"n,,n=user,r=\x07",
    ],
)
def test_f36_first_messages_that_are_refused(first: bytes) -> None:
    with pytest.raises(SaslFailed):
        server_for(ScramMechanism.SHA_256).respond(first)


@pytest.mark.parametrize(
    ("pattern", "put"),
    [
        (rb"c=biws", b"c=eSws"),
        (rb",r=", b",r=x"),
        (rb"p=.*", b"p="),
        (rb",p=.*", b""),
        (rb"p=.*", b"p=AAAA"),
        (rb"p=.*", b"p=!!!!"),
        (rb"r=[^,]*,", b""),
    ],
)
def test_f36_final_messages_that_are_refused(pattern: bytes, put: bytes) -> None:
    """Wrong nonce, reused nonce, other channel binding, bad proof, missing fields, not base 64."""
    server = server_for(ScramMechanism.SHA_256)
    client = ScramClient(ScramMechanism.SHA_256, "user", Secret("pencil"))
    proof = client.respond(server.respond(client.start()))
    assert proof is not None
    with pytest.raises(SaslFailed):
        server.respond(re.sub(pattern, put, proof))
    assert not server.complete


def test_f36_a_proof_cannot_be_used_again() -> None:
    credential = new_credential(ScramMechanism.SHA_256, "pencil")
    client = ScramClient(ScramMechanism.SHA_256, "user", Secret("pencil"))
    server = ScramServer(ScramMechanism.SHA_256, lambda _: credential)
    proof = client.respond(server.respond(client.start()))
    assert proof is not None
    server.respond(proof)
    with pytest.raises(SaslFailed):
        server.respond(proof)
    again = ScramServer(ScramMechanism.SHA_256, lambda _: credential)
    again.respond(client.start())
    with pytest.raises(SaslFailed):
        again.respond(proof)


@pytest.mark.parametrize(
    ("first", "says"),
    [
        (b"r=other,s=AAAA,i=4096", "another nonce"),
        (b"r=mine,s=AAAA,i=4096", "another nonce"),
        (b"r=mine-and-more,s=AAAA,i=1", "asks for 1 iterations"),
        (b"r=mine-and-more,s=AAAA,i=4095", "asks for 4095"),
        (b"r=mine-and-more,s=AAAA,i=2147483647", "asks for 2147483647"),
        (b"r=mine-and-more,s=A!AA,i=4096", "not base 64"),
        (b"r=mine-and-more,i=4096", "is not one"),
        (b"e=other-error", "is not one"),
    ],
)
def test_f36_a_client_does_not_believe_everything(first: bytes, says: str) -> None:
    client = ScramClient(ScramMechanism.SHA_256, "user", Secret("pencil"), "mine")
    client.start()
    with pytest.raises(SaslFailed, match=says):
        client.respond(first)


def test_a_server_that_does_not_know_the_password_is_found_out() -> None:
    client = ScramClient(ScramMechanism.SHA_512, "user", Secret("pencil"))
    client.respond(server_for(ScramMechanism.SHA_512, "another").respond(client.start()))
    assert not client.complete
    with pytest.raises(SaslFailed, match="impostor"):
        client.respond(b"v=" + base64.b64encode(bytes(64)))
    assert not client.complete


def test_a_server_says_why() -> None:
    client = ScramClient(ScramMechanism.SHA_256, "user", Secret("pencil"))
    client.respond(server_for(ScramMechanism.SHA_256).respond(client.start()))
    with pytest.raises(SaslFailed, match=r"refused .unknown-user"):
        client.respond(b"e=unknown-user")


def test_plain_both_sides() -> None:
    server = PlainServer(lambda user, password: (user, password) == ("alice", "pw"))
    client = PlainClient("alice", Secret("pw"))
    assert client.respond(server.respond(client.start())) is None
    assert client.complete
    assert server.user == "alice"


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"alice",
        b"\0alice",
        b"\0alice\0pw\0",
        b"\0alice\0pw\0more",
        b"\0\0pw",
        b"\0alice\0",
        b"root\0alice\0pw",
        b"\0alice\0\xff",
        b"\0alice\0wrong",
        b"\0mallory\0pw",
        b"\0alice\0" + b"x" * 65536,
    ],
)
def test_f35_plain_tokens_that_are_refused(token: bytes) -> None:
    server = PlainServer(lambda user, password: (user, password) == ("alice", "pw"))
    with pytest.raises(SaslFailed) as failed:
        server.respond(token)
    assert failed.value.public == "Authentication failed: Invalid username or password"
    assert not server.complete


def test_plain_has_no_second_step() -> None:
    client = PlainClient("alice", Secret("pw"))
    client.start()
    with pytest.raises(SaslFailed, match="challenge"):
        client.respond(b"again")


def test_oauth_token_and_extensions() -> None:
    client = OauthClient(OauthToken(Secret("a.b.c"), None, {"logicalCluster": "lkc-1"}))
    assert client.start() == b"n,,\x01auth=Bearer a.b.c\x01logicalCluster=lkc-1\x01\x01"
    assert client.respond(b"") is None
    assert client.complete


def test_oauth_refusal() -> None:
    client = OauthClient(OauthToken(Secret("a.b.c")))
    client.start()
    assert client.respond(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(SaslFailed, match="invalid_token"):
        client.respond(b"")
    assert not client.complete


@pytest.mark.parametrize("token", ["", "two words", "a\x01b"])
def test_oauth_tokens_that_cannot_be(token: str) -> None:
    with pytest.raises(InvalidSetting):
        OauthToken(Secret(token))


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a-b": "x"}, {"a": "\x01"}])
def test_oauth_extensions_that_cannot_be(extensions: dict[str, str]) -> None:
    with pytest.raises(InvalidSetting):
        OauthToken(Secret("a"), None, extensions)
