"""The calls about who may do what: ACLs, and users that log in by SCRAM."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from coterie.client.base import ClientBase

if TYPE_CHECKING:
    from coterie.client.results import Done, Result, ScramUser
    from coterie.security.acls import AclBinding, AclFilter
    from coterie.security.secrets import Secret

__all__ = ["AclCalls"]

# Whoever only looks at groups does not pay for these messages: they are loaded by the calls.


class AclCalls(ClientBase):
    """A part of AdminClient."""

    async def describe_acls(
        self,
        wanted: AclFilter | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - one deadline for the whole call
    ) -> list[AclBinding]:
        """The ACLs that a filter matches; all of them without one."""
        from coterie.client import acl_requests as wire  # noqa: PLC0415
        from coterie.security.acls import AclFilter  # noqa: PLC0415

        request = wire.description(wanted or AclFilter())
        deadline = self._deadline(timeout)
        return wire.described(await self._network.any(request, wire.DescribeAclsResponse, deadline))

    async def create_acls(
        self,
        acls: Iterable[AclBinding],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - one deadline for the whole call
    ) -> Result[AclBinding, Done]:
        """Add ACLs; one that is there already is no error."""
        from coterie.client import acl_requests as wire  # noqa: PLC0415

        given = list(acls)
        request, deadline = wire.creation(given), self._deadline(timeout)
        answer = await self._network.any(request, wire.CreateAclsResponse, deadline)
        return wire.created(given, answer)

    async def delete_acls(
        self,
        filters: Iterable[AclFilter],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - one deadline for the whole call
    ) -> Result[AclBinding, Done]:
        """Remove all ACLs that match any of the filters; what was removed."""
        from coterie.client import acl_requests as wire  # noqa: PLC0415

        request, deadline = wire.deletion(filters), self._deadline(timeout)
        return wire.deleted(await self._network.any(request, wire.DeleteAclsResponse, deadline))

    async def describe_users(
        self,
        names: Iterable[str] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - one deadline for the whole call
    ) -> Result[str, ScramUser]:
        """Users that can log in by SCRAM, with their mechanisms; never a key."""
        from coterie.client import acl_requests as wire  # noqa: PLC0415

        request, deadline = wire.users(names), self._deadline(timeout)
        expect = wire.DescribeUserScramCredentialsResponse
        return wire.described_users(await self._network.any(request, expect, deadline))

    async def alter_users(
        self,
        passwords: Mapping[str, str | Secret] | None = None,
        *,
        remove: Iterable[str] = (),
        mechanism: str = "SCRAM-SHA-512",
        iterations: int = 4096,
        timeout: float | None = None,  # noqa: ASYNC109 - one deadline for the whole call
    ) -> Result[str, Done]:
        """Give users a password for a mechanism, and take it from others. Passwords are hashed here."""
        from coterie.client import acl_requests as wire  # noqa: PLC0415

        deadline = self._deadline(timeout)
        request = await asyncio.to_thread(
            wire.user_changes, passwords or {}, tuple(remove), mechanism, iterations
        )
        expect = wire.AlterUserScramCredentialsResponse
        return wire.altered_users(await self._network.any(request, expect, deadline))
