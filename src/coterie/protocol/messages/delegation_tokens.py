"""Delegation tokens (KIP-48): create, renew, expire, describe."""

from __future__ import annotations

from coterie.protocol.schema import Request, Response, Struct, field
from coterie.protocol.types import Int16, Int32, Int64

__all__ = [
    "CreatableRenewers",
    "CreateDelegationTokenRequest",
    "CreateDelegationTokenResponse",
    "DescribeDelegationTokenOwner",
    "DescribeDelegationTokenRequest",
    "DescribeDelegationTokenResponse",
    "DescribedDelegationToken",
    "DescribedDelegationTokenRenewer",
    "ExpireDelegationTokenRequest",
    "ExpireDelegationTokenResponse",
    "RenewDelegationTokenRequest",
    "RenewDelegationTokenResponse",
]


class CreatableRenewers(Struct):
    """Principal that may renew the token."""

    principal_type: str = field("0+", "Type of the principal.", default="")
    principal_name: str = field("0+", "Name of the principal.", default="")


class CreateDelegationTokenRequest(Request, key=38, versions="1-3", flexible="2+"):
    """Creates a delegation token."""

    owner_principal_type: str | None = field(
        "3+",
        "Type of the principal that shall own the token; null for the requester.",
        default="",
        nullable="3+",
    )
    owner_principal_name: str | None = field(
        "3+",
        "Name of the principal that shall own the token; null for the requester.",
        default="",
        nullable="3+",
    )
    renewers: tuple[CreatableRenewers, ...] = field(
        "0+", "Principals that may renew the token.", default=()
    )
    max_lifetime_ms: Int64 = field(
        "0+", "Longest lifetime in milliseconds; -1 for the server's maximum.", default=0
    )


class CreateDelegationTokenResponse(Response, key=38, versions="1-3", flexible="2+"):
    """The new token."""

    error_code: Int16 = field("0+", "0, or the error.", default=0)
    principal_type: str = field("0+", "Type of the principal.", default="")
    principal_name: str = field("0+", "Name of the principal.", default="")
    token_requester_principal_type: str = field(
        "3+", "Type of the principal that requested the token.", default=""
    )
    token_requester_principal_name: str = field(
        "3+", "Name of the principal that requested the token.", default=""
    )
    issue_timestamp_ms: Int64 = field("0+", "Time of issue, epoch milliseconds.", default=0)
    expiry_timestamp_ms: Int64 = field("0+", "Time of expiry, epoch milliseconds.", default=0)
    max_timestamp_ms: Int64 = field(
        "0+", "Time after which the token cannot be renewed, epoch milliseconds.", default=0
    )
    token_id: str = field("0+", "Id of the token.", default="")
    hmac: bytes = field("0+", "HMAC of the token, which is its password.", default=b"")
    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )

    def __repr__(self) -> str:
        return f"CreateDelegationTokenResponse({self.error_code}, {self.token_id!r}, [hidden])"


class RenewDelegationTokenRequest(Request, key=39, versions="1-2", flexible="2+"):
    """Extends the life of a token."""

    hmac: bytes = field("0+", "HMAC of the token, which is its password.", default=b"")
    renew_period_ms: Int64 = field(
        "0+", "Milliseconds from now to the new time of expiry.", default=0
    )

    def __repr__(self) -> str:
        return f"RenewDelegationTokenRequest([hidden], {self.renew_period_ms})"


class RenewDelegationTokenResponse(Response, key=39, versions="1-2", flexible="2+"):
    """The new time of expiry."""

    error_code: Int16 = field("0+", "0, or the error.", default=0)
    expiry_timestamp_ms: Int64 = field("0+", "Time of expiry, epoch milliseconds.", default=0)
    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )


class ExpireDelegationTokenRequest(Request, key=40, versions="1-2", flexible="2+"):
    """Changes the time of expiry of a token, or removes it."""

    hmac: bytes = field("0+", "HMAC of the token, which is its password.", default=b"")
    expiry_time_period_ms: Int64 = field(
        "0+",
        "Milliseconds from now to the new time of expiry; negative removes the token.",
        default=0,
    )

    def __repr__(self) -> str:
        return f"ExpireDelegationTokenRequest([hidden], {self.expiry_time_period_ms})"


class ExpireDelegationTokenResponse(Response, key=40, versions="1-2", flexible="2+"):
    """The new time of expiry."""

    error_code: Int16 = field("0+", "0, or the error.", default=0)
    expiry_timestamp_ms: Int64 = field("0+", "Time of expiry, epoch milliseconds.", default=0)
    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )


class DescribeDelegationTokenOwner(Struct):
    """Owner whose tokens are wanted."""

    principal_type: str = field("0+", "Type of the principal.", default="")
    principal_name: str = field("0+", "Name of the principal.", default="")


class DescribeDelegationTokenRequest(Request, key=41, versions="1-3", flexible="2+"):
    """Lists delegation tokens."""

    owners: tuple[DescribeDelegationTokenOwner, ...] | None = field(
        "0+", "Owners whose tokens are wanted; null asks for all.", default=(), nullable="0+"
    )


class DescribedDelegationTokenRenewer(Struct):
    """Principal that may renew the token."""

    principal_type: str = field("0+", "Type of the principal.", default="")
    principal_name: str = field("0+", "Name of the principal.", default="")


class DescribedDelegationToken(Struct):
    """One token."""

    principal_type: str = field("0+", "Type of the principal.", default="")
    principal_name: str = field("0+", "Name of the principal.", default="")
    token_requester_principal_type: str = field(
        "3+", "Type of the principal that requested the token.", default=""
    )
    token_requester_principal_name: str = field(
        "3+", "Name of the principal that requested the token.", default=""
    )
    issue_timestamp: Int64 = field("0+", "Time of issue, epoch milliseconds.", default=0)
    expiry_timestamp: Int64 = field("0+", "Time of expiry, epoch milliseconds.", default=0)
    max_timestamp: Int64 = field(
        "0+", "Time after which the token cannot be renewed, epoch milliseconds.", default=0
    )
    token_id: str = field("0+", "Id of the token.", default="")
    hmac: bytes = field("0+", "HMAC of the token, which is its password.", default=b"")
    renewers: tuple[DescribedDelegationTokenRenewer, ...] = field(
        "0+", "Principals that may renew the token.", default=()
    )

    def __repr__(self) -> str:
        return f"DescribedDelegationToken({self.token_id!r}, [hidden])"


class DescribeDelegationTokenResponse(Response, key=41, versions="1-3", flexible="2+"):
    """Tokens that the requester may see."""

    error_code: Int16 = field("0+", "0, or the error.", default=0)
    tokens: tuple[DescribedDelegationToken, ...] = field("0+", "The tokens.", default=())
    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
