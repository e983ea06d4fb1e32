"""ACLs, and users that log in by SCRAM: describe and change them. One request to any broker each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from msgspec.structs import astuple

from coterie.client.network import Deadline, Network
from coterie.client.results import Done, Result, ScramUser
from coterie.errors import CoterieError, InvalidArgument, kafka_error
from coterie.protocol.messages.acls import (
    AclCreation,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from coterie.security.acls import AclBinding, AclFilter
from coterie.security.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism, new_salt
from coterie.security.secrets import Secret

__all__ = ["Acls"]


class Acls:
    """Requests about ACLs and SCRAM users."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def describe(self, wanted: AclFilter | None, deadline: Deadline) -> list[AclBinding]:
        """The ACLs that a filter matches."""
        request = DescribeAclsRequest(*astuple(wanted or AclFilter()))
        return _described(await self._network.any(request, DescribeAclsResponse, deadline))

    async def create(self, acls: list[AclBinding], deadline: Deadline) -> Result[AclBinding, Done]:
        """Add ACLs."""
        request = CreateAclsRequest(tuple(AclCreation(*astuple(acl)) for acl in acls))
        return _created(acls, await self._network.any(request, CreateAclsResponse, deadline))

    async def delete(
        self, filters: Iterable[AclFilter], deadline: Deadline
    ) -> Result[AclBinding, Done]:
        """Remove the ACLs that any of the filters matches."""
        request = DeleteAclsRequest(tuple(DeleteAclsFilter(*astuple(each)) for each in filters))
        return _deleted(await self._network.any(request, DeleteAclsResponse, deadline))

    async def describe_users(
        self, names: Iterable[str] | None, deadline: Deadline
    ) -> Result[str, ScramUser]:
        """Users with their mechanisms; None means all users."""
        wanted = None if names is None else tuple(UserName(name) for name in names)
        request = DescribeUserScramCredentialsRequest(wanted)
        expect = DescribeUserScramCredentialsResponse
        return _described_users(await self._network.any(request, expect, deadline))

    async def alter_users(
        self,
        passwords: Mapping[str, str | Secret],
        remove: Iterable[str],
        mechanism: str,
        iterations: int,
        deadline: Deadline,
    ) -> Result[str, Done]:
        """Set passwords of a mechanism, and remove those of other users."""
        request = await asyncio.to_thread(
            _user_changes, passwords, tuple(remove), mechanism, iterations
        )
        expect = AlterUserScramCredentialsResponse
        return _altered_users(await self._network.any(request, expect, deadline))


def _described(answer: DescribeAclsResponse) -> list[AclBinding]:
    if answer.error_code:
        raise kafka_error(answer.error_code, "ACLs", answer.error_message)
    return [
        AclBinding.of(
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for resource in answer.resources
        for acl in resource.acls
    ]


def _created(acls: list[AclBinding], answer: CreateAclsResponse) -> Result[AclBinding, Done]:
    items: dict[AclBinding, Done] = {}
    errors: dict[AclBinding, CoterieError] = {}
    for acl, each in zip(acls, answer.results, strict=True):
        if each.error_code:
            errors[acl] = kafka_error(each.error_code, str(acl), each.error_message)
        else:
            items[acl] = Done(str(acl))
    return Result(items, errors)


def _deleted(answer: DeleteAclsResponse) -> Result[AclBinding, Done]:
    """What was removed; an entry that two filters matched is there once."""
    items: dict[AclBinding, Done] = {}
    errors: dict[AclBinding, CoterieError] = {}
    for result in answer.filter_results:
        if result.error_code:
            raise kafka_error(result.error_code, "ACLs", result.error_message)
        for each in result.matching_acls:
            acl = AclBinding.of(
                each.resource_type,
                each.resource_name,
                each.pattern_type,
                each.principal,
                each.host,
                each.operation,
                each.permission_type,
            )
            if each.error_code:
                errors[acl] = kafka_error(each.error_code, str(acl), each.error_message)
            else:
                items[acl] = Done(str(acl))
    return Result(items, errors)


def _described_users(answer: DescribeUserScramCredentialsResponse) -> Result[str, ScramUser]:
    if answer.error_code:
        raise kafka_error(answer.error_code, "SCRAM users", answer.error_message)
    names = {each.code: each.mechanism for each in ScramMechanism}
    items: dict[str, ScramUser] = {}
    errors: dict[str, CoterieError] = {}
    for each in answer.results:
        if each.error_code:
            subject = f"user {each.user!r}"
            errors[each.user] = kafka_error(each.error_code, subject, each.error_message)
            continue
        known = {
            names.get(info.mechanism, str(info.mechanism)): info.iterations
            for info in each.credential_infos
        }
        items[each.user] = ScramUser(each.user, known)
    return Result(items, errors)


def _user_changes(
    passwords: Mapping[str, str | Secret],
    remove: Iterable[str],
    mechanism: str,
    iterations: int,
) -> AlterUserScramCredentialsRequest:
    """Hashes passwords, so it is slow; no password leaves the process."""
    scram = next((each for each in ScramMechanism if each.mechanism == mechanism.upper()), None)
    if scram is None:
        known = ", ".join(each.mechanism for each in ScramMechanism)
        raise InvalidArgument(f"mechanism is one of {known}, not {mechanism!r}")
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise InvalidArgument(
            f"iterations are {MIN_ITERATIONS} to {MAX_ITERATIONS}, not {iterations}"
        )
    upsertions = []
    for name, given in passwords.items():
        word = given.reveal() if isinstance(given, Secret) else given
        salt = new_salt()
        salted = scram.salted(word, salt, iterations)
        upsertions.append(ScramCredentialUpsertion(name, scram.code, iterations, salt, salted))
    deletions = tuple(ScramCredentialDeletion(name, scram.code) for name in remove)
    return AlterUserScramCredentialsRequest(deletions, tuple(upsertions))


def _altered_users(answer: AlterUserScramCredentialsResponse) -> Result[str, Done]:
    items: dict[str, Done] = {}
    errors: dict[str, CoterieError] = {}
    for each in answer.results:
        if each.error_code:
            subject = f"user {each.user!r}"
            errors[each.user] = kafka_error(each.error_code, subject, each.error_message)
        else:
            items[each.user] = Done(each.user)
    return Result(items, errors)
