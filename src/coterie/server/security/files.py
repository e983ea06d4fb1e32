"""The small files of security: the key that invents users, and `security.json` of earlier versions.

Whoever asks for a user that does not exist gets a salt all the same, made with the key. Kafka has no record
for that, so it has a file of its own, for the owner alone. `security.json` held the key, the users and the
ACLs; what it says goes into the cluster's log once, and then it is removed.
"""

from __future__ import annotations

import secrets
from typing import Final

import msgspec

from coterie.security.acls import AclBinding
from coterie.security.scram import ScramCredential, ScramMechanism
from coterie.server.security.cluster_security import ClusterSecurity
from coterie.storage.data_directory import DataDirectory

__all__ = ["load_invention_key", "take_over_security_file"]

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
