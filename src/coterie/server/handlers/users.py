"""Users: DescribeUserScramCredentials, AlterUserScramCredentials (KIP-554). Keys never leave the server."""

from __future__ import annotations

from collections import Counter
from typing import Final

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.acls import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from coterie.protocol.schema import Response
from coterie.security.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
)
from coterie.server.requests.calls import Call
from coterie.server.security.cluster_security import ClusterSecurity
from coterie.server.services import Services

__all__ = ["alter_users", "describe_users"]

_Change = ScramCredentialDeletion | ScramCredentialUpsertion

_MECHANISMS: Final = {each.code: each for each in ScramMechanism}
_TWICE: Final = "A user credential cannot be altered twice in the same request"


def describe_users(
    services: Services, call: Call, request: DescribeUserScramCredentialsRequest
) -> Response:
    """DescribeUserScramCredentials 0: mechanisms and iterations."""
    known: dict[str, list[CredentialInfo]] = {}
    for (name, mechanism), credential in services.security.users:
        info = CredentialInfo(mechanism.code, credential.iterations)
        known.setdefault(name, []).append(info)
    asked = [each.name for each in request.users or ()] or list(known)
    times = Counter(asked)
    return DescribeUserScramCredentialsResponse(
        error_message=None,
        results=tuple(_described(name, times[name], known.get(name)) for name in times),
    )


def _described(
    name: str, times: int, infos: list[CredentialInfo] | None
) -> DescribeUserScramCredentialsResult:
    if times > 1:
        return DescribeUserScramCredentialsResult(
            name,
            ErrorCode.DUPLICATE_RESOURCE,
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    if infos is None:
        return DescribeUserScramCredentialsResult(
            name,
            ErrorCode.RESOURCE_NOT_FOUND,
            f"Attempt to describe a user credential that does not exist: {name}",
        )
    return DescribeUserScramCredentialsResult(name, ErrorCode.NONE, None, tuple(infos))


def alter_users(
    services: Services, call: Call, request: AlterUserScramCredentialsRequest
) -> Response:
    """AlterUserScramCredentials 0: all that can be done is done at once, and saved."""
    security = services.security
    asked: list[_Change] = [*request.deletions, *request.upsertions]
    times = Counter(each.name for each in asked)
    errors: dict[str, tuple[ErrorCode, str]] = {}
    changes: dict[tuple[str, ScramMechanism], ScramCredential | None] = {}
    for each in asked:
        wrong = _why_not(security, each, times[each.name])
        if wrong is not None:
            errors.setdefault(each.name, wrong)
            continue
        mechanism = _MECHANISMS[each.mechanism]
        if isinstance(each, ScramCredentialDeletion):
            changes[each.name, mechanism] = None
        else:
            changes[each.name, mechanism] = ScramCredential.from_salted(
                mechanism, each.salt, each.salted_password, each.iterations
            )
    security.change_users(changes)
    none = (ErrorCode.NONE, None)
    return AlterUserScramCredentialsResponse(
        results=tuple(
            AlterUserScramCredentialsResult(name, *errors.get(name, none)) for name in times
        )
    )


def _why_not(
    security: ClusterSecurity,
    change: _Change,
    times: int,
) -> tuple[ErrorCode, str] | None:
    """Why a credential cannot be changed, in Kafka's words."""
    mechanism = _MECHANISMS.get(change.mechanism)
    refused = ErrorCode.UNACCEPTABLE_CREDENTIAL
    wrong: tuple[tuple[bool, ErrorCode, str], ...] = (
        (not change.name, refused, "Username must not be empty"),
        (
            mechanism is None,
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            "Unknown SCRAM mechanism",
        ),
        (times > 1, ErrorCode.DUPLICATE_RESOURCE, _TWICE),
    )
    if isinstance(change, ScramCredentialUpsertion):
        wrong += (
            (change.iterations < MIN_ITERATIONS, refused, "Too few iterations"),
            (change.iterations > MAX_ITERATIONS, refused, "Too many iterations"),
        )
    elif mechanism is not None:
        wrong += (
            (
                not security.has_user(change.name, mechanism),
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            ),
        )
    return next(((code, why) for is_so, code, why in wrong if is_so), None)
