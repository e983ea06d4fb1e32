"""The rules of delegation tokens (KIP-48, KIP-373): tokens for other owners, and which tokens are visible."""

from __future__ import annotations

from typing import cast

from msgspec.structs import replace

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribeDelegationTokenResponse,
)
from coterie.protocol.schema import Response
from coterie.security.acls import Operation, ResourceType
from coterie.server.security.guard import Guard, Need, Needs, Rule

__all__ = ["CreateTokenRule", "DescribeTokensRule", "created_token", "owner_of", "refused_creation"]

_CREATE, _DESCRIBE_ALL, _USER = (
    Operation.CREATE_TOKENS,
    Operation.DESCRIBE_TOKENS,
    ResourceType.USER,
)
_DESCRIBE, _TOKEN = Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN


class CreateTokenRule(Rule):
    """CreateTokens on the owner, unless clients create tokens for themselves."""

    @property
    def needs(self) -> Needs:
        return (Need(_CREATE, _USER, "for another owner"),)

    def apply(self, guard: Guard, /) -> None:
        request = cast("CreateDelegationTokenRequest", guard.call.request)
        requester = guard.principal
        owner = owner_of(request, requester)
        if owner in (None, requester) or not guard.call.connection.may_manage_tokens:
            return
        if not guard.allows(_CREATE, _USER, owner):
            guard.refused(_CREATE, _USER, (owner,))
            error = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
            guard.answer(refused_creation(guard.call.version, owner, requester, error))


class DescribeTokensRule(Rule):
    """Owners and renewers see a token, and so does who may describe it or all tokens of its owner."""

    @property
    def needs(self) -> Needs:
        return (
            Need(_DESCRIBE, _TOKEN, "tokens of others are left out; or"),
            Need(_DESCRIBE_ALL, _USER),
        )

    def finish(self, guard: Guard, response: Response, /) -> Response:
        answer = cast("DescribeDelegationTokenResponse", response)
        seen = tuple(each for each in answer.tokens if self._may_see(guard, each))
        return replace(answer, tokens=seen)

    @staticmethod
    def _may_see(guard: Guard, token: DescribedDelegationToken) -> bool:
        owner = f"{token.principal_type}:{token.principal_name}"
        renewers = (f"{each.principal_type}:{each.principal_name}" for each in token.renewers)
        return (
            guard.principal in (owner, *renewers)
            or guard.allows(_DESCRIBE, _TOKEN, token.token_id)
            or guard.allows(_DESCRIBE_ALL, _USER, owner)
        )


def owner_of(request: CreateDelegationTokenRequest, requester: str) -> str | None:
    """The principal that will own the token; None if the request has its name without its type."""
    if not request.owner_principal_name:
        return requester
    if request.owner_principal_type is None:
        return None
    return f"{request.owner_principal_type}:{request.owner_principal_name}"


def created_token(
    version: int, owner: str, requester: str, *, error_code: int = 0
) -> CreateDelegationTokenResponse:
    """The response about a token of this owner, without the token."""
    owner_type, _, owner_name = owner.partition(":")
    # Version 3 added the requester (KIP-373).
    requester_type, _, requester_name = (requester if version >= 3 else "").partition(":")
    return CreateDelegationTokenResponse(
        error_code=error_code,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
    )


def refused_creation(
    version: int, owner: str, requester: str, error: ErrorCode
) -> CreateDelegationTokenResponse:
    """The refusal by a broker; the controller's has times of 0."""
    return replace(
        created_token(version, owner, requester, error_code=error),
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
