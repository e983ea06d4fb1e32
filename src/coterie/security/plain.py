"""SASL PLAIN (RFC 4616), both sides: the name and the password in one token. Only TLS hides it."""

from __future__ import annotations

from collections.abc import Callable

from coterie.security.sasl import SaslFailed
from coterie.security.secrets import Secret

__all__ = ["PlainClient", "PlainServer"]

_WRONG = "Authentication failed: Invalid username or password"


class PlainClient:
    """The client's side."""

    mechanism = "PLAIN"
    is_slow = False

    def __init__(self, user: str, password: Secret) -> None:
        self._user = user
        self._password = password
        self._sent = False

    @property
    def complete(self) -> bool:
        return self._sent

    def start(self) -> bytes:
        self._sent = True
        return f"\0{self._user}\0{self._password.reveal()}".encode()

    def respond(self, challenge: bytes) -> bytes | None:
        if challenge:
            raise SaslFailed("PLAIN: the broker sent a challenge where none is due")
        return None


class PlainServer:
    """The server's side. `verify` says whether a password is a user's, in the same time for all users."""

    mechanism = "PLAIN"
    is_slow = True
    token_expiry_ms: int | None = None

    def __init__(self, verify: Callable[[str, str], bool]) -> None:
        self.user = ""
        self._verify = verify

    @property
    def complete(self) -> bool:
        return bool(self.user)

    def respond(self, response: bytes) -> bytes:
        try:
            tokens = response.decode().split("\0")
        except UnicodeDecodeError:
            raise SaslFailed("PLAIN: the token is not UTF-8", _WRONG) from None
        try:
            acts_for, user, password = tokens
        except ValueError:
            raise SaslFailed(f"PLAIN: the token has {len(tokens)} parts, not 3", _WRONG) from None
        # A user cannot act for another one (CVE-2017-12610).
        if not user or not password or acts_for not in ("", user):
            raise SaslFailed(
                "PLAIN: a part is empty, or the client asks to act for another", _WRONG
            )
        if not self._verify(user, password):
            raise SaslFailed("PLAIN: no such user, or another password", _WRONG)
        self.user = user
        return b""
