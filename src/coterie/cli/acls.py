"""`coterie acls`: who may do what. Kafka's own tool is in kafka_acls.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from coterie.cli.selection import Missing
from coterie.console.options import connected, listed
from coterie.console.output import Column, Format, Listing
from coterie.console.target import Target
from coterie.console.terminal import note

if TYPE_CHECKING:
    from coterie.security.acls import AclBinding, AclFilter

__all__ = ["ACLS", "command"]

F = TypeVar("F", bound=Callable[..., Any])

ACLS: Final[Listing[AclBinding]] = Listing(
    "acls",
    "Access control entries, one per row.",
    (
        Column("principal", "string", "Whom it is about.", lambda each: each.principal),
        Column("permission", "string", "Allow or Deny.", lambda each: each.permission.title),
        Column("operation", "string", "What may be done.", lambda each: each.operation.title),
        Column("resource", "string", "To what.", lambda each: each.resource_type.title),
        Column(
            "pattern",
            "string",
            "How the name is read: Literal or Prefixed.",
            lambda each: each.pattern_type.title,
        ),
        Column("name", "string", "The name, or the prefix.", lambda each: each.resource_name),
        Column("host", "string", "From where.", lambda each: each.host),
    ),
    sort=("principal", "resource", "name", "operation"),
)


@click.group("acls")
def command() -> None:
    """Who may do what on a cluster with an authorizer."""


_RESOURCES: Final = ("topic", "group", "cluster", "transactional-id", "user")


def _what(command: F) -> F:
    """Options that say which entries are meant."""
    for option in (
        click.option("--host", help="The client's address, or '*'."),
        click.option(
            "--operation", "operations", multiple=True, help="Read, Describe, Delete, All..."
        ),
        click.option(
            "--principal", "principals", multiple=True, help="A principal, such as User:alice."
        ),
        click.option("--prefix", is_flag=True, help="The names are prefixes."),
        click.option("--name", "names", multiple=True, help="The resource's name, or '*'."),
        click.option("--resource", type=click.Choice(_RESOURCES), help="The kind of resource."),
    ):
        command = option(command)
    return command


@command.command("list")
@connected
@_what
@listed(ACLS)
def list_acls(*, form: Format, **what: Any) -> int:
    """List access control entries: all, or those that match the options."""
    filters = _filters(**what)

    async def ask(admin: Any) -> list[AclBinding]:
        found: dict[AclBinding, None] = {}
        for each in filters:
            found |= dict.fromkeys(await admin.describe_acls(each))
        return list(found)

    ACLS.write(Target.current().run(ask), form)
    return 0


@command.command("add")
@connected
@_what
@click.option("--deny", is_flag=True, help="Deny instead of allow; a denial wins.")
@listed(ACLS)
def add(*, deny: bool, form: Format, **what: Any) -> int:
    """Add access control entries, one for each principal, name and operation."""
    from coterie.security.acls import AclBinding, PatternType, Permission

    acls = []
    for each in _filters(**what):
        if each.principal is None or each.resource_name is None or not each.operation > 1:
            raise click.UsageError(
                "give --resource, --name (but for the cluster), --principal and --operation"
            )
        literal = PatternType.LITERAL
        pattern = literal if each.pattern_type is PatternType.ANY else each.pattern_type
        permission = Permission.DENY if deny else Permission.ALLOW
        acl = AclBinding(
            each.resource_type,
            each.resource_name,
            pattern,
            each.principal,
            each.host or "*",
            each.operation,
            permission,
        )
        if why := acl.why_invalid():
            raise click.UsageError(why)
        acls.append(acl)
    missing = Missing()
    result = Target.current().run(lambda admin: admin.create_acls(acls))
    missing.add(result)
    ACLS.write(list(result.items), form)
    return missing.report(any_found=bool(result.items))


@command.command("remove")
@connected
@_what
@click.option("--execute", is_flag=True, help="Remove the entries. Without it they are only shown.")
@listed(ACLS)
def remove(*, execute: bool, form: Format, **what: Any) -> int:
    """Show the access control entries that match the options; with --execute remove them."""
    filters = _filters(**what)
    if not any(value for value in what.values()):
        raise click.UsageError("that would remove every entry; name a resource or a principal")

    async def work(admin: Any) -> list[AclBinding]:
        if execute:
            return list((await admin.delete_acls(filters)).unwrap())
        found: dict[AclBinding, None] = {}
        for each in filters:
            found |= dict.fromkeys(await admin.describe_acls(each))
        return list(found)

    ACLS.write(Target.current().run(work), form)
    if not execute:
        note("Nothing was removed; add --execute to remove these.")
    return 0


def _filters(
    *,
    resource: str | None,
    names: tuple[str, ...],
    prefix: bool,
    principals: tuple[str, ...],
    operations: tuple[str, ...],
    host: str | None,
) -> list[AclFilter]:
    """What the options mean, one filter for each combination."""
    from coterie.security import acls

    kind = acls.ResourceType.ANY if resource is None else acls.ResourceType.named(resource)
    assert kind is not None  # noqa: S101 - click has checked it
    if kind is acls.ResourceType.CLUSTER:
        names = (acls.CLUSTER_NAME,)
    pattern = acls.PatternType.PREFIXED if prefix else acls.PatternType.ANY
    found = []
    for operation in operations or ("Any",):
        code = acls.Operation.named(operation)
        if code is None:
            known = ", ".join(each.title for each in acls.Operation if each > 1)
            raise click.UsageError(f"there is no operation {operation!r}; there are {known}")
        found += [
            acls.AclFilter(kind, name, pattern, principal, host, code)
            for name in names or (None,)
            for principal in principals or (None,)
        ]
    return found
