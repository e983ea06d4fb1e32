"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), both sides, and what a server keeps of a password.

The server keeps no password: a salt, a stored key and a server key. A user that does not exist gets a
made-up salt that stays the same, and fails where a wrong password fails: clients cannot find out who exists.
With Kafka's extension `tokenauth=true` the user name is the id of a delegation token (KIP-48).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from coterie.security.sasl import SaslFailed
from coterie.security.secrets import Secret

__all__ = [
    "MAX_ITERATIONS",
    "MIN_ITERATIONS",
    "ScramClient",
    "ScramCredential",
    "ScramMechanism",
    "ScramServer",
    "TokenLogin",
    "invented_credential",
    "new_credential",
    "new_salt",
    "stable_salt",
]

#: What Kafka's server accepts; fewer would be weak, more would keep its threads busy.
MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 16_384
#: What a client believes of a server. Two billion rounds would take eleven minutes (CVE-2026-10143).
_MOST_FOR_CLIENT: Final = 1_000_000

_NONCE: Final = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_CLIENT_FIRST: Final = re.compile(
    r"n,(?:a=(?P<authzid>[^,]*))?,(?P<bare>n=(?P<name>[^,]*),r=(?P<nonce>[^,]+)(?:,.*)?)", re.DOTALL
)
_SERVER_FIRST: Final = re.compile(r"r=(?P<nonce>[^,]+),s=(?P<salt>[^,]+),i=(?P<rounds>[0-9]{1,10})")
_CLIENT_FINAL: Final = re.compile(
    r"(?P<bare>c=(?P<binding>[^,]+),r=(?P<nonce>[^,]+)(?:,[^p].*)?),p=(?P<proof>[^,]+)", re.DOTALL
)
_TOKENAUTH: Final = re.compile(r",tokenauth=([^,]*)")
#: "n,," in base 64: no channel binding.
_NO_BINDING: Final = "biws"


class ScramMechanism(Enum):
    """The two mechanisms, with Kafka's number for each."""

    SHA_256 = (1, "SCRAM-SHA-256", "sha256")
    SHA_512 = (2, "SCRAM-SHA-512", "sha512")

    def __init__(self, code: int, mechanism: str, digest: str) -> None:
        self.code = code
        self.mechanism = mechanism
        self.digest = digest

    def hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self.digest)

    def hash(self, data: bytes) -> bytes:
        return hashlib.new(self.digest, data).digest()

    def salted(self, password: str, salt: bytes, iterations: int) -> bytes:
        """The slow step: 1.4 ms for 4,096 rounds, 0.3 s for a million."""
        return hashlib.pbkdf2_hmac(self.digest, password.encode(), salt, iterations)


class ScramCredential(msgspec.Struct, frozen=True):
    """What is kept of a password, for one mechanism."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return "ScramCredential([hidden])"

    @classmethod
    def from_salted(
        cls, mechanism: ScramMechanism, salt: bytes, salted: bytes, iterations: int
    ) -> ScramCredential:
        """From a salted password, which is what AlterUserScramCredentials carries."""
        stored = mechanism.hash(mechanism.hmac(salted, b"Client Key"))
        return cls(salt, stored, mechanism.hmac(salted, b"Server Key"), iterations)

    def verifies(self, mechanism: ScramMechanism, password: str) -> bool:
        """Whether this is the password. As slow as a SCRAM client."""
        salted = mechanism.salted(password, self.salt, self.iterations)
        stored = mechanism.hash(mechanism.hmac(salted, b"Client Key"))
        return hmac.compare_digest(stored, self.stored_key)


def new_salt() -> bytes:
    return secrets.token_bytes(24)


class TokenLogin(NamedTuple):
    """The login by a delegation token: its owner's name, its credential, and when it expires."""

    owner: str
    credential: ScramCredential
    expiry_ms: int | None


def stable_salt(mechanism: ScramMechanism, name: str, key: bytes) -> bytes:
    """The salt of a name that has no stored credential: the same each time."""
    return mechanism.hmac(key, b"salt of " + name.encode())[:24]


def new_credential(
    mechanism: ScramMechanism,
    password: str,
    iterations: int = MIN_ITERATIONS,
    *,
    salt: bytes | None = None,
) -> ScramCredential:
    """A credential for a password, with a new salt unless one is given."""
    salt = salt or new_salt()
    salted = mechanism.salted(password, salt, iterations)
    return ScramCredential.from_salted(mechanism, salt, salted, iterations)


def invented_credential(mechanism: ScramMechanism, user: str, key: bytes) -> ScramCredential:
    """What a user that does not exist has: the same salt each time, and keys that no password opens."""
    salt = stable_salt(mechanism, user, key)
    size = hashlib.new(mechanism.digest).digest_size
    return ScramCredential(salt, secrets.token_bytes(size), bytes(size), MIN_ITERATIONS)


