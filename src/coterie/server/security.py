"""What a cluster knows of its users and their rights, kept in `security.json` beside the topics.

Users are SCRAM credentials, for PLAIN as well: no password is kept anywhere. Changes are on disk before they
are answered.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from coterie.errors import InvalidSetting
from coterie.security.acls import AclBinding
from coterie.security.authorizer import Authorizer
from coterie.security.plain import PlainServer
from coterie.security.principals import PrincipalMapper
from coterie.security.sasl import SaslServer
from coterie.security.scram import (
    ScramCredential,
    ScramMechanism,
    ScramServer,
    invented_credential,
    new_credential,
)
from coterie.security.secrets import Secret
from coterie.server.audit import Audit
from coterie.server.security_config import SecurityConfig

__all__ = ["ClusterSecurity"]

_BY_NAME: Final = {each.mechanism: each for each in ScramMechanism}
_BY_CODE: Final = {each.code: each for each in ScramMechanism}

UserKey = tuple[str, ScramMechanism]


class _SavedUser(msgspec.Struct):
    name: str
    mechanism: int
    credential: ScramCredential


class _Saved(msgspec.Struct):
    #: Makes the salts of users that do not exist; a new one would give them away after a restart.
    invention_key: bytes
    acls: list[AclBinding] = []
    users: list[_SavedUser] = []


class ClusterSecurity:
    """Users, ACLs and what decides with them; one for all brokers of a cluster."""

    def __init__(
        self, config: SecurityConfig, saved: bytes | None, save: Callable[[bytes], None]
    ) -> None:
        state = (
            _Saved(secrets.token_bytes(32))
            if saved is None
            else msgspec.json.decode(saved, type=_Saved)
        )
        self.config = config
        self.mechanisms = config.mechanisms
        self.mapper = PrincipalMapper(config.principal_mapping_rules)
        self._save_state = save
        self._invention_key = state.invention_key
        self._users: dict[UserKey, ScramCredential] = {
            (each.name, _BY_CODE[each.mechanism]): each.credential for each in state.users
        }
        #: Kept also while no authorizer is on, so that turning it off and on again loses nothing.
        self._acls = Authorizer(
            state.acls,
            super_users=config.super_principals,
            allow_if_no_acl=config.allow_if_no_acl,
        )
        self.authorizer = self._acls if config.authorizer_is_on else None
        secured = self.authorizer is not None or self.mechanisms or config.client_auth != "none"
        self.audit = Audit() if secured else None

    # -- at the start ---------------------------------------------------------------------------------

    def set_up(self, users: Mapping[str, Secret], acls: Iterable[AclBinding]) -> None:
        """Users and ACLs that were given with the start. Slow: it hashes passwords."""
        changed = False
        for name, password in users.items():
            for mechanism in ScramMechanism:
                known = self._users.get((name, mechanism))
                if known is None or not known.verifies(mechanism, password.reveal()):
                    self._users[name, mechanism] = new_credential(mechanism, password.reveal())
                    changed = True
        for acl in acls:
            if why := acl.why_invalid():
                raise InvalidSetting(f"the ACL {acl} cannot be: {why}")
            changed |= self._acls.add(acl)
        if changed:
            self.save()
        if self.mechanisms and not self._users:
            # A mechanism without anybody who could pass it is a mistake (CVE-2026-110985).
            raise InvalidSetting(
                "SASL is on and there is no user; give one with --user name:password"
            )

    # -- who somebody is ------------------------------------------------------------------------------

    def sasl_server(self, mechanism: str) -> SaslServer:
        """A new exchange of an enabled mechanism."""
        if mechanism == "PLAIN":
            return PlainServer(self._verify)
        scram = _BY_NAME[mechanism]
        return ScramServer(scram, lambda name: self._credential(name, scram))

    def _credential(self, name: str, mechanism: ScramMechanism) -> ScramCredential:
        found = self._users.get((name, mechanism))
        return found or invented_credential(mechanism, name, self._invention_key)

    def _verify(self, name: str, password: str) -> bool:
        """In the same time for everybody: whoever does not exist has a password to be tried as well."""
        mechanism = ScramMechanism.SHA_256
        if (name, mechanism) not in self._users and (name, ScramMechanism.SHA_512) in self._users:
            mechanism = ScramMechanism.SHA_512
        return self._credential(name, mechanism).verifies(mechanism, password)

    # -- changes, each saved before it returns --------------------------------------------------------

    @property
    def users(self) -> Iterator[tuple[UserKey, ScramCredential]]:
        yield from self._users.items()

    def has_user(self, name: str, mechanism: ScramMechanism) -> bool:
        return (name, mechanism) in self._users

    def change_users(self, changes: Mapping[UserKey, ScramCredential | None]) -> None:
        """Put credentials in place of others; None removes one."""
        for key, credential in changes.items():
            if credential is None:
                del self._users[key]
            else:
                self._users[key] = credential
        if changes:
            self.save()

    def add_acls(self, acls: Iterable[AclBinding]) -> None:
        new = [acl for acl in acls if self._acls.add(acl)]
        if new:
            self.save()

    def remove_acls(self, acls: Iterable[AclBinding]) -> None:
        gone = list(acls)
        for acl in gone:
            self._acls.remove(acl)
        if gone:
            self.save()

    def save(self) -> None:
        users = [
            _SavedUser(name, mechanism.code, credential)
            for (name, mechanism), credential in self._users.items()
        ]
        state = _Saved(self._invention_key, list(self._acls), users)
        self._save_state(msgspec.json.format(msgspec.json.encode(state), indent=1))
