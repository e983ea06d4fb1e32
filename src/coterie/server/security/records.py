"""Users and ACLs as records of the cluster's log and back, and ACLs as requests carry them."""

from __future__ import annotations

from typing import Final

import msgspec

from coterie.protocol.messages.acls import AclCreation, DeleteAclsFilter, DescribeAclsRequest
from coterie.protocol.metadata_records import (
    AccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from coterie.protocol.types import Uuid
from coterie.security.acls import (
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from coterie.security.scram import ScramCredential, ScramMechanism

__all__ = [
    "UserKey",
    "acl_of",
    "acl_record",
    "binding_of",
    "credential_of",
    "filter_of",
    "user_of",
    "user_record",
]

UserKey = tuple[str, ScramMechanism]

_MECHANISMS: Final = {each.code: each for each in ScramMechanism}


def user_record(
    user: UserKey, credential: ScramCredential | None
) -> UserScramCredentialRecord | RemoveUserScramCredentialRecord:
    """A credential, or with None that there is none any more."""
    name, mechanism = user
    if credential is None:
        return RemoveUserScramCredentialRecord(name, mechanism.code)
    return UserScramCredentialRecord(
        name,
        mechanism.code,
        credential.salt,
        credential.stored_key,
        credential.server_key,
        credential.iterations,
    )


def user_of(record: UserScramCredentialRecord | RemoveUserScramCredentialRecord) -> UserKey:
    return record.name, _MECHANISMS[record.mechanism]


def credential_of(record: UserScramCredentialRecord) -> ScramCredential:
    return ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)


def acl_record(acl_id: Uuid, acl: AclBinding) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(acl_id, *msgspec.structs.astuple(acl))


def acl_of(record: AccessControlEntryRecord) -> AclBinding:
    _, *entry = msgspec.structs.astuple(record)
    return AclBinding.of(*entry)


def binding_of(creation: AclCreation) -> AclBinding:
    return AclBinding.of(*msgspec.structs.astuple(creation))


def filter_of(given: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        ResourceType.of(given.resource_type_filter),
        given.resource_name_filter,
        PatternType.of(given.pattern_type_filter),
        given.principal_filter,
        given.host_filter,
        Operation.of(given.operation),
        Permission.of(given.permission_type),
    )
