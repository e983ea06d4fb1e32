"""Security settings of the client: both dialects, JAAS, mistakes that are told, secrets that are not."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from coterie.client import AdminClient
from coterie.client.security import ClientSecurity
from coterie.client.settings import ClientSettings
from coterie.client.token_endpoint import fetch_token
from coterie.errors import AuthenticationFailed, CoterieError, InvalidSetting
from coterie.security.oauth import OauthClient
from coterie.security.secrets import Secret

AT = {"bootstrap.servers": "a:1"}
SASL = {**AT, "security.protocol": "SASL_SSL"}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def first_token(settings: dict[str, Any]) -> bytes:
    security = ClientSecurity(ClientSettings.of(settings).security)
    return asyncio.run(security.exchange()).start()


def test_both_dialects_say_the_same() -> None:
    java = {
        **SASL,
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} required username="alice" password="pa ss-hush";',
    }
    librdkafka = {
        **SASL,
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "plain",
        "sasl.username": "alice",
        "sasl.password": "pa ss-hush",
    }
    assert first_token(java) == first_token(librdkafka) == b"\0alice\0pa ss-hush"
    words: dict[str, Any] = {name.replace(".", "_"): value for name, value in librdkafka.items()}
    assert "hush" not in repr(ClientSettings.of(words))
    assert "hush" not in repr(AdminClient(**words))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (SASL, "sasl.mechanism takes PLAIN"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "not 'GSSAPI'"),
        ({**SASL, "sasl.mechanism": "PLAIN"}, "PLAIN needs a username"),
        (
            {**SASL, "sasl.mechanism": "PLAIN", "sasl.username": "alice"},
            "PLAIN needs a password",
        ),
        (
            {
                **SASL,
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{SCRAM} required username="a" password="a-hush";',
            },
            "has ScramLoginModule, and PLAIN needs PlainLoginModule",
        ),
        ({**SASL, "sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER needs a token"),
        ({**SASL, "sasl.mechanism": "OAUTHBEARER", "oauth_cb": "x"}, "oauth_cb takes a function"),
        ({**AT, "security.protocol": "TLS"}, "security.protocol takes"),
        ({**AT, "sasl.mechansim": "PLAIN"}, "did you mean 'sasl.mechanism"),
    ],
)
def test_mistakes_are_found_at_once(settings: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidSetting, match=says) as failed:
        AdminClient(settings)
    assert "hush" not in str(failed.value)


@pytest.mark.parametrize(
    ("told", "extensions"),
    [
        ("to.ken", {}),
        (("to.ken", 123.0), {}),
        (("to.ken", 123.0, "principal", {"a": "b"}), {"a": "b"}),
    ],
)
@pytest.mark.parametrize("waits", [False, True])
def test_tokens_from_a_function(told: Any, extensions: dict[str, str], waits: bool) -> None:
    async def slow(config: str) -> Any:
        assert config == "some=thing"
        return told

    def quick(config: str) -> Any:
        assert config == "some=thing"
        return told

    settings: dict[str, Any] = {
        **SASL,
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.config": "some=thing",
        "oauth_cb": slow if waits else quick,
    }
    more = "".join(f"{name}={value}\x01" for name, value in extensions.items())
    assert first_token(settings) == f"n,,\x01auth=Bearer to.ken\x01{more}\x01".encode()


def test_a_function_that_returns_nonsense() -> None:
    settings = {**SASL, "sasl.mechanism": "OAUTHBEARER", "oauth_cb": lambda _: 7}
    with pytest.raises(InvalidSetting, match="has to return a token"):
        first_token(settings)


class Endpoint(BaseHTTPRequestHandler):
    """A token endpoint that knows one client."""

    def do_POST(self) -> None:
        given = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        good = given == "me:client%2Fhush" and form == "grant_type=client_credentials&scope=kafka"
        body = json.dumps({"access_token": "to.ken", "expires_in": 60} if good else {}).encode()
        self.send_response(200 if given.startswith("me:") else 401)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Say nothing."""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/token"
        server.shutdown()


def test_client_credentials(endpoint: str) -> None:
    librdkafka = {
        **AT,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": endpoint,
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "client/hush",
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1",
    }
    expected = b"n,,\x01auth=Bearer to.ken\x01logicalCluster=lkc-1\x01\x01"
    assert first_token(librdkafka) == expected
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    java = {name: value for name, value in librdkafka.items() if "oauthbearer" not in name}
    java |= {
        "sasl.oauthbearer.token.endpoint.url": endpoint,
        "sasl.jaas.config": f'{module} required clientId="me" clientSecret="client/hush" '
        'scope="kafka" extension_logicalCluster="lkc-1";',
    }
    assert first_token(java) == expected


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"client_id": "stranger"}, AuthenticationFailed, "status 401"),
        ({"scope": "other"}, AuthenticationFailed, "without a token"),
        ({"url": "http://127.0.0.1:1/"}, AuthenticationFailed, "no token from 127.0.0.1"),
        ({"url": "http://example.com/"}, InvalidSetting, "takes an https URL"),
        ({"url": "file:///etc/passwd"}, InvalidSetting, "takes an https URL"),
        ({"client_id": ""}, InvalidSetting, "needs sasl.oauthbearer.client.id"),
    ],
)
def test_no_token(
    endpoint: str, given: dict[str, Any], error: type[CoterieError], says: str
) -> None:
    options: dict[str, Any] = {
        "client_id": "me",
        "client_secret": Secret("client/hush"),
        "scope": "kafka",
        "extensions": {},
        "context": None,
    }
    options |= given
    with pytest.raises(error, match=says) as failed:
        fetch_token(options.pop("url", endpoint), **options)
    assert "hush" not in str(failed.value)


def test_a_token_is_used_once_per_exchange(endpoint: str) -> None:
    """Every exchange asks anew, so that a session is renewed with a token that is still good."""
    asked: list[str] = []

    def token(config: str) -> str:
        asked.append(config)
        return "to.ken"

    settings = {**SASL, "sasl.mechanism": "OAUTHBEARER", "oauth_cb": token}
    security = ClientSecurity(ClientSettings.of(settings).security)
    for _ in range(2):
        assert isinstance(asyncio.run(security.exchange()), OauthClient)
    assert len(asked) == 2