class ScramClient:
    """The client's side. With `tokenauth`, the user is a token's id and the password its HMAC in base 64."""

    is_slow = True

    def __init__(
        self,
        mechanism: ScramMechanism,
        user: str,
        password: Secret,
        nonce: str | None = None,
        *,
        tokenauth: bool = False,
    ) -> None:
        self.mechanism = mechanism.mechanism
        self._scram = mechanism
        self._password = password
        self._nonce = nonce or secrets.token_urlsafe(24)
        self._bare = f"n={_escape(user)},r={self._nonce}" + ",tokenauth=true" * tokenauth
        self._signature: bytes | None = None
        self._complete = False

    @property
    def complete(self) -> bool:
        return self._complete

    def start(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def respond(self, challenge: bytes) -> bytes | None:
        text = _text(challenge)
        if self._signature is None:
            return self._prove(text)
        self._check(text)
        return None

    def _prove(self, text: str) -> bytes:
        match = _SERVER_FIRST.fullmatch(text)
        if match is None:
            raise SaslFailed(f"{self.mechanism}: the broker's first message is not one")
        nonce, rounds = match["nonce"], int(match["rounds"])
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise SaslFailed(f"{self.mechanism}: the broker answered with another nonce")
        if not MIN_ITERATIONS <= rounds <= _MOST_FOR_CLIENT:
            raise SaslFailed(
                f"{self.mechanism}: the broker asks for {rounds} iterations, and "
                f"{MIN_ITERATIONS} to {_MOST_FOR_CLIENT} are accepted"
            )
        salted = self._scram.salted(self._password.reveal(), _unbase64(match["salt"]), rounds)
        final = f"c={_NO_BINDING},r={nonce}"
        signed = f"{self._bare},{text},{final}".encode()
        client_key = self._scram.hmac(salted, b"Client Key")
        signature = self._scram.hmac(self._scram.hash(client_key), signed)
        self._signature = self._scram.hmac(self._scram.hmac(salted, b"Server Key"), signed)
        return f"{final},p={_base64(_xor(client_key, signature))}".encode()

    def _check(self, text: str) -> None:
        kind, _, value = text.partition("=")
        if kind == "e":
            raise SaslFailed(f"{self.mechanism}: the broker refused ({value[:80]})")
        if kind != "v" or not hmac.compare_digest(
            _unbase64(value.split(",")[0]), self._signature or b""
        ):
            raise SaslFailed(
                f"{self.mechanism}: the broker did not prove that it knows the password; "
                "it may be an impostor"
            )
        self._complete = True


class ScramServer:
    """The server's side. `find` returns the credential of a user, `find_token` the login of a token id.

    Both return a made-up credential for a name that does not exist.
    """

    is_slow = False

    def __init__(
        self,
        mechanism: ScramMechanism,
        find: Callable[[str], ScramCredential],
        nonce: str | None = None,
        *,
        find_token: Callable[[str], TokenLogin] | None = None,
    ) -> None:
        self.mechanism = mechanism.mechanism
        self.user = ""
        self.token_expiry_ms: int | None = None
        self._scram = mechanism
        self._find = find
        self._find_token = find_token
        self._own_nonce = nonce or secrets.token_urlsafe(24)
        self._claimed = ""
        self._credential: ScramCredential | None = None
        self._nonce = ""
        self._exchange = ""

    @property
    def complete(self) -> bool:
        return bool(self.user)

    def respond(self, response: bytes) -> bytes:
        text = _text(response)
        if self.complete:
            raise SaslFailed("a token came after the end of the exchange")
        if self._credential is None:
            return self._challenge(text)
        return self._verify(text, self._credential)

    def _challenge(self, text: str) -> bytes:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None or _NONCE.fullmatch(match["nonce"]) is None:
            raise SaslFailed("the client's first message is not one")
        name = _unescape(match["name"])
        if match["authzid"] and _unescape(match["authzid"]) != name:
            # A user cannot act for another one (CVE-2017-12610).
            raise SaslFailed("the client asked to act for another user")
        extensions = _TOKENAUTH.findall(match["bare"])
        if self._find_token is not None and extensions and extensions[-1].lower() == "true":
            self._claimed, self._credential, self.token_expiry_ms = self._find_token(name)
        else:
            self._claimed, self._credential = name, self._find(name)
        self._nonce = match["nonce"] + self._own_nonce
        first = (
            f"r={self._nonce},s={_base64(self._credential.salt)},i={self._credential.iterations}"
        )
        self._exchange = f"{match['bare']},{first}"
        return first.encode()

    def _verify(self, text: str, credential: ScramCredential) -> bytes:
        match = _CLIENT_FINAL.fullmatch(text)
        # All of RFC 5802's checks, the final nonce included (CVE-2024-56128).
        if match is None or match["binding"] != _NO_BINDING or match["nonce"] != self._nonce:
            raise SaslFailed("the client's final message does not fit the exchange")
        signed = f"{self._exchange},{match['bare']}".encode()
        proof = _unbase64(match["proof"])
        signature = self._scram.hmac(credential.stored_key, signed)
        if len(proof) != len(signature) or not hmac.compare_digest(
            self._scram.hash(_xor(proof, signature)), credential.stored_key
        ):
            raise SaslFailed("the client's proof is wrong")
        if not self._claimed:
            raise SaslFailed("the user name is empty")
        self.user = self._claimed
        return f"v={_base64(self._scram.hmac(credential.server_key, signed))}".encode()


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise SaslFailed("a token is not UTF-8") from None


def _escape(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unescape(name: str) -> str:
    if re.search("=(?!2C|3D)", name):
        raise SaslFailed("the user name is not escaped as SCRAM wants it")
    return name.replace("=2C", ",").replace("=3D", "=")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _unbase64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SaslFailed("a token has something in it that is not base 64") from None


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
