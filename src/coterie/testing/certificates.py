"""Certificates for tests: an authority of one's own, and certificates that it issues, good ones and bad ones.

    authority = Authority()
    paths = authority.issue("127.0.0.1").write(directory)
    EmbeddedCluster(config={"ssl.keystore.location": paths.keystore})

Needs the package `cryptography` (the extra `tls`).
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

__all__ = ["Authority", "Certificate"]

_DAY: Final = dt.timedelta(days=1)
_PEM: Final = serialization.Encoding.PEM


class Files(NamedTuple):
    """Where a certificate was written: PEM with certificate and key, and the same as PKCS12."""

    keystore: Path
    certificate: Path
    key: Path
    pkcs12: Path


class Certificate(NamedTuple):
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(_PEM).decode()

    def key_pem(self, password: str = "") -> str:
        form = serialization.PrivateFormat.PKCS8
        return self.key.private_bytes(_PEM, form, _lock(password)).decode()

    def write(self, directory: Path, name: str = "server", password: str = "") -> Files:
        """Write it under a name, in all the forms that Kafka's settings know."""
        files = Files(*(directory / f"{name}.{end}" for end in ("pem", "crt", "key", "p12")))
        files.certificate.write_text(self.certificate_pem, encoding="ascii")
        for has_a_key in (files.keystore, files.key, files.pkcs12):
            has_a_key.touch(0o600)
        files.key.write_text(self.key_pem(), encoding="ascii")
        files.keystore.write_text(self.key_pem() + self.certificate_pem, encoding="ascii")
        files.pkcs12.write_bytes(
            pkcs12.serialize_key_and_certificates(
                name.encode(), self.key, self.certificate, None, _lock(password)
            )
        )
        return files


class Authority:
    """An authority that nobody trusts unless told to."""

    def __init__(self, name: str = "Coterie test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = dt.datetime.now(dt.UTC)
        self._certificate = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + 30 * _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> str:
        return self._certificate.public_bytes(_PEM).decode()

    def write(self, path: Path) -> Path:
        """Write the authority's certificate, for a truststore."""
        path.write_text(self.pem, encoding="ascii")
        return path

    def write_pkcs12(self, path: Path, password: str) -> Path:
        """The same as Java's keytool makes a truststore."""
        entry = pkcs12.PKCS12Certificate(self._certificate, b"authority")
        path.write_bytes(pkcs12.serialize_java_truststore([entry], _lock(password)))
        return path

    def issue(
        self,
        name: str,
        *,
        hosts: Iterable[str] = ("127.0.0.1", "localhost"),
        organization: str = "",
        expired: bool = False,
    ) -> Certificate:
        """A certificate for a server or a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if organization:
            subject.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        now = dt.datetime.now(dt.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name(subject))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 2 * _DAY)
            .not_valid_after(now - _DAY if expired else now + 30 * _DAY)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.SubjectAlternativeName([_host(h) for h in hosts]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        return Certificate(certificate, key)


def _lock(password: str) -> serialization.KeySerializationEncryption:
    if not password:
        return serialization.NoEncryption()
    return serialization.BestAvailableEncryption(password.encode())


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
