"""Requests about client quotas that change nothing, for tests of ACLs."""

from __future__ import annotations

from typing import Final

from coterie.protocol.messages.quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
    OpData,
)

__all__ = ["ALTER_QUOTAS", "DESCRIBE_QUOTAS"]

_USER: Final = "nobody-at-all"

DESCRIBE_QUOTAS: Final = DescribeClientQuotasRequest((ComponentData("user", 0, _USER),))
ALTER_QUOTAS: Final = AlterClientQuotasRequest(
    (AlterClientQuotasEntry((EntityData("user", _USER),), (OpData("request_percentage", 1.0),)),),
    validate_only=True,
)
