"""Requests about delegation tokens that change nothing where tokens are off, for tests of ACLs."""

from __future__ import annotations

from typing import Final

from coterie.protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)

__all__ = ["CREATE_TOKEN", "DESCRIBE_TOKENS", "EXPIRE_TOKEN", "OWNER", "RENEW_TOKEN"]

OWNER: Final = "User:nobody-at-all"

CREATE_TOKEN: Final = CreateDelegationTokenRequest("User", "nobody-at-all")
RENEW_TOKEN: Final = RenewDelegationTokenRequest(b"unknown")
EXPIRE_TOKEN: Final = ExpireDelegationTokenRequest(b"unknown")
DESCRIBE_TOKENS: Final = DescribeDelegationTokenRequest(None)
