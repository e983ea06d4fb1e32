"""Users and ACLs as records of the cluster's log, and back."""

from __future__ import annotations

from typing import Final

from coterie.protocol.metadata_records import (
    AccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from coterie.protocol.types import Uuid
from coterie.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from coterie.security.scram import ScramCredential, ScramMechanism

__all__ = ["UserKey", "acl_of", "acl_record", "credential_of", "user_of", "user_record"]

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
    return AccessControlEntryRecord(
        acl_id,
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )


def acl_of(record: AccessControlEntryRecord) -> AclBinding:
    return AclBinding(
        ResourceType.of(record.resource_type),
        record.resource_name,
        PatternType.of(record.pattern_type),
        record.principal,
        record.host,
        Operation.of(record.operation),
        Permission.of(record.permission_type),
    )
