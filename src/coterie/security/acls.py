"""Kafka's model of access control: resources, patterns, operations, and the entries that allow or deny.

Numbers and names are Kafka's (org.apache.kafka.common.acl). What an entry means is in
coterie.security.authorizer.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Self

import msgspec

__all__ = [
    "CLUSTER_NAME",
    "SUPPORTED_OPERATIONS",
    "WILDCARD",
    "AclBinding",
    "AclFilter",
    "Operation",
    "PatternType",
    "Permission",
    "ResourceType",
    "operation_bits",
]

WILDCARD: Final = "*"
#: The one resource of type Cluster.
CLUSTER_NAME: Final = "kafka-cluster"


class _Code(IntEnum):
    """A code of Kafka's; numbers that it does not know are UNKNOWN, as there."""

    @classmethod
    def of(cls, code: int) -> Self:
        try:
            return cls(code)
        except ValueError:
            return cls(0)

    @classmethod
    def named(cls, text: str) -> Self | None:
        """By name in any spelling: `DescribeConfigs`, `describe_configs`, `describe-configs`."""
        wanted = text.replace("_", "").replace("-", "").upper()
        return next((each for each in cls if each.name.replace("_", "") == wanted), None)

    @property
    def title(self) -> str:
        """As Kafka's documentation spells it: TransactionalId."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class ResourceType(_Code):
    """What an entry is about."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    """How the name of an entry is read."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(_Code):
    """What somebody wants to do."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(_Code):
    """Whether an entry allows or denies. A denial wins."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_O = Operation
#: What can be done to each kind of resource (Kafka's AclEntry).
SUPPORTED_OPERATIONS: Final[dict[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        _O.READ,
        _O.WRITE,
        _O.CREATE,
        _O.DELETE,
        _O.ALTER,
        _O.DESCRIBE,
        _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        _O.READ,
        _O.DELETE,
        _O.DESCRIBE,
        _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        _O.CREATE,
        _O.ALTER,
        _O.DESCRIBE,
        _O.CLUSTER_ACTION,
        _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS,
        _O.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (_O.WRITE, _O.DESCRIBE, _O.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (_O.DESCRIBE,),
    ResourceType.USER: (_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS),
}


def operation_bits(resource: ResourceType) -> int:
    """All operations on a resource as a bit set of their codes, as answers carry them."""
    return sum(1 << each for each in SUPPORTED_OPERATIONS[resource])


class AclBinding(msgspec.Struct, frozen=True, order=True):
    """One entry: this principal, from this host, may or may not do this to what the pattern names."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    @classmethod
    def of(  # noqa: PLR0917 - the order of the fields
        cls,
        resource_type: int,
        resource_name: str,
        pattern_type: int,
        principal: str,
        host: str,
        operation: int,
        permission: int,
    ) -> AclBinding:
        """An entry as messages and records have it: its kinds are numbers there."""
        return cls(
            ResourceType.of(resource_type),
            resource_name,
            PatternType.of(pattern_type),
            principal,
            host,
            Operation.of(operation),
            Permission.of(permission),
        )

    def why_invalid(self) -> str | None:
        """Why Kafka would not keep it, in Kafka's words, or None."""
        no_colon = (
            f"Could not parse principal from `{self.principal}` (no colon is present separating "
            "the principal type from the principal name)"
        )
        wrong = {
            f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}": (
                self.resource_type is ResourceType.CLUSTER and self.resource_name != CLUSTER_NAME
            ),
            "Invalid empty resource name": not self.resource_name,
            f"Invalid resourceType {self.resource_type.name}": self.resource_type
            <= ResourceType.ANY,
            f"Invalid patternType {self.pattern_type.name}": self.pattern_type <= PatternType.MATCH,
            f"Invalid operation {self.operation.name}": self.operation <= Operation.ANY,
            f"Invalid permissionType {self.permission.name}": self.permission <= Permission.ANY,
            no_colon: ":" not in self.principal,
        }
        return next((why for why, is_so in wrong.items() if is_so), None)

    def __str__(self) -> str:
        return (
            f"{self.principal} {self.permission.name.lower()} {self.operation.title} on "
            f"{self.resource_type.title} {self.pattern_type.name.lower()} {self.resource_name!r} "
            f"from {self.host}"
        )


class AclFilter(msgspec.Struct, frozen=True):
    """Which entries are meant; None and ANY stand for all."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    @property
    def unknown(self) -> str | None:
        """Which half has a code that is not known; Kafka refuses such a filter."""
        if not self.resource_type or not self.pattern_type:
            return "patternFilter"
        return None if self.operation and self.permission else "entryFilter"

    def __str__(self) -> str:
        return (
            f"{self.principal or 'anybody'} {self.permission.name.lower()} {self.operation.title} on "
            f"{self.resource_type.title} {self.pattern_type.name.lower()} {self.resource_name or 'any'!r} "
            f"from {self.host or 'anywhere'}"
        )

    def matches(self, acl: AclBinding) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_pattern(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_pattern(self, acl: AclBinding) -> bool:
        name = self.resource_name
        if self.pattern_type is PatternType.MATCH and name is not None:
            # All entries that would have a say about a resource of this name.
            if acl.pattern_type is PatternType.PREFIXED:
                return name.startswith(acl.resource_name)
            return acl.resource_name in (name, WILDCARD)
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        return name is None or name == acl.resource_name
