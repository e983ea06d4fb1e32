"""SASL as step machines: a token in, a token out, until it is done or has failed.

A machine is one side of one exchange. It has no I/O and no clock; its caller carries the
tokens. A step may take a while (SCRAM hashes a password thousands of times), so the driver runs steps that
`is_slow` in a thread.
"""

from __future__ import annotations

from typing import Protocol

from coterie.errors import CoterieError

__all__ = ["SaslClient", "SaslFailed", "SaslServer"]


class SaslFailed(CoterieError):
    """The exchange has failed. On the server, `public` is all that the client is sent of the reason."""

    def __init__(self, reason: str, public: str | None = None) -> None:
        super().__init__(reason)
        self.public = public


class SaslClient(Protocol):
    """The client's side of one exchange."""

    mechanism: str
    #: Whether `respond` may take so long that an event loop must not wait for it.
    is_slow: bool

    @property
    def complete(self) -> bool:
        """Whether the server has proved what it has to prove; only then is the exchange a success."""

    def start(self) -> bytes:
        """The first token."""

    def respond(self, challenge: bytes) -> bytes | None:
        """The answer to a token of the server, or None if there is nothing more to say."""


class SaslServer(Protocol):
    """The server's side of one exchange."""

    mechanism: str
    is_slow: bool
    #: The user that was authenticated; empty until the exchange is complete.
    user: str
    #: When the delegation token expires that the client logged in with; None without a token.
    token_expiry_ms: int | None

    @property
    def complete(self) -> bool: ...

    def respond(self, response: bytes) -> bytes:
        """The answer to a token of the client. Raises SaslFailed, after which there is no further step."""
