"""ACLs as requests carry them, read into the model."""

from __future__ import annotations

import msgspec

from coterie.protocol.messages.acls import AclCreation, DeleteAclsFilter, DescribeAclsRequest
from coterie.security.acls import (
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

__all__ = ["binding_of", "filter_of"]


def binding_of(creation: AclCreation) -> AclBinding:
    return AclBinding.of(*msgspec.structs.astuple(creation))


def filter_of(given: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        ResourceType.of(given.resource_type_filter),
        given.resource_name_filter,
        PatternType.of(given.pattern_type_filter),
        given.principal_filter,
        given.host_filter,
        Operation.of(given.operation),
        Permission.of(given.permission_type),
    )
