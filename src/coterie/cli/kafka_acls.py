"""`kafka-acls`: the common forms of Kafka's own tool, with its options, its words and its exit codes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import click

from coterie.client.admin import AdminClient
from coterie.client.settings import ClientSettings, read_properties
from coterie.console.terminal import ExitCode, buffer_stdout
from coterie.errors import CoterieError
from coterie.security.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

__all__ = ["main"]

F = TypeVar("F", bound=Callable[..., Any])

_O, _R = Operation, ResourceType
_Pattern = tuple[ResourceType, str, PatternType]
_Entry = tuple[str, str, Operation, Permission]

_NO_RESOURCE: Final = (
    "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
    "--delegation-token <Delegation Token ID>"
)


def _many(name: str, help_: str) -> Callable[[F], F]:
    return click.option(name, multiple=True, help=help_)


@click.command("kafka-acls", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--bootstrap-server", required=True, help="host:port of one broker or more.")
@click.option("--command-config", help="A client.properties file.")
@click.option("--add", is_flag=True, help="Add ACLs.")
@click.option("--remove", is_flag=True, help="Remove ACLs.")
@click.option("--list", "list_", is_flag=True, help="List ACLs.")
@_many("--topic", "A topic, or '*'.")
@_many("--group", "A group, or '*'.")
@_many("--transactional-id", "A transactional id, or '*'.")
@_many("--delegation-token", "A delegation token, or '*'.")
@_many("--user-principal", "A user, for tokens.")
@click.option("--cluster", is_flag=True, help="The cluster.")
@click.option("--resource-pattern-type", default="literal", help="literal, prefixed, any or match.")
@_many("--operation", "Such as Read, Describe or All.")
@_many("--allow-principal", "A principal, such as User:alice.")
@_many("--deny-principal", "A principal, such as User:alice.")
@_many("--allow-host", "An address, or '*'.")
@_many("--deny-host", "An address, or '*'.")
@_many("--principal", "List only what is for these principals.")
@click.option("--producer", is_flag=True, help="All that a producer needs.")
@click.option("--consumer", is_flag=True, help="All that a consumer needs.")
@click.option("--idempotent", is_flag=True, help="With --producer: IdempotentWrite.")
@click.option("--force", is_flag=True, help="Do not ask.")
def command(**options: Any) -> int:
    """This tool helps to manage acls on kafka."""
    actions = [options["add"], options["remove"], options["list_"]]
    if sum(actions) != 1:
        raise click.UsageError("Command must include exactly one action: --list, --add, --remove.")
    properties: dict[str, object] = {}
    if options["command_config"]:
        given = read_properties(options["command_config"])
        properties = {name: v for name, v in given.items() if ClientSettings.knows(name)}
    properties["bootstrap.servers"] = options["bootstrap_server"]
    tool = _Tool(options)

    async def work() -> None:
        async with AdminClient(properties) as admin:
            await tool.run(admin)

    asyncio.run(work())
    return 0


class _Tool:
    """One run of the tool."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        pattern = PatternType.named(options["resource_pattern_type"])
        if pattern is None or not pattern:
            raise click.UsageError(
                f"{options['resource_pattern_type']} is not a valid resource pattern type"
            )
        self._pattern = pattern
        self._resources = self._named()
        if options["add"] and pattern < PatternType.LITERAL:
            raise click.UsageError(
                f"A '--resource-pattern-type' value of '{pattern.name}' is not valid when adding acls."
            )
        self._acls = {} if options["list_"] else self._wanted()

    async def run(self, admin: AdminClient) -> None:
        if self._options["add"]:
            await self._add(admin)
        elif self._options["remove"]:
            await self._remove(admin)
        else:
            await self._list(admin)

    # -- what is meant --------------------------------------------------------------------------------

    def _named(self) -> list[_Pattern]:
        options = self._options
        kinds = {
            _R.TOPIC: options["topic"],
            _R.GROUP: options["group"],
            _R.TRANSACTIONAL_ID: options["transactional_id"],
            _R.DELEGATION_TOKEN: options["delegation_token"],
            _R.USER: options["user_principal"],
        }
        found = [
            (kind, name.strip(), self._pattern) for kind, names in kinds.items() for name in names
        ]
        if self._pattern is PatternType.LITERAL and (options["cluster"] or options["idempotent"]):
            found.append((_R.CLUSTER, CLUSTER_NAME, PatternType.LITERAL))
        if not found and not options["list_"]:
            raise click.UsageError(_NO_RESOURCE)
        return found

    def _wanted(self) -> dict[_Pattern, set[_Entry]]:
        options = self._options
        wanted: dict[_Pattern, set[_Entry]] = {}
        for resource in self._resources:
            operations = self._operations(resource[0])
            if operations is None:
                continue
            valid = {*SUPPORTED_OPERATIONS[resource[0]], _O.ALL}
            if not operations <= valid:
                names = ", ".join(each.title for each in sorted(valid))
                raise click.UsageError(
                    f"ResourceType {resource[0].name} only supports operations {names}"
                )
            wanted[resource] = self._entries(operations)
        if options["add"] and not all(wanted.values()):
            raise click.UsageError(
                "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
            )
        return wanted

    def _operations(self, kind: ResourceType) -> set[Operation] | None:
        """What is to be allowed on a kind of resource; None if it is not meant."""
        options = self._options
        if options["producer"] or options["consumer"]:
            found: set[Operation] = set()
            if options["producer"]:
                found |= {
                    _R.TOPIC: {_O.WRITE, _O.DESCRIBE, _O.CREATE},
                    _R.TRANSACTIONAL_ID: {_O.WRITE, _O.DESCRIBE},
                    _R.CLUSTER: {_O.IDEMPOTENT_WRITE} if options["idempotent"] else set(),
                }.get(kind, set())
            if options["consumer"]:
                found |= {_R.TOPIC: {_O.READ, _O.DESCRIBE}, _R.GROUP: {_O.READ}}.get(kind, set())
            return found or None
        found = set()
        for name in options["operation"] or ("All",):
            operation = Operation.named(name.strip())
            if operation is None or operation <= _O.ANY:
                raise click.UsageError(f"Unknown operation {name}")
            found.add(operation)
        return found

    def _entries(self, operations: Iterable[Operation]) -> set[_Entry]:
        options = self._options
        entries = set()
        for word, permission in (("allow", Permission.ALLOW), ("deny", Permission.DENY)):
            for principal in options[f"{word}_principal"]:
                for host in options[f"{word}_host"] or ("*",):
                    for operation in operations:
                        entries.add((principal.strip(), host.strip(), operation, permission))
        return entries

    # -- actions --------------------------------------------------------------------------------------

    async def _add(self, admin: AdminClient) -> None:
        for resource, entries in self._acls.items():
            click.echo(f"Adding ACLs for resource `{_spelled(resource)}`: \n {_lines(entries)} \n")
            kind, name, pattern = resource
            acls = [AclBinding(kind, name, pattern, *entry) for entry in entries]
            (await admin.create_acls(acls)).unwrap()

    async def _remove(self, admin: AdminClient) -> None:
        for resource, entries in self._acls.items():
            shown = _spelled(resource, "ResourcePattern")
            if entries:
                question = (
                    f"Are you sure you want to remove ACLs: \n {_lines(entries)} \n "
                    f"from resource filter `{shown}`? (y/n)"
                )
            else:
                question = (
                    f"Are you sure you want to delete all ACLs for resource filter `{shown}`? (y/n)"
                )
            if not self._confirmed(question):
                continue
            kind, name, pattern = resource
            filters = [AclFilter(kind, name, pattern, *entry) for entry in entries]
            filters = filters or [AclFilter(kind, name, pattern)]
            (await admin.delete_acls(filters)).unwrap()

    def _confirmed(self, question: str) -> bool:
        if self._options["force"]:
            return True
        click.echo(question)
        return sys.stdin.readline().strip().lower() == "y"

    async def _list(self, admin: AdminClient) -> None:
        filters = [AclFilter(kind, name, pattern) for kind, name, pattern in self._resources]
        found: dict[AclBinding, None] = {}
        for each in filters or [AclFilter()]:
            found |= dict.fromkeys(await admin.describe_acls(each))
        principals = self._options["principal"]
        if not principals:
            _show(found)
        for principal in principals:
            click.echo(f"ACLs for principal `{principal.strip()}`")
            _show(acl for acl in found if acl.principal == principal.strip())


