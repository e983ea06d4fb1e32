"""Delegation tokens (KIP-48): CreateDelegationToken, Renew-, Expire- and DescribeDelegationToken."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from coterie.protocol.metadata_records import DelegationTokenRecord
from coterie.protocol.schema import Response
from coterie.security.principals import ANONYMOUS
from coterie.server.requests.calls import Call
from coterie.server.security.delegation_tokens import TokenRefused
from coterie.server.security.token_rules import created_token, owner_of, refused_creation
from coterie.server.services import Services

__all__ = [
    "create_delegation_token",
    "describe_delegation_token",
    "expire_delegation_token",
    "renew_delegation_token",
]

_NOT_ALLOWED: Final = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def create_delegation_token(
    services: Services, call: Call, request: CreateDelegationTokenRequest
) -> Response:
    """CreateDelegationToken 1-3."""
    version, requester = call.version, call.connection.principal
    owner = owner_of(request, requester)
    if owner is None:
        # Kafka fails on such a request before it looks at who sent it.
        return refused_creation(version, ANONYMOUS, ANONYMOUS, ErrorCode.UNKNOWN_SERVER_ERROR)
    if not call.connection.may_manage_tokens:
        return refused_creation(version, owner, requester, _NOT_ALLOWED)
    if any(each.principal_type != "User" for each in request.renewers):
        return refused_creation(version, owner, requester, ErrorCode.INVALID_PRINCIPAL_TYPE)
    renewers = tuple(f"User:{each.principal_name}" for each in request.renewers)
    tokens = services.security.tokens
    try:
        token = tokens.create(requester, owner, renewers, request.max_lifetime_ms)
    except TokenRefused as refused:
        return created_token(version, owner, requester, error_code=refused.error)
    _audited(call, token)
    return replace(
        created_token(version, owner, requester),
        issue_timestamp_ms=token.issue_timestamp,
        expiry_timestamp_ms=token.expiration_timestamp,
        max_timestamp_ms=token.max_timestamp,
        token_id=token.token_id,
        hmac=tokens.hmac(token.token_id),
    )


def renew_delegation_token(
    services: Services, call: Call, request: RenewDelegationTokenRequest
) -> Response:
    """RenewDelegationToken 1-2."""
    connection, tokens = call.connection, services.security.tokens
    if not connection.may_manage_tokens:
        return RenewDelegationTokenResponse(_NOT_ALLOWED, -1)
    try:
        token = tokens.renew(request.hmac, connection.principal, request.renew_period_ms)
    except TokenRefused as refused:
        return RenewDelegationTokenResponse(refused.error)
    _audited(call, token)
    return RenewDelegationTokenResponse(expiry_timestamp_ms=token.expiration_timestamp)


def expire_delegation_token(
    services: Services, call: Call, request: ExpireDelegationTokenRequest
) -> Response:
    """ExpireDelegationToken 1-2."""
    connection, tokens = call.connection, services.security.tokens
    if not connection.may_manage_tokens:
        return ExpireDelegationTokenResponse(_NOT_ALLOWED, -1)
    try:
        token = tokens.expire(request.hmac, connection.principal, request.expiry_time_period_ms)
    except TokenRefused as refused:
        return ExpireDelegationTokenResponse(refused.error)
    _audited(call, token)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=token.expiration_timestamp)


def _audited(call: Call, token: DelegationTokenRecord) -> None:
    """Name the token in the audit log: requests have its HMAC only, which is a secret."""
    if call.guard is not None:
        call.guard.changes = ("DelegationToken", (token.token_id,))


def describe_delegation_token(
    services: Services, call: Call, request: DescribeDelegationTokenRequest
) -> Response:
    """DescribeDelegationToken 1-3: tokens that the caller may not see are left out afterwards."""
    tokens = services.security.tokens
    if not call.connection.may_manage_tokens:
        return DescribeDelegationTokenResponse(_NOT_ALLOWED)
    if not tokens.enabled:
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    wanted = {f"{each.principal_type}:{each.principal_name}" for each in request.owners or ()}
    return DescribeDelegationTokenResponse(
        tokens=tuple(
            _described(each, tokens.hmac(each.token_id), call.version)
            for each in tokens
            # As in Kafka, the owners of the request are also looked for among the renewers.
            if request.owners is None or wanted & {each.owner, *each.renewers}
        )
    )


def _described(
    token: DelegationTokenRecord, secret: bytes, version: int
) -> DescribedDelegationToken:
    owner_type, _, owner_name = token.owner.partition(":")
    # Version 3 added the requester (KIP-373).
    requester_type, _, requester_name = (token.requester if version >= 3 else "").partition(":")
    renewers = (each.partition(":") for each in token.renewers)
    return DescribedDelegationToken(
        owner_type,
        owner_name,
        requester_type,
        requester_name,
        token.issue_timestamp,
        token.expiration_timestamp,
        token.max_timestamp,
        token.token_id,
        secret,
        tuple(DescribedDelegationTokenRenewer(kind, name) for kind, _, name in renewers),
    )
