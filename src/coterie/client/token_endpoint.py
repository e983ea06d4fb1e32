"""Tokens by OAuth's client credentials grant (RFC 6749, section 4.4): one POST, one answer. Blocks."""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, Final

from coterie.errors import AuthenticationFailed, InvalidSetting
from coterie.security.oauth import OauthToken
from coterie.security.secrets import Secret

__all__ = ["fetch_token"]

_TIMEOUT_SECONDS: Final = 10
#: A token is some kilobytes; an endpoint that sends more is not one.
_MOST_BYTES: Final = 1_000_000
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


def fetch_token(
    url: str,
    *,
    client_id: str,
    client_secret: Secret,
    scope: str,
    extensions: Mapping[str, str],
    context: ssl.SSLContext | None,
) -> OauthToken:
    """A token for a client that has an id and a secret."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise InvalidSetting("sasl.oauthbearer.token.endpoint.url takes an https URL")
    if not client_id or not client_secret:
        raise InvalidSetting(
            "the token endpoint needs sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret"
        )
    form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
    both = ":".join(
        urllib.parse.quote(each, safe="") for each in (client_id, client_secret.reveal())
    )
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked above
        url,
        data=urllib.parse.urlencode(form).encode(),
        headers={
            "Accept": "application/json",
            "Authorization": f"Basic {base64.b64encode(both.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
        },
    )
    answer_fields = _ask(request, parts.hostname or url, context)
    token = answer_fields.get("access_token")
    if not isinstance(token, str):
        raise AuthenticationFailed(f"the token endpoint {parts.hostname} answered without a token")
    lifetime = answer_fields.get("expires_in")
    expires_at = time.time() + lifetime if isinstance(lifetime, (int, float)) else None
    return OauthToken(Secret(token), expires_at, extensions)


def _ask(
    request: urllib.request.Request, host: str, context: ssl.SSLContext | None
) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(  # noqa: S310 - as above
            request, timeout=_TIMEOUT_SECONDS, context=context
        ) as answer:
            answer_fields = json.loads(answer.read(_MOST_BYTES))
    except urllib.error.HTTPError as error:
        error.close()
        raise AuthenticationFailed(
            f"the token endpoint {host} refused with status {error.code}; check the client's id and secret"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        raise AuthenticationFailed(f"no token from {host}: {reason}") from None
    return answer_fields if isinstance(answer_fields, dict) else {}
