"""The settings of a server's security, with Kafka's names: SASL, TLS and the authorizer.

A cluster that names no listeners has one per broker. It uses TLS as soon as it has a keystore, and SASL as
soon as a mechanism is enabled. With `listeners`, each listener has the protocol that its name is mapped to,
and may have its own values of some settings (`is_per_listener`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from coterie.errors import InvalidSetting
from coterie.security.principals import user
from coterie.security.scram import ScramMechanism
from coterie.security.secrets import Secret
from coterie.security.tls import Store, TlsSettings

__all__ = ["STANDARD_AUTHORIZER", "SecurityConfig", "is_per_listener"]

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

_MECHANISMS: Final = ("PLAIN", *(each.mechanism for each in ScramMechanism))


#: Next to `ssl.`: what a listener may set for itself.
_PER_LISTENER: Final = (
    "sasl.enabled.mechanisms",
    "sasl.server.max.receive.size",
    "connections.max.reauth.ms",
)


def is_per_listener(setting: str) -> bool:
    """Whether `listener.name.<name>.` may precede a setting."""
    return setting.startswith("ssl.") or setting in _PER_LISTENER


def _setting(name: str, default: Any, doc: str) -> Any:
    return field(default=default, metadata={"kafka": name, "doc": doc})


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig:
    """Who may connect, and who decides what they may do."""

    sasl_enabled_mechanisms: str = _setting(
        "sasl.enabled.mechanisms",
        "",
        "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; with any of them clients must authenticate (Kafka: GSSAPI).",
    )
    max_receive_size: int = _setting(
        "sasl.server.max.receive.size",
        131_072,
        "Largest request of a client that has not authenticated (Kafka: 524288).",
    )
    max_reauth_ms: int = _setting(
        "connections.max.reauth.ms",
        0,
        "Sessions end after so long unless the client authenticates again; 0 is never.",
    )
    failed_authentication_delay_ms: int = _setting(
        "connection.failed.authentication.delay.ms",
        100,
        "How long the answer to a failed authentication is held back.",
    )
    authentication_deadline_ms: int = _setting(
        "coterie.authentication.deadline.ms",
        10_000,
        "TLS handshake and authentication must be done by then; Kafka has no such limit.",
    )
    authorizer_class_name: str = _setting(
        "authorizer.class.name",
        "",
        f"`{STANDARD_AUTHORIZER}` turns ACLs on: what is not allowed is refused.",
    )
    super_users: str = _setting(
        "super.users", "", "Principals that may do everything: `User:admin;User:ops`."
    )
    allow_if_no_acl: bool = _setting(
        "allow.everyone.if.no.acl.found",
        False,
        "Allow what no ACL is about, to everybody.",
    )
    delegation_token_secret_key: Secret = _setting(
        "delegation.token.secret.key",
        Secret(""),
        "The key that the HMACs of delegation tokens are made with; turns tokens on.",
    )
    delegation_token_max_lifetime_ms: int = _setting(
        "delegation.token.max.lifetime.ms",
        604_800_000,
        "Longest lifetime of a delegation token, with all renewals.",
    )
    delegation_token_expiry_time_ms: int = _setting(
        "delegation.token.expiry.time.ms",
        86_400_000,
        "A delegation token expires after so long unless it is renewed.",
    )
    delegation_token_expiry_check_interval_ms: int = _setting(
        "delegation.token.expiry.check.interval.ms",
        3_600_000,
        "How often expired delegation tokens are removed.",
    )
    keystore_location: str = _setting(
        "ssl.keystore.location", "", "The server's certificate and key; turns TLS on."
    )
    keystore_type: str = _setting(
        "ssl.keystore.type", "", "PEM or PKCS12; found out if empty (Kafka: JKS)."
    )
    keystore_password: Secret = _setting(
        "ssl.keystore.password", Secret(""), "The password of a PKCS12 store."
    )
    key_password: Secret = _setting(
        "ssl.key.password", Secret(""), "The password of an encrypted PEM key."
    )
    keystore_certificate_chain: str = _setting(
        "ssl.keystore.certificate.chain", "", "The certificate as PEM text, instead of a file."
    )
    keystore_key: Secret = _setting("ssl.keystore.key", Secret(""), "The key as PEM text.")
    truststore_location: str = _setting(
        "ssl.truststore.location", "", "The authorities whose client certificates are believed."
    )
    truststore_type: str = _setting("ssl.truststore.type", "", "PEM or PKCS12.")
    truststore_password: Secret = _setting(
        "ssl.truststore.password", Secret(""), "The password of a PKCS12 store."
    )
    truststore_certificates: str = _setting(
        "ssl.truststore.certificates", "", "Authorities as PEM text, instead of a file."
    )
    client_auth: str = _setting(
        "ssl.client.auth", "none", "Whether clients show a certificate: none, requested, required."
    )
    enabled_protocols: str = _setting(
        "ssl.enabled.protocols", "TLSv1.2,TLSv1.3", "TLS 1.2 is the oldest there is."
    )
    cipher_suites: str = _setting("ssl.cipher.suites", "", "OpenSSL's or Java's names.")
    principal_mapping_rules: str = _setting(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        "How the subject of a client's certificate becomes a user name.",
    )

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The SASL mechanisms, in the order in which they were given."""
        names = [each.strip().upper() for each in self.sasl_enabled_mechanisms.split(",")]
        found = tuple(dict.fromkeys(each for each in names if each))
        for name in found:
            if name not in _MECHANISMS:
                raise InvalidSetting(
                    f"sasl.enabled.mechanisms takes {', '.join(_MECHANISMS)}, not {name!r}"
                )
        return found

    @property
    def authorizer_is_on(self) -> bool:
        if self.authorizer_class_name not in ("", STANDARD_AUTHORIZER):
            raise InvalidSetting(
                f"authorizer.class.name takes {STANDARD_AUTHORIZER} or nothing, "
                f"not {self.authorizer_class_name!r}"
            )
        return bool(self.authorizer_class_name)

    @property
    def super_principals(self) -> tuple[str, ...]:
        names = [each.strip() for each in self.super_users.split(";") if each.strip()]
        # A bare name is meant as a user's; Kafka would ignore it without a word.
        return tuple(each if ":" in each else user(each) for each in names)

    @property
    def tls(self) -> TlsSettings | None:
        """What TLS needs, or None for a listener in plain text."""
        keystore = Store(
            setting="ssl.keystore.location",
            location=self.keystore_location,
            type=self.keystore_type,
            password=self.keystore_password,
            key_password=self.key_password,
            certificates=self.keystore_certificate_chain,
            key=self.keystore_key,
        )
        if not keystore:
            return None
        return TlsSettings(
            keystore=keystore,
            truststore=Store(
                setting="ssl.truststore.location",
                location=self.truststore_location,
                type=self.truststore_type,
                password=self.truststore_password,
                certificates=self.truststore_certificates,
            ),
            enabled_protocols=self.enabled_protocols,
            cipher_suites=self.cipher_suites,
            client_auth=self.client_auth.lower(),
        )
