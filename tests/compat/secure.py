"""A secured Apache Kafka 4.3.0, and a secured cluster of ours: the same users, ACLs and certificates on both.

Kafka keeps the kit's listener in plain text, whose principal is a super user, for the kit and for setting up;
tests use the listeners SASL (SASL_PLAINTEXT), SECURE (SASL_SSL), MUTUAL (SSL with client certificates),
TOKENS (OAUTHBEARER) and SHORT (SASL_PLAINTEXT whose sessions end after a second and a half).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from coterie.protocol.messages.acls import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from coterie.security.plain import PlainClient
from coterie.security.scram import ScramMechanism
from coterie.security.secrets import Secret
from coterie.testing.certificates import Authority, Files
from tests.kit.kafka import KafkaCluster
from tests.kit.wire_client import WireClient

__all__ = [
    "MAPPING_RULES",
    "STORE_PASSWORD",
    "Certificates",
    "add_scram_users",
    "login",
    "secure_kafka",
]

STORE_PASSWORD: Final = "store-hush"
#: The user is the common name of certificates that Acme issued.
MAPPING_RULES: Final = "RULE:^CN=(.*?),OU=tests,O=Acme$/$1/L,DEFAULT"
_MECHANISMS: Final = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


class Certificates:
    """An authority and what it issued, on disk."""

    def __init__(self, directory: Path) -> None:
        authority = Authority()
        self.authority = authority.write(directory / "authority.pem")
        self.truststore = authority.write_pkcs12(directory / "trust.p12", STORE_PASSWORD)
        self.server: Files = authority.issue("127.0.0.1").write(directory, "server", STORE_PASSWORD)
        self.client: Files = authority.issue("alice", organization="Acme").write(
            directory, "client", STORE_PASSWORD
        )


def secure_kafka(
    certificates: Certificates, users: Mapping[str, str], settings: Mapping[str, str] | None = None
) -> KafkaCluster:
    """Not yet started. PLAIN users are in its configuration; SCRAM users are added over the wire."""
    logins = " ".join(f'user_{name}="{word}"' for name, word in users.items())
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        "sasl.enabled.mechanisms": _MECHANISMS,
        "ssl.keystore.location": str(certificates.server.pkcs12),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.truststore.location": str(certificates.truststore),
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.password": STORE_PASSWORD,
        "ssl.principal.mapping.rules": MAPPING_RULES,
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.tokens.oauthbearer.sasl.jaas.config": (
            f'{_OAUTH} required unsecuredLoginStringClaim_sub="broker";'
        ),
    }
    config |= settings or {}
    for mechanism in ("plain", "scram-sha-512"):
        config[f"listener.name.short.{mechanism}.connections.max.reauth.ms"] = "1500"
    for listener in ("sasl", "secure", "short"):
        prefix = f"listener.name.{listener}"
        config[f"{prefix}.plain.sasl.jaas.config"] = f"{_PLAIN} required {logins};"
        for name in ("scram-sha-256", "scram-sha-512"):
            config[f"{prefix}.{name}.sasl.jaas.config"] = f"{_SCRAM} required;"
    listeners = {
        "SASL": "SASL_PLAINTEXT",
        "SECURE": "SASL_SSL",
        "MUTUAL": "SSL",
        "TOKENS": "SASL_PLAINTEXT",
        "SHORT": "SASL_PLAINTEXT",
    }
    return KafkaCluster(config=config, listeners=listeners)


def add_scram_users(client: WireClient, users: Mapping[str, str]) -> None:
    upsertions = []
    for name, word in users.items():
        mechanism, salt = ScramMechanism.SHA_512, name.encode().ljust(16)
        salted = mechanism.salted(word, salt, 4096)
        upsertions.append(ScramCredentialUpsertion(name, mechanism.code, 4096, salt, salted))
    answer = client.ask(
        AlterUserScramCredentialsRequest(upsertions=tuple(upsertions)),
        AlterUserScramCredentialsResponse,
    )
    assert not any(each.error_code for each in answer.results), answer


def login(address: tuple[str, int], user: str, password: str) -> WireClient:
    """A wire client that has authenticated by PLAIN."""
    client = WireClient(*address)
    answer = client.authenticate(PlainClient(user, Secret(password)))
    assert not answer.error_code, answer
    return client
