"""The authorizer: Kafka's StandardAuthorizer, over an index instead of a scan.

For each principal, host, kind of resource and operation there is a view: what is denied and what is
allowed, as sets of names and as sorted prefixes of which none begins with another. A look-up is two set
tests and two binary searches, whatever the number of entries. Views are made when first asked for and
thrown away with every change, so that an authorizer never remembers what it was before (CVE-2024-27309).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from coterie.security.acls import (
    SUPPORTED_OPERATIONS,
    WILDCARD,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

__all__ = ["Authorizer"]

_EVERYBODY: Final = "User:*"

#: What an allowed operation brings with it. A denied one denies itself alone.
_ALLOWED_BY: Final[dict[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}

#: Views that are kept; one is some bytes per entry of its principal.
_MOST_VIEWS: Final = 10_000


class _Patterns:
    """Names, prefixes, or everything."""

    __slots__ = ("_names", "_prefixes", "everything")

    def __init__(self, acls: Iterable[AclBinding]) -> None:
        self._names: set[str] = set()
        self.everything = False
        prefixes: set[str] = set()
        for acl in acls:
            if acl.pattern_type is PatternType.PREFIXED:
                prefixes.add(acl.resource_name)
            elif acl.resource_name == WILDCARD:
                self.everything = True
            else:
                self._names.add(acl.resource_name)
        self._prefixes: list[str] = []
        for prefix in sorted(prefixes):
            # One that begins with another says nothing new; without it the nearest is the only one.
            if not self._prefixes or not prefix.startswith(self._prefixes[-1]):
                self._prefixes.append(prefix)

    def __contains__(self, name: str) -> bool:
        if self.everything or name in self._names:
            return True
        prefixes = self._prefixes
        if not prefixes:
            return False
        at = bisect_right(prefixes, name)
        return at > 0 and name.startswith(prefixes[at - 1])


class _View(NamedTuple):
    denied: _Patterns
    allowed: _Patterns


class Authorizer:
    """Decides. `super_users` may do everything; with `allow_if_no_acl` so may all, where no entry speaks."""

    def __init__(
        self,
        acls: Iterable[AclBinding] = (),
        *,
        super_users: Iterable[str] = (),
        allow_if_no_acl: bool = False,
    ) -> None:
        self.super_users = frozenset(super_users)
        self.allow_if_no_acl = allow_if_no_acl
        self._by_principal: dict[tuple[ResourceType, str], dict[AclBinding, None]] = {}
        self._views: dict[tuple[str, str, ResourceType, Operation], _View] = {}
        self._spoken_for: dict[ResourceType, _Patterns] = {}
        for acl in acls:
            self.add(acl)

    def __iter__(self) -> Iterator[AclBinding]:
        for acls in self._by_principal.values():
            yield from acls

    def __len__(self) -> int:
        return sum(len(acls) for acls in self._by_principal.values())

    # -- changes --------------------------------------------------------------------------------------

    def add(self, acl: AclBinding) -> bool:
        """Add an entry; whether it is new."""
        acls = self._by_principal.setdefault((acl.resource_type, acl.principal), {})
        if acl in acls:
            return False
        acls[acl] = None
        self._forget()
        return True

    def remove(self, acl: AclBinding) -> None:
        key = (acl.resource_type, acl.principal)
        del self._by_principal[key][acl]
        if not self._by_principal[key]:
            del self._by_principal[key]
        self._forget()

    def _forget(self) -> None:
        self._views.clear()
        self._spoken_for.clear()

    def find(self, wanted: AclFilter) -> list[AclBinding]:
        return [acl for acl in self if wanted.matches(acl)]

    # -- decisions ------------------------------------------------------------------------------------

    def allows(
        self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str
    ) -> bool:
        if principal in self.super_users:
            return True
        view = self._views.get((principal, host, resource, operation))
        if view is None:
            view = self._view(principal, host, resource, operation)
        if name in view.denied:
            return False
        return name in view.allowed or (self.allow_if_no_acl and self._unspoken(resource, name))

    def allowed(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource: ResourceType,
        names: Iterable[str],
    ) -> set[str]:
        """Those of many names that are allowed."""
        if principal in self.super_users:
            return set(names)
        denied, allowed = self._view(principal, host, resource, operation)
        everybody = self.allow_if_no_acl
        return {
            name
            for name in names
            if (name in allowed or (everybody and self._unspoken(resource, name)))
            and name not in denied
        }

    def allows_any(
        self, principal: str, host: str, operation: Operation, resource: ResourceType
    ) -> bool:
        """Whether there is some resource of the kind on which it would be allowed (KIP-679)."""
        # As in Kafka, any name at all answers for super users, wildcards and the absence of entries.
        if self.allows(principal, host, operation, resource, "hardcode"):
            return True
        entries = [
            acl
            for acl in self._entries(principal, host, resource)
            if acl.operation in (operation, Operation.ALL)
        ]
        denials = [acl for acl in entries if acl.permission is Permission.DENY]
        denied = _Patterns(denials)
        prefixes = _Patterns(acl for acl in denials if acl.pattern_type is PatternType.PREFIXED)
        return not denied.everything and any(
            acl.resource_name
            not in (prefixes if acl.pattern_type is PatternType.PREFIXED else denied)
            for acl in entries
            if acl.permission is Permission.ALLOW
        )

    def operations(self, principal: str, host: str, resource: ResourceType, name: str) -> int:
        """What a principal may do to a resource, as a bit set of operation codes."""
        return sum(
            1 << operation
            for operation in SUPPORTED_OPERATIONS[resource]
            if self.allows(principal, host, operation, resource, name)
        )

    # -- the index ------------------------------------------------------------------------------------

    def _view(
        self, principal: str, host: str, resource: ResourceType, operation: Operation
    ) -> _View:
        key = (principal, host, resource, operation)
        view = self._views.get(key)
        if view is None:
            entries = list(self._entries(principal, host, resource))
            allowing = _ALLOWED_BY.get(operation, frozenset()) | {operation, Operation.ALL}
            view = _View(
                _Patterns(
                    acl
                    for acl in entries
                    if acl.permission is Permission.DENY
                    and acl.operation in (operation, Operation.ALL)
                ),
                _Patterns(
                    acl
                    for acl in entries
                    if acl.permission is Permission.ALLOW and acl.operation in allowing
                ),
            )
            if len(self._views) >= _MOST_VIEWS:
                self._views.clear()
            self._views[key] = view
        return view

    def _entries(self, principal: str, host: str, resource: ResourceType) -> Iterator[AclBinding]:
        for who in dict.fromkeys((principal, _EVERYBODY)):
            for acl in self._by_principal.get((resource, who), ()):
                if acl.host in (WILDCARD, host):
                    yield acl

    def _unspoken(self, resource: ResourceType, name: str) -> bool:
        """Whether no entry, of whomever, is about this resource."""
        patterns = self._spoken_for.get(resource)
        if patterns is None:
            patterns = _Patterns(acl for acl in self if acl.resource_type is resource)
            self._spoken_for[resource] = patterns
        return name not in patterns
