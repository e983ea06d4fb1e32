"""Hostile tokens: whatever comes, a step machine goes on or says that it failed, and nobody gets in."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import InvalidSetting
from coterie.security.jaas import parse_jaas
from coterie.security.oauth import OauthClient, OauthToken
from coterie.security.plain import PlainServer
from coterie.security.sasl import SaslFailed
from coterie.security.scram import ScramClient, ScramMechanism, ScramServer, new_credential
from coterie.security.secrets import Secret

CREDENTIAL = new_credential(ScramMechanism.SHA_256, "a password")
PIECES = st.sampled_from(
    b"n, a= , n=alice r= nonce s= AAAA i=4096 i=99999999999 c=biws p= v= e= =2C =3D = \0 \xff \1".split(
        b" "
    )
)
tokens = st.one_of(st.binary(max_size=64), st.lists(PIECES, max_size=12).map(b"".join))


@given(st.lists(tokens, min_size=1, max_size=3))
def test_scram_server(given_tokens: list[bytes]) -> None:
    server = ScramServer(ScramMechanism.SHA_256, lambda _: CREDENTIAL)
    with contextlib.suppress(SaslFailed):
        for token in given_tokens:
            server.respond(token)
    assert not server.complete


@given(tokens)
def test_scram_server_after_an_honest_start(token: bytes) -> None:
    server = ScramServer(ScramMechanism.SHA_256, lambda _: CREDENTIAL)
    server.respond(ScramClient(ScramMechanism.SHA_256, "alice", Secret("x")).start())
    with contextlib.suppress(SaslFailed):
        server.respond(token)
    assert not server.complete


@given(st.lists(tokens, min_size=1, max_size=3))
def test_scram_client(given_tokens: list[bytes]) -> None:
    client = ScramClient(ScramMechanism.SHA_256, "alice", Secret("x"), "nonce")
    client.start()
    with contextlib.suppress(SaslFailed):
        for token in given_tokens:
            client.respond(token)
    assert not client.complete


@given(tokens)
def test_plain_server_and_oauth_client(token: bytes) -> None:
    server = PlainServer(lambda _user, _password: False)
    with contextlib.suppress(SaslFailed):
        server.respond(token)
    assert not server.complete
    client = OauthClient(OauthToken(Secret("token")))
    client.start()
    with contextlib.suppress(SaslFailed):
        client.respond(token)
        client.respond(token)
    assert client.complete is (token == b"")


@given(st.one_of(st.text(max_size=80), st.text("ab.= ;\"'\\\n", max_size=60)))
def test_jaas(text: str) -> None:
    with contextlib.suppress(InvalidSetting):
        parse_jaas(text)
