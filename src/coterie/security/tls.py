"""TLS contexts from Kafka's settings: PEM, and Java's PKCS12 stores through the package `cryptography`.

TLS 1.2 is the oldest that is spoken, and there is no setting that changes that. A private key never touches a
disk that it was not on: OpenSSL wants a file, and gets one that exists in memory only.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from coterie.errors import InvalidSetting
from coterie.security.secrets import Secret

__all__ = ["ReloadableContext", "Store", "TlsSettings", "client_context", "server_context"]

_VERSIONS: Final = {
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_CERTIFICATE: Final = re.compile(
    rb"-----BEGIN (?:TRUSTED )?CERTIFICATE-----.*?-----END (?:TRUSTED )?CERTIFICATE-----\r?\n?",
    re.DOTALL,
)
_KEY: Final = re.compile(
    rb"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----.*?-----END (?:[A-Z]+ )?PRIVATE KEY-----\r?\n?",
    re.DOTALL,
)
_NO_PASSWORD: Final = Secret("")
#: How OpenSSL calls bytes that are not TLS; who sends such would not understand an alert.
_NOT_TLS: Final = frozenset({"HTTP_REQUEST", "WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Where certificates and a key come from. `setting` is how the user calls it, for errors."""

    setting: str
    location: str = ""
    #: librdkafka has the key in a file of its own.
    key_location: str = ""
    type: str = ""
    password: Secret = _NO_PASSWORD
    key_password: Secret = _NO_PASSWORD
    #: PEM text in the settings themselves (KIP-651).
    certificates: str = ""
    key: Secret = _NO_PASSWORD

    def __bool__(self) -> bool:
        return bool(self.location or self.certificates)

    @property
    def files(self) -> list[Path]:
        return [Path(each) for each in (self.location, self.key_location) if each]


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Kafka's `ssl.` settings, read."""

    keystore: Store = field(default_factory=lambda: Store(setting="ssl.keystore.location"))
    truststore: Store = field(default_factory=lambda: Store(setting="ssl.truststore.location"))
    enabled_protocols: str = "TLSv1.2,TLSv1.3"
    cipher_suites: str = ""
    client_auth: str = "none"
    #: `https`, or empty for no check of the host name, as in Kafka.
    endpoint_identification: str = "https"
    verify: bool = True

    @property
    def files(self) -> list[Path]:
        """What is read from the disk, for whoever watches for changes."""
        return [*self.keystore.files, *self.truststore.files]


class _Material:
    """Certificates and a key as PEM."""

    def __init__(
        self, certificates: bytes, key: bytes = b"", password: Secret = _NO_PASSWORD
    ) -> None:
        self.certificates = certificates
        self.key = key
        self.password = password


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """A context that checks the broker's certificate and its name, unless told not to."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _restrict(context, settings)
    algorithm = settings.endpoint_identification.lower()
    if algorithm not in ("https", "", "none"):
        raise InvalidSetting(
            f"ssl.endpoint.identification.algorithm takes https or nothing, not {algorithm!r}"
        )
    if not settings.verify or algorithm in ("", "none"):
        context.check_hostname = False
    if not settings.verify:
        context.verify_mode = ssl.CERT_NONE
    elif settings.truststore:
        _trust(context, settings.truststore)
    else:
        context.load_default_certs()
    if settings.keystore:
        _identify(context, settings.keystore)
    return context


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """A context with the server's certificate; clients show theirs if `ssl.client.auth` says so."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _restrict(context, settings)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    if settings.client_auth not in _CLIENT_AUTH:
        raise InvalidSetting(
            f"ssl.client.auth takes {', '.join(_CLIENT_AUTH)}, not {settings.client_auth!r}"
        )
    if not settings.keystore:
        raise InvalidSetting("TLS needs a certificate: set ssl.keystore.location")
    _identify(context, settings.keystore)
    context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    if settings.truststore:
        _trust(context, settings.truststore)
    elif context.verify_mode != ssl.CERT_NONE:
        raise InvalidSetting(
            f"ssl.client.auth={settings.client_auth} needs to know whom to trust: "
            "set ssl.truststore.location"
        )
    return context


class ReloadableContext(ssl.SSLContext):
    """A server's context whose certificates can be replaced while it is in use.

    asyncio keeps the context that a listener was opened with; this one hands each new handshake to the
    context of the day. Connections that are open keep theirs.
    """

    _current: ssl.SSLContext
    _watched: type[ssl.SSLObject]

    def __new__(cls, current: ssl.SSLContext, failed: Callable[[ssl.SSLError], None]) -> Self:
        made = super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)
        made._current = current
        made._watched = _watched(failed)
        return made

    def __init__(self, current: ssl.SSLContext, failed: Callable[[ssl.SSLError], None]) -> None:
        """Everything is done in __new__, which is how ssl.SSLContext is made."""

    def use(self, context: ssl.SSLContext) -> None:
        """Use another from the next handshake on."""
        self._current = context

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        made = self._current.wrap_bio(*arguments, **options)
        made.__class__ = self._watched
        return made


