"""Delegation tokens of a cluster (KIP-48), as records of the cluster's log.

A record has no HMAC. As in Kafka, the HMAC is computed from the token's id with delegation.token.secret.key,
and clients log in over SCRAM with the id as user name and the HMAC in base 64 as password. The order of the
checks is that of Kafka's DelegationTokenControlManager.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from coterie.error_codes import ErrorCode
from coterie.protocol.metadata_records import (
    DelegationTokenRecord,
    MetadataRecord,
    RemoveDelegationTokenRecord,
)
from coterie.protocol.types import Uuid
from coterie.security.scram import (
    ScramCredential,
    ScramMechanism,
    TokenLogin,
    invented_credential,
    new_credential,
    stable_salt,
)
from coterie.server.clock import Clock
from coterie.server.metadata.cluster_log import ClusterLog
from coterie.server.settings.security import SecurityConfig
from coterie.storage.errors import StorageError

__all__ = ["DelegationTokens", "TokenRefused"]

log = logging.getLogger("coterie.server")

#: The latest time that a record can have.
_FOREVER: Final = 2**63 - 1


class TokenRefused(Exception):
    """Why a token cannot be created, renewed or expired."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


class DelegationTokens:
    """The tokens by id; one for all brokers of a cluster."""

    def __init__(
        self,
        config: SecurityConfig,
        cluster_log: ClusterLog,
        clock: Clock,
        *,
        invention_key: bytes,
        new_uuid: Callable[[], Uuid],
    ) -> None:
        self._config = config
        self._secret_key = config.delegation_token_secret_key.reveal().encode()
        self._log = cluster_log
        cluster_log.attach(self)
        self._clock = clock
        self._invention_key = invention_key
        self._new_uuid = new_uuid
        self._tokens: dict[str, DelegationTokenRecord] = {}
        self._ids: dict[bytes, str] = {}
        self._credentials: dict[tuple[str, ScramMechanism], ScramCredential] = {}

    @property
    def enabled(self) -> bool:
        return bool(self._secret_key)

    # -- the log --------------------------------------------------------------------------------------

    @property
    def record_types(self) -> Sequence[type[MetadataRecord]]:
        return (DelegationTokenRecord, RemoveDelegationTokenRecord)

    def records(self) -> Iterator[MetadataRecord]:
        """The present tokens."""
        yield from self

    def replay(self, record: DelegationTokenRecord | RemoveDelegationTokenRecord) -> None:
        """Apply a record. A removal of an unknown token changes nothing."""
        token_id = record.token_id
        if isinstance(record, DelegationTokenRecord):
            self._tokens[token_id] = record
            self._ids[self.hmac(token_id)] = token_id
        elif self._tokens.pop(token_id, None) is not None:
            del self._ids[self.hmac(token_id)]
            for mechanism in ScramMechanism:
                self._credentials.pop((token_id, mechanism), None)

    # -- requests -------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[DelegationTokenRecord]:
        return iter(self._tokens.values())

    def hmac(self, token_id: str) -> bytes:
        """The secret of a token: whoever has it can log in as the token's owner."""
        return hmac.digest(self._secret_key, token_id.encode(), "sha512")

    def create(
        self, requester: str, owner: str, renewers: tuple[str, ...], max_lifetime_ms: int
    ) -> DelegationTokenRecord:
        """A new token, durable when this returns. A lifetime of 0 or less means the longest possible."""
        self._check_enabled()
        now = self._clock.now_ms()
        lifetime = _limited(max_lifetime_ms, self._config.delegation_token_max_lifetime_ms)
        latest = min(now + lifetime, _FOREVER)
        expiry = min(latest, now + self._config.delegation_token_expiry_time_ms)
        token_id = str(self._new_uuid())
        return self._put(
            DelegationTokenRecord(owner, requester, renewers, now, latest, expiry, token_id)
        )

    def renew(self, secret: bytes, principal: str, period_ms: int) -> DelegationTokenRecord:
        """Let a token expire later. A period of 0 or less means the longest possible."""
        token = self._find(secret)
        self._check_alive(token)
        _check_renewer(token, principal)
        period = _limited(period_ms, self._config.delegation_token_expiry_time_ms)
        return self._expire_after(token, period)

    def expire(self, secret: bytes, principal: str, period_ms: int) -> DelegationTokenRecord:
        """Change when a token expires; a negative period removes it at once."""
        token = self._find(secret)
        _check_renewer(token, principal)
        if period_ms < 0:
            self._log.change([RemoveDelegationTokenRecord(token.token_id)])
            return msgspec.structs.replace(token, expiration_timestamp=self._clock.now_ms())
        self._check_alive(token)
        return self._expire_after(token, period_ms)

    def _check_enabled(self) -> None:
        if not self.enabled:
            raise TokenRefused(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)

    def _find(self, secret: bytes) -> DelegationTokenRecord:
        self._check_enabled()
        token_id = self._ids.get(secret)
        if token_id is None:
            raise TokenRefused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return self._tokens[token_id]

    def _check_alive(self, token: DelegationTokenRecord) -> None:
        if _is_expired(token, self._clock.now_ms()):
            raise TokenRefused(ErrorCode.DELEGATION_TOKEN_EXPIRED)

    def _expire_after(self, token: DelegationTokenRecord, period_ms: int) -> DelegationTokenRecord:
        expiry = min(token.max_timestamp, self._clock.now_ms() + period_ms)
        return self._put(msgspec.structs.replace(token, expiration_timestamp=expiry))

    def _put(self, token: DelegationTokenRecord) -> DelegationTokenRecord:
        self._log.change([token])
        return token

    # -- logins ---------------------------------------------------------------------------------------

    def login(self, token_id: str, mechanism: ScramMechanism) -> TokenLogin:
        """What a client needs to log in with this token; made up if the token does not exist."""
        token = self._tokens.get(token_id) if self.enabled else None
        if token is None:
            made_up = invented_credential(mechanism, token_id, self._invention_key)
            return TokenLogin(token_id, made_up, None)
        key = token_id, mechanism
        if key not in self._credentials:
            password = base64.b64encode(self.hmac(token_id)).decode()
            salt = stable_salt(mechanism, token_id, self._invention_key)
            self._credentials[key] = new_credential(mechanism, password, salt=salt)
        owner = token.owner.partition(":")[2]
        return TokenLogin(owner, self._credentials[key], token.expiration_timestamp)

    # -- time -----------------------------------------------------------------------------------------

    def remove_expired(self) -> None:
        now = self._clock.now_ms()
        expired = [each for each in self if _is_expired(each, now)]
        self._log.change([RemoveDelegationTokenRecord(each.token_id) for each in expired])
        for each in expired:
            log.info("delegation token %s of %s has expired", each.token_id, each.owner)

    async def keep_removing_expired(self) -> None:
        """Run until cancelled. A failure is logged, and the next interval tries again."""
        while True:
            await asyncio.sleep(self._config.delegation_token_expiry_check_interval_ms / 1000)
            try:
                self.remove_expired()
            except StorageError as error:
                log.warning("expired delegation tokens could not be removed: %s", error)


def _limited(wanted: int, limit: int) -> int:
    return min(wanted, limit) if wanted > 0 else limit


def _is_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    return token.max_timestamp < now_ms or token.expiration_timestamp < now_ms


def _check_renewer(token: DelegationTokenRecord, principal: str) -> None:
    if principal != token.owner and principal not in token.renewers:
        raise TokenRefused(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
