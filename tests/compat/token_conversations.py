"""Requests about delegation tokens whose answers Kafka determines."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from coterie.protocol.kafka_json import to_json
from coterie.protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from coterie.protocol.schema import Request, Response
from tests.kit.wire_client import WireClient

__all__ = ["DAY", "TokenTalk", "create", "describe", "wait_for_tokens"]

Connect = Callable[[str], WireClient]

DAY: Final = 86_400_000
_LONGEST: Final = 2**63 - 1
_DEADLINE_SECONDS: Final = 30
#: Times are compared in steps: two runs do not take the same time.
_STEP_MS: Final = 600_000


def create(
    owner: str | None = "", *renewers: str, kind: str | None = "User", lifetime: int = -1
) -> CreateDelegationTokenRequest:
    named = (each.partition(":") for each in renewers)
    return CreateDelegationTokenRequest(
        kind if owner else "",
        owner,
        tuple(CreatableRenewers(each, name) for each, _, name in named),
        lifetime,
    )


def describe(*owners: str) -> DescribeDelegationTokenRequest:
    named = (each.partition(":") for each in owners)
    return DescribeDelegationTokenRequest(
        tuple(DescribeDelegationTokenOwner(kind, name) for kind, _, name in named)
    )


_ALL: Final = DescribeDelegationTokenRequest(None)


def wait_for_tokens(client: WireClient, *hmacs: bytes, gone: bool = False) -> None:
    """A Kafka broker applies what it reads in the controller's log, which may be a moment late."""
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while True:
        answer = client.ask(_ALL, DescribeDelegationTokenResponse)
        known = {each.hmac for each in answer.tokens}
        if not known & set(hmacs) if gone else known >= set(hmacs):
            return
        assert time.monotonic() < deadline, answer


class TokenTalk:
    """A conversation of several users with one cluster; `answers` are free of what differs by run."""

    def __init__(self, connect: Connect) -> None:
        self.answers: dict[str, Any] = {}
        self._connect = connect
        self._began = int(time.time() * 1000)
        self._names: dict[object, str] = {}

    def ask(self, title: str, user: str, request: Request, version: int | None = None) -> Response:
        """Send a request as a user; `user` is empty for a client that does not authenticate."""
        with self._connect(user) as client:
            answer = client.ask(request, Response, version)
        if version is None:
            version = type(answer).__versions__.highest
        self.answers[title] = self._steady(to_json(answer, version))
        return answer

    def _steady(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._field(key, item) for key, item in value.items()}
        if isinstance(value, list):
            return sorted((self._steady(item) for item in value), key=repr)
        return value

    def _field(self, key: str, value: Any) -> Any:
        if key in {"tokenId", "hmac"}:
            return self._names.setdefault(value, f"{key} {len(self._names)}") if value else value
        if "imestamp" in key and value > 0:
            return round((value - self._began) / _STEP_MS)
        return self._steady(value)

    def refusals(self) -> None:
        """Requests without effect; the cluster has the users alice, bob and admin, a super user."""
        for version in (1, 2, 3):
            self.ask(f"without authentication, create {version}", "", create(), version)
            self.ask(f"without authentication, describe {version}", "", _ALL, version)
        for version in (1, 2):
            renew, expire = (
                RenewDelegationTokenRequest(b"x", 5),
                ExpireDelegationTokenRequest(b"", 5),
            )
            self.ask(f"without authentication, renew {version}", "", renew, version)
            self.ask(f"without authentication, expire {version}", "", expire, version)
            for secret in (b"", b"x" * 64):
                for period in (-1, 0, 5):
                    title = f"unknown token {len(secret)} {period} v{version}"
                    renewal = RenewDelegationTokenRequest(secret, period)
                    self.ask(f"renew {title}", "alice", renewal, version)
                    expiry = ExpireDelegationTokenRequest(secret, period)
                    self.ask(f"expire {title}", "alice", expiry, version)
        self.ask("for an owner without a type", "alice", create("bob", kind=None))
        self.ask("without authentication, an owner without a type", "", create("bob", kind=None))
        self.ask("for another owner", "alice", create("bob"))
        self.ask("for another owner, bad renewer", "alice", create("bob", "Group:x"))
        self.ask("for an owner of another type", "alice", create("alice", kind="Group"))
        for version in (1, 2, 3):
            self.ask(f"renewer of another type v{version}", "alice", create("", "Group:x"), version)
        self.ask("renewer without a type", "alice", create("", "User:bob", ":x"))

    def creations(self) -> list[bytes]:
        """Tokens of every kind; their HMACs."""
        made = [
            self.ask("create", "alice", create()),
            self.ask("create v1", "alice", create(), 1),
            self.ask("create v2", "alice", create("", "User:bob", "User:bob"), 2),
            self.ask("create for an hour", "alice", create(lifetime=3_600_000)),
            self.ask("create for three days", "alice", create(lifetime=3 * DAY)),
            self.ask("create for a year", "alice", create(lifetime=365 * DAY)),
            self.ask("create for ever", "alice", create(lifetime=_LONGEST)),
            self.ask("create for no time", "alice", create(lifetime=0)),
            self.ask("create for less than no time", "alice", create(lifetime=-5)),
            self.ask("create with null", "alice", create(None)),
            self.ask("create for oneself", "alice", create("alice")),
            self.ask("create for another owner", "admin", create("bob", "User:alice")),
            self.ask("create for a new owner", "admin", create("no such user", "User:")),
            self.ask("create for a group", "admin", create("bob", kind="Group")),
        ]
        secrets = [each.hmac for each in made if isinstance(each, CreateDelegationTokenResponse)]
        assert all(len(each) == 64 for each in secrets), made
        return secrets

    def descriptions(self) -> None:
        for user in ("alice", "bob", "admin"):
            self.ask(f"describe all as {user}", user, _ALL)
            for version in (1, 2, 3):
                self.ask(f"describe none as {user} v{version}", user, describe(), version)
                one = describe("User:alice")
                self.ask(f"describe alice as {user} v{version}", user, one, version)
            self.ask(f"describe two as {user}", user, describe("User:bob", "Group:bob"))
            self.ask(f"describe nobody as {user}", user, describe("User:nobody", ":bob", "User:"))

    def changes(self, mine: bytes, renewable: bytes, other: bytes) -> None:
        """Renewals and expiries: of alice's token, of one that bob renews, and of one of bob."""
        for title, user, secret in (
            ("mine", "alice", mine),
            ("another's", "bob", mine),
            ("a super user's", "admin", mine),
            ("as renewer", "bob", renewable),
            ("as requester", "admin", other),
        ):
            for period in (0, -1, 3_600_000, 365 * DAY, _LONGEST):
                self.ask(
                    f"renew {title} {period}", user, RenewDelegationTokenRequest(secret, period)
                )
            for period in (3_600_000, _LONGEST):
                expiry = ExpireDelegationTokenRequest(secret, period)
                self.ask(f"expire {title} {period}", user, expiry)
        wrong = ExpireDelegationTokenRequest(mine, -1)
        self.ask("remove another's", "bob", wrong)
        self.ask("remove v1", "bob", ExpireDelegationTokenRequest(renewable, -1), 1)
        self.ask("remove", "alice", ExpireDelegationTokenRequest(mine, -(2**63)))
