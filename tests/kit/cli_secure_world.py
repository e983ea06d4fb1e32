"""The world of the transcripts `acl-*`: users with few rights, or none, and groups that they ask about."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Final, Self

from coterie.client import AdminClient
from coterie.protocol.messages.acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from coterie.security.plain import PlainClient
from coterie.security.secrets import Secret
from tests.kit.cli_members import SETTINGS, ClassicMember, ConsumerMember, settle
from tests.kit.cli_world import at_end, beat_until_settled, produce
from tests.kit.kafka import KafkaCluster
from tests.kit.wire_client import WireClient

__all__ = ["PASSWORDS", "SecureWorld", "secure_kafka"]

_TOPIC, _GROUP, _CLUSTER = 2, 3, 4
_LITERAL, _PREFIX = 3, 4
_READ, _DELETE, _DESCRIBE = 3, 6, 8
_DENY, _ALLOW = 2, 3

_OURS: Final = (_GROUP, "acl-", _PREFIX)
_ALL_TOPICS: Final = (_TOPIC, "*", _LITERAL)
#: Users and their rights: resource, its name, how the name is meant, the operation, and whether allowed.
_RIGHTS: Final[dict[str, list[tuple[int, str, int, int, int]]]] = {
    "admin": [],
    "alice": [],
    "cldesc": [(_CLUSTER, "kafka-cluster", _LITERAL, _DESCRIBE, _ALLOW)],
    "del": [(*_OURS, _DELETE, _ALLOW)],
    "delt": [(*_OURS, _DELETE, _ALLOW), (_TOPIC, "orders", _LITERAL, _READ, _ALLOW)],
    "denied": [
        (_GROUP, "*", _LITERAL, _DESCRIBE, _ALLOW),
        (*_ALL_TOPICS, _DESCRIBE, _ALLOW),
        (_GROUP, "acl-stable", _LITERAL, _DESCRIBE, _DENY),
    ],
    "dora": [(*_OURS, _DESCRIBE, _ALLOW)],
    "dorat": [(*_OURS, _DESCRIBE, _ALLOW), (*_ALL_TOPICS, _DESCRIBE, _ALLOW)],
    "one": [(_GROUP, "acl-empty", _LITERAL, _DESCRIBE, _ALLOW)],
    "reset": [(*_OURS, _READ, _ALLOW), (*_ALL_TOPICS, _READ, _ALLOW)],
}
PASSWORDS: Final = {user: f"{user}-pw" for user in _RIGHTS}
_LOGIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def secure_kafka() -> KafkaCluster:
    """Apache Kafka with an authorizer and a listener SASL; not yet started."""
    users = " ".join(f'user_{user}="{word}"' for user, word in PASSWORDS.items())
    config = {
        **SETTINGS,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # The kit's own listener has no users: who comes in there is nobody.
        "super.users": "User:admin;User:ANONYMOUS",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": f"{_LOGIN} {users};",
    }
    return KafkaCluster(config=config, listeners={"SASL": "SASL_PLAINTEXT"})


class SecureWorld:
    """All of it, made by the super user over SASL."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.partition(":")
        self.bootstrap = bootstrap
        self.absent: set[str] = set()
        self._address = (host, int(port))
        self._alive: list[WireClient] = []
        self._wire = self._connect("world")

    def _connect(self, client_id: str) -> WireClient:
        client = WireClient(*self._address, client_id=client_id)
        self._alive.append(client)
        answer = client.authenticate(PlainClient("admin", Secret(PASSWORDS["admin"])))
        assert not answer.error_code, answer
        return client

    def __enter__(self) -> Self:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{_LOGIN} username="admin" password="{PASSWORDS["admin"]}";',
        }
        orders, payments = at_end("orders", 2, 10), at_end("payments", 1, 5)
        with AdminClient.connect(settings) as admin:
            admin.create_topics({"orders": 2, "payments": 1}).unwrap()
            now = int(time.time() * 1000)
            for index in range(2):
                produce(self._wire, "orders", index, [now] * 10)
            produce(self._wire, "payments", 0, [now] * 5)
            admin.alter_offsets(
                {
                    "acl-stable": orders,
                    "acl-empty": orders | payments,
                    "acl-gone-1": payments,
                    "acl-gone-2": payments,
                    "other-empty": orders,
                }
            ).unwrap()
        settle(
            [ClassicMember(self._connect, "acl-stable", "svc", ("orders",))], [{"orders": (0, 1)}]
        )
        member = ConsumerMember(self._connect, "acl-848", "k848", ("orders",))
        beat_until_settled([member])
        member.commit({(each.topic, each.partition): at.offset for each, at in orders.items()})
        self._make_acls()
        return self

    def _make_acls(self) -> None:
        creations = tuple(
            AclCreation(kind, name, pattern, f"User:{user}", "*", operation, permission)
            for user, rights in _RIGHTS.items()
            for kind, name, pattern, operation, permission in rights
        )
        answer = self._wire.ask(CreateAclsRequest(creations), CreateAclsResponse)
        assert not any(each.error_code for each in answer.results), answer

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for client in self._alive:
            client.close()
