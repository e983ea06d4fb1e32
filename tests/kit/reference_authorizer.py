"""An authorizer of ten lines, by which the real one is judged."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType

IMPLIES = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def reference(
    entries: Iterable[AclBinding],
    who: tuple[str, str],
    op: Operation,
    kind: ResourceType,
    name: str,
    *,
    open_: bool,
) -> bool:
    principal, host = who
    if principal == "User:admin":
        return True
    here = [a for a in entries if a.resource_type is kind and about(a, name)]
    mine = [a for a in here if a.principal in (principal, "User:*") and a.host in (host, "*")]
    said = {(a.permission, a.operation) for a in mine}
    if said & {(Permission.DENY, op), (Permission.DENY, Operation.ALL)}:
        return False
    enough = {op, Operation.ALL} | IMPLIES.get(op, set())
    return bool(said & {(Permission.ALLOW, each) for each in enough}) or (open_ and not here)


def about(acl: AclBinding, name: str) -> bool:
    if acl.pattern_type is PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, "*")
