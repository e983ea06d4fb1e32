"""SASL OAUTHBEARER (RFC 7628, KIP-255), the client's side: a token that somebody else issued.

Where the token comes from is the caller's business: a callback, or coterie.client.token_endpoint.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from coterie.errors import InvalidSetting
from coterie.security.sasl import SaslFailed
from coterie.security.secrets import Secret

__all__ = ["OauthClient", "OauthToken"]

_TOKEN: Final = re.compile(r"[-._~+/A-Za-z0-9]+=*")
_KEY: Final = re.compile(r"[A-Za-z]+")
_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")


@dataclass(frozen=True, slots=True)
class OauthToken:
    """A bearer token, the second since 1970 at which it ends (None: not known), and SASL extensions."""

    value: Secret
    expires_at: float | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _TOKEN.fullmatch(self.value.reveal()):
            raise InvalidSetting(
                "the OAUTHBEARER token is empty or has characters that no token has"
            )
        for key, value in self.extensions.items():
            if key == "auth" or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
                raise InvalidSetting(
                    f"the SASL extension {key!r} has a name or value that cannot be"
                )


class OauthClient:
    """The client's side."""

    mechanism = "OAUTHBEARER"
    is_slow = False

    def __init__(self, token: OauthToken) -> None:
        self._token = token
        self._complete = False
        self._refused: str | None = None

    @property
    def complete(self) -> bool:
        return self._complete

    def start(self) -> bytes:
        extensions = "".join(f"{k}={v}\x01" for k, v in self._token.extensions.items())
        return f"n,,\x01auth=Bearer {self._token.value.reveal()}\x01{extensions}\x01".encode()

    def respond(self, challenge: bytes) -> bytes | None:
        if self._refused is not None:
            raise SaslFailed(f"OAUTHBEARER: the broker refused the token ({self._refused})")
        if not challenge:
            self._complete = True
            return None
        # An error comes as JSON; the client says "understood", and only then is it over.
        self._refused = _status(challenge)
        return b"\x01"


def _status(challenge: bytes) -> str:
    try:
        told = json.loads(challenge)
        return str(told["status"])[:80]
    except (ValueError, KeyError, TypeError):
        return "with no reason that can be read"