def _show(acls: Iterable[AclBinding]) -> None:
    by_resource: dict[_Pattern, set[_Entry]] = {}
    for acl in acls:
        resource = (acl.resource_type, acl.resource_name, acl.pattern_type)
        entry = (acl.principal, acl.host, acl.operation, acl.permission)
        by_resource.setdefault(resource, set()).add(entry)
    for resource, entries in by_resource.items():
        click.echo(f"Current ACLs for resource `{_spelled(resource)}`: \n {_lines(entries)} \n")


def _spelled(resource: _Pattern, word: str = "ResourcePattern") -> str:
    kind, name, pattern = resource
    return f"{word}(resourceType={kind.name}, name={name}, patternType={pattern.name})"


def _lines(entries: Iterable[_Entry]) -> str:
    return "\n".join(
        f"\t(principal={principal}, host={host}, operation={operation.name}, "
        f"permissionType={permission.name})"
        for principal, host, operation, permission in sorted(entries)
    )


def main(arguments: list[str] | None = None) -> None:
    """Run the tool; 1 for every failure, as Kafka's."""
    buffer_stdout()
    try:
        command.main(args=arguments, prog_name="kafka-acls", standalone_mode=False)
        code: int = ExitCode.DONE
    except click.exceptions.Exit as done:
        code = done.exit_code
    except click.ClickException as error:
        error.show()
        code = ExitCode.FAILED
    except CoterieError as error:
        click.echo(f"Error while executing ACL command: {error}")
        code = ExitCode.FAILED
    except (click.Abort, KeyboardInterrupt):
        code = ExitCode.INTERRUPTED
    sys.exit(code)
