"""Users, ACLs and delegation tokens of a cluster, as records of the cluster's log.

Users are SCRAM credentials, for PLAIN as well: no password is stored. A change is a batch of records, on
disk before it is answered. State changes in `replay` alone: with every record of the log at the start, and
with every record that has just been written.

Two small files are next to the log. `scram-invention.key` is the key that makes the salts of users that do
not exist; Kafka has no record for it. `security.json` is a file of earlier versions with the key, users and
ACLs; its content is added to the log once, and then it is removed.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from coterie.errors import InvalidSetting
from coterie.protocol.metadata_records import (
    AccessControlEntryRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from coterie.protocol.types import Uuid
from coterie.security.acls import AclBinding
from coterie.security.authorizer import Authorizer
from coterie.security.plain import PlainServer
from coterie.security.sasl import SaslServer
from coterie.security.scram import (
    ScramCredential,
    ScramMechanism,
    ScramServer,
    invented_credential,
    new_credential,
)
from coterie.security.secrets import Secret
from coterie.server.clock import Clock
from coterie.server.metadata.cluster_log import ClusterLog
from coterie.server.security.audit import Audit
from coterie.server.security.delegation_tokens import DelegationTokens
from coterie.server.security.records import (
    UserKey,
    acl_of,
    acl_record,
    credential_of,
    user_of,
    user_record,
)
from coterie.server.settings.security import SecurityConfig
from coterie.storage.data_directory import DataDirectory

__all__ = [
    "ClusterSecurity",
    "load_invention_key",
    "take_over_security_file",
]

_BY_NAME: Final = {each.mechanism: each for each in ScramMechanism}


class ClusterSecurity:
    """Users, ACLs, tokens and what decides with them; one for all brokers of a cluster."""

    def __init__(
        self,
        config: SecurityConfig,
        cluster_log: ClusterLog,
        clock: Clock,
        *,
        invention_key: bytes,
        new_uuid: Callable[[], Uuid],
        mechanisms: tuple[str, ...] = (),
        know_clients: bool = False,
    ) -> None:
        #: The SASL mechanisms of all listeners.
        self.mechanisms = mechanisms
        self._log = cluster_log
        cluster_log.attach(self)
        self.tokens = DelegationTokens(
            config, cluster_log, clock, invention_key=invention_key, new_uuid=new_uuid
        )
        #: Makes the salts of users that do not exist.
        self._invention_key = invention_key
        self._new_uuid = new_uuid
        self._users: dict[UserKey, ScramCredential] = {}
        #: Kept also while no authorizer is on, so that turning it off and on again loses nothing.
        self._acls = Authorizer(
            super_users=config.super_principals, allow_if_no_acl=config.allow_if_no_acl
        )
        self._acl_ids: dict[AclBinding, Uuid] = {}
        self._acls_by_id: dict[Uuid, AclBinding] = {}
        self.authorizer = self._acls if config.authorizer_is_on else None
        self.audit = Audit() if know_clients or self.authorizer is not None else None

    # -- the log --------------------------------------------------------------------------------------

    @property
    def record_types(self) -> Sequence[type[MetadataRecord]]:
        return (
            UserScramCredentialRecord,
            RemoveUserScramCredentialRecord,
            AccessControlEntryRecord,
            RemoveAccessControlEntryRecord,
        )

    def records(self) -> Iterator[MetadataRecord]:
        """The present users and ACLs."""
        for user, credential in self._users.items():
            yield user_record(user, credential)
        for acl, acl_id in self._acl_ids.items():
            yield acl_record(acl_id, acl)

    def replay(self, record: MetadataRecord) -> None:
        """Apply a record. A removal of something unknown changes nothing."""
        match record:
            case UserScramCredentialRecord():
                self._users[user_of(record)] = credential_of(record)
            case RemoveUserScramCredentialRecord():
                self._users.pop(user_of(record), None)
            case AccessControlEntryRecord():
                acl = acl_of(record)
                self._acls.add(acl)
                self._acl_ids[acl] = record.id
                self._acls_by_id[record.id] = acl
            case RemoveAccessControlEntryRecord():
                gone = self._acls_by_id.pop(record.id, None)
                if gone is not None:
                    del self._acl_ids[gone]
                    self._acls.remove(gone)

    # -- at the start ---------------------------------------------------------------------------------

    def set_up(self, users: Mapping[str, Secret], acls: Iterable[AclBinding]) -> None:
        """Users and ACLs that were given with the start. Slow: it hashes passwords."""
        new: dict[UserKey, ScramCredential] = {}
        for name, password in users.items():
            for mechanism in ScramMechanism:
                known = self._users.get((name, mechanism))
                if known is None or not known.verifies(mechanism, password.reveal()):
                    new[name, mechanism] = new_credential(mechanism, password.reveal())
        wanted = list(acls)
        for acl in wanted:
            if why := acl.why_invalid():
                raise InvalidSetting(f"the ACL {acl} cannot be: {why}")
        self.add(new, wanted)
        if self.mechanisms and not self._users:
            # A mechanism without a user who could log in is a mistake (CVE-2026-110985).
            raise InvalidSetting(
                "SASL is on and there is no user; give one with --user name:password"
            )

    # -- authentication ------------------------------------------------------------------------------

    def sasl_server(self, mechanism: str) -> SaslServer:
        """A new exchange of an enabled mechanism."""
        if mechanism == "PLAIN":
            return PlainServer(self._verify)
        scram = _BY_NAME[mechanism]
        return ScramServer(
            scram,
            lambda name: self._credential(name, scram),
            find_token=lambda token_id: self.tokens.login(token_id, scram),
        )

    def _credential(self, name: str, mechanism: ScramMechanism) -> ScramCredential:
        found = self._users.get((name, mechanism))
        return found or invented_credential(mechanism, name, self._invention_key)

    def _verify(self, name: str, password: str) -> bool:
        """Whether the password is right; takes the same time if there is no such user."""
        mechanism = ScramMechanism.SHA_256
        if (name, mechanism) not in self._users and (name, ScramMechanism.SHA_512) in self._users:
            mechanism = ScramMechanism.SHA_512
        return self._credential(name, mechanism).verifies(mechanism, password)

    # -- changes, each durable before it returns ------------------------------------------------------

    @property
    def users(self) -> Iterator[tuple[UserKey, ScramCredential]]:
        yield from self._users.items()

    def has_user(self, name: str, mechanism: ScramMechanism) -> bool:
        return (name, mechanism) in self._users

    def change_users(self, changes: Mapping[UserKey, ScramCredential | None]) -> None:
        """Put credentials in place of others; None removes one."""
        self._log.change([user_record(*change) for change in changes.items()])

    def add_acls(self, acls: Iterable[AclBinding]) -> None:
        self.add({}, acls)

    def add(self, users: Mapping[UserKey, ScramCredential], acls: Iterable[AclBinding]) -> None:
        """As one change; what is there already is no part of it."""
        records: list[MetadataRecord] = [
            user_record(user, credential)
            for user, credential in users.items()
            if self._users.get(user) != credential
        ]
        new = (acl for acl in dict.fromkeys(acls) if acl not in self._acl_ids)
        records += (acl_record(self._new_uuid(), acl) for acl in new)
        self._log.change(records)

    def remove_acls(self, acls: Iterable[AclBinding]) -> None:
        self._log.change([RemoveAccessControlEntryRecord(self._acl_ids[acl]) for acl in acls])


_KEY_FILE: Final = "scram-invention.key"
_SECURITY_FILE: Final = "security.json"


class _SavedUser(msgspec.Struct):
    name: str
    mechanism: int
    credential: ScramCredential


class _Saved(msgspec.Struct):
    invention_key: bytes
    acls: list[AclBinding] = []
    users: list[_SavedUser] = []


def load_invention_key(directory: DataDirectory, *, keep: bool) -> bytes:
    """The key; a new one is kept if it is going to be used, since another would give inventions away."""
    key = directory.load(_KEY_FILE, private=True)
    if key is None:
        saved = _load(directory)
        key = secrets.token_bytes(32) if saved is None else saved.invention_key
        if keep or saved is not None:
            directory.save(_KEY_FILE, key, private=True)
    return key


def take_over_security_file(directory: DataDirectory, security: ClusterSecurity) -> None:
    """After a crash on the way it is simply done again."""
    saved = _load(directory)
    if saved is None:
        return
    mechanisms = {each.code: each for each in ScramMechanism}
    users = {(each.name, mechanisms[each.mechanism]): each.credential for each in saved.users}
    security.add(users, saved.acls)
    directory.remove(_SECURITY_FILE)


def _load(directory: DataDirectory) -> _Saved | None:
    content = directory.load(_SECURITY_FILE, private=True)
    return None if content is None else msgspec.json.decode(content, type=_Saved)
