"""Users and ACLs as records of the cluster's log, and back."""

from __future__ import annotations

from typing import Final

import msgspec

from coterie.protocol.metadata_records import (
    AccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from coterie.protocol.types import Uuid
from coterie.security.acls import AclBinding
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
    return AccessControlEntryRecord(acl_id, *msgspec.structs.astuple(acl))


def acl_of(record: AccessControlEntryRecord) -> AclBinding:
    _, *entry = msgspec.structs.astuple(record)
    return AclBinding.of(*entry)
