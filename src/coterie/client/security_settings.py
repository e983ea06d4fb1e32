"""The security settings of a client: Java's names and librdkafka's, checked and kept, with secrets hidden.

What they mean is in coterie.client.security, which is loaded only where one of them is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from coterie.errors import InvalidSetting
from coterie.security.secrets import Secret

__all__ = ["SECURITY_NAMES", "SecuritySettings"]

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

#: Settings whose values are secret.
_SECRETS: Final = frozenset({
    "sasl.jaas.config",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config",
    "sasl.password",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.truststore.password",
})  # fmt: skip

SECURITY_NAMES: Final = _SECRETS | {
    "enable.ssl.certificate.verification",
    "oauth.cb",
    "sasl.login.callback.handler.class",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.username",
    "security.protocol",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.protocol",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.type",
}


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """What was set, by dotted name. A secret is a Secret; `oauth.cb` is a function."""

    values: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, properties: Mapping[str, object]) -> SecuritySettings:
        """Settings by dotted name, all of them in SECURITY_NAMES."""
        found: dict[str, object] = {}
        for name, value in properties.items():
            if value is None:
                continue
            if name == "oauth.cb":
                if not callable(value):
                    raise InvalidSetting("oauth_cb takes a function that returns (token, expiry)")
                found[name] = value
            elif isinstance(value, Secret):
                found[name] = value if name in _SECRETS else value.reveal()
            else:
                found[name] = Secret(str(value)) if name in _SECRETS else str(value).strip()
        settings = cls(found)
        settings._check()
        return settings

    def _check(self) -> None:
        protocol = self.text("security.protocol", "PLAINTEXT").upper()
        if protocol not in _PROTOCOLS:
            raise InvalidSetting(
                f"security.protocol takes {', '.join(_PROTOCOLS)}, not {protocol!r}"
            )
        if self.sasl and self.mechanism not in _MECHANISMS:
            given = f", not {self.mechanism!r}" if self.mechanism else ""
            raise InvalidSetting(
                f"sasl.mechanism takes {', '.join(_MECHANISMS)}{given}; set it, since "
                f"security.protocol is {protocol}"
            )

    @property
    def protocol(self) -> str:
        return self.text("security.protocol", "PLAINTEXT").upper()

    @property
    def tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def mechanism(self) -> str:
        return (self.text("sasl.mechanism") or self.text("sasl.mechanisms")).upper()

    def text(self, name: str, default: str = "") -> str:
        return str(self.values.get(name, default))

    def secret(self, name: str) -> Secret:
        found = self.values.get(name)
        return found if isinstance(found, Secret) else Secret("")
