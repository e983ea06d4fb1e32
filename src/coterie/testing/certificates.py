"""Certificates for tests of TLS: an authority, and what it issues, valid or expired, as PEM and PKCS12.

    authority = Authority()
    files = authority.issue("127.0.0.1").write(directory)
    EmbeddedCluster(config={"ssl.keystore.location": files.keystore})

trustme issues the certificates. This module adds what Kafka's settings need: PKCS12 stores, encrypted keys.
Needs `pip install 'coterie[certificates]'`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple, cast

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

__all__ = ["Authority", "Certificate", "Files"]

_DAY: Final = dt.timedelta(days=1)


class Files(NamedTuple):
    """Where a certificate was written: PEM with key and certificate, each of them alone, both as PKCS12."""

    keystore: Path
    certificate: Path
    key: Path
    pkcs12: Path


class Certificate:
    """A certificate and its key."""

    def __init__(self, issued: trustme.LeafCert) -> None:
        self.certificate_pem = issued.cert_chain_pems[0].bytes().decode()
        key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
        self._key = cast("ec.EllipticCurvePrivateKey", key)

    def key_pem(self, password: str = "") -> str:
        """The key as PKCS8, the only form that Kafka reads; encrypted if there is a password."""
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        return self._key.private_bytes(encoding, form, _encryption(password)).decode()

    def write(self, directory: Path, name: str = "server", password: str = "") -> Files:
        """Write it under a name, in all forms that Kafka's settings accept; PKCS12 with the password."""
        files = Files(*(directory / f"{name}.{end}" for end in ("pem", "crt", "key", "p12")))
        files.certificate.write_text(self.certificate_pem, encoding="ascii")
        for with_key in (files.keystore, files.key, files.pkcs12):
            with_key.touch(0o600)
        files.key.write_text(self.key_pem(), encoding="ascii")
        files.keystore.write_text(self.key_pem() + self.certificate_pem, encoding="ascii")
        certificate = x509.load_pem_x509_certificate(self.certificate_pem.encode())
        files.pkcs12.write_bytes(
            pkcs12.serialize_key_and_certificates(
                name.encode(), self._key, certificate, None, _encryption(password)
            )
        )
        return files


class Authority:
    """A certificate authority. Only clients and servers that are given its certificate trust it."""

    def __init__(self, name: str = "Coterie test authority") -> None:
        self._authority = trustme.CA(organization_unit_name=name)

    @property
    def pem(self) -> str:
        return self._authority.cert_pem.bytes().decode()

    def write(self, path: Path) -> Path:
        """Write the authority's certificate as PEM, for a truststore."""
        path.write_text(self.pem, encoding="ascii")
        return path

    def write_pkcs12(self, path: Path, password: str) -> Path:
        """Write a truststore as Java's keytool does."""
        certificate = x509.load_pem_x509_certificate(self._authority.cert_pem.bytes())
        entry = pkcs12.PKCS12Certificate(certificate, b"authority")
        path.write_bytes(pkcs12.serialize_java_truststore([entry], _encryption(password)))
        return path

    def issue(
        self,
        name: str,
        *,
        hosts: Iterable[str] = ("127.0.0.1", "localhost"),
        organization: str = "",
        expired: bool = False,
    ) -> Certificate:
        """A certificate for a server or a client. Its subject is CN=`name`,OU=tests,O=`organization`."""
        return Certificate(
            self._authority.issue_cert(
                *hosts,
                common_name=name,
                organization_name=organization or None,
                organization_unit_name="tests",
                not_after=dt.datetime.now(dt.UTC) - _DAY if expired else None,
            )
        )


def _encryption(password: str) -> serialization.KeySerializationEncryption:
    if not password:
        return serialization.NoEncryption()
    return serialization.BestAvailableEncryption(password.encode())