def _watched(failed: Callable[[ssl.SSLError], None]) -> type[ssl.SSLObject]:
    """An SSLObject that tells of a handshake that failed, us and the peer; asyncio tells neither."""

    class Watched(ssl.SSLObject):
        _failure: ssl.SSLError | None = None

        def do_handshake(self) -> None:
            if self._failure is not None:
                raise self._failure
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as error:
                failed(error)
                if error.reason in _NOT_TLS:
                    raise
                # Whoever waits for more sends what there is first, and that is the alert with the reason.
                # The peer hangs up then; if it does not, the deadline of the handshake does.
                self._failure = error
                raise ssl.SSLWantReadError from error

    return Watched


def _restrict(context: ssl.SSLContext, settings: TlsSettings) -> None:
    names = [each.strip() for each in settings.enabled_protocols.split(",") if each.strip()]
    unknown = [name for name in names if name not in _VERSIONS]
    if unknown or not names:
        raise InvalidSetting(
            f"ssl.enabled.protocols takes {' and '.join(_VERSIONS)}, not {settings.enabled_protocols!r}"
        )
    versions = [_VERSIONS[name] for name in names]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if settings.cipher_suites:
        suites = [_openssl_name(each.strip()) for each in settings.cipher_suites.split(",")]
        try:
            context.set_ciphers(":".join(each for each in suites if each))
        except ssl.SSLError:
            raise InvalidSetting(
                f"ssl.cipher.suites: none of {settings.cipher_suites!r} is known here"
            ) from None


def _openssl_name(suite: str) -> str:
    """Java's TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is OpenSSL's ECDHE-RSA-AES128-GCM-SHA256."""
    if not suite.startswith("TLS_"):
        return suite
    if "_WITH_" not in suite:
        return ""  # of TLS 1.3, where there is nothing to choose
    name = suite.removeprefix("TLS_").replace("_WITH_", "-").replace("AES_", "AES")
    return name.replace("_CBC_", "_").replace("_", "-").removeprefix("RSA-AES-")


def _trust(context: ssl.SSLContext, store: Store) -> None:
    found = _read(store)
    if not found.certificates:
        raise InvalidSetting(f"{store.setting}: {_place(store)} has no certificate in it")
    try:
        context.load_verify_locations(cadata=found.certificates.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise InvalidSetting(f"{store.setting}: {_place(store)}: {_reason(error)}") from None


def _identify(context: ssl.SSLContext, store: Store) -> None:
    found = _read(store)
    if not found.certificates or not found.key:
        missing = "private key" if found.certificates else "certificate"
        raise InvalidSetting(f"{store.setting}: {_place(store)} has no {missing} in it")
    with _in_memory(found.key + b"\n" + found.certificates) as path:
        try:
            # A function, so that OpenSSL never asks at a terminal.
            context.load_cert_chain(path, password=found.password.reveal)
        except (ssl.SSLError, ValueError) as error:
            hint = "; check ssl.key.password" if b"ENCRYPTED" in found.key else ""
            raise InvalidSetting(
                f"{store.setting}: {_place(store)}: {_reason(error)}{hint}"
            ) from None


def _read(store: Store) -> _Material:
    if store.certificates:
        return _Material(
            b"".join(_CERTIFICATE.findall(store.certificates.encode())),
            store.key.reveal().encode(),
            store.key_password,
        )
    data = _file(store, store.location)
    kind = (store.type or _guess(data)).upper()
    if kind == "PEM":
        keys = data if not store.key_location else _file(store, store.key_location)
        found = _KEY.search(keys)
        password = store.key_password or store.password
        certificates = b"".join(_CERTIFICATE.findall(data))
        return _Material(certificates, found[0] if found else b"", password)
    if kind == "PKCS12":
        return _pkcs12(store, data)
    raise InvalidSetting(
        f"{store.setting}: {store.location} is a {kind} store, which only Java reads; "
        "convert it with `keytool -importkeystore -deststoretype PKCS12`"
    )


def _guess(data: bytes) -> str:
    if b"-----BEGIN" in data[:4096]:
        return "PEM"
    return "JKS" if data[:4] == b"\xfe\xed\xfe\xed" else "PKCS12"


def _file(store: Store, location: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise InvalidSetting(
            f"{store.setting}: {location} cannot be read: {error.strerror}"
        ) from None


def _pkcs12(store: Store, data: bytes) -> _Material:
    try:
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415
    except ImportError:
        raise InvalidSetting(
            f"{store.setting}: PKCS12 needs the package cryptography; pip install 'coterie[tls]'"
        ) from None
    try:
        opened = pkcs12.load_pkcs12(data, store.password.reveal().encode() or None)
    except ValueError:
        raise InvalidSetting(
            f"{store.setting}: {store.location} is no PKCS12 store, or its password is another"
        ) from None
    pem = serialization.Encoding.PEM
    entries = [opened.cert, *opened.additional_certs] if opened.cert else opened.additional_certs
    certificates = b"".join(each.certificate.public_bytes(pem) for each in entries)
    key = b""
    if opened.key is not None:
        key = opened.key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    return _Material(certificates, key)


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """A path from which the content can be read, and nothing on a disk; elsewhere than on Linux, a file that
    only this user can read, for a moment."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("coterie-key", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name


def _place(store: Store) -> str:
    return store.location or "the PEM text"


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None) or str(error)
    return str(reason).lower().replace("_", " ")
