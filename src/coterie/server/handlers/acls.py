"""ACLs: DescribeAcls, CreateAcls, DeleteAcls. What they mean is in coterie.security.authorizer."""

from __future__ import annotations

from itertools import groupby

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.acls import (
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from coterie.protocol.schema import Response
from coterie.security.acls import AclBinding
from coterie.server.requests.calls import Call
from coterie.server.security.records import binding_of, filter_of
from coterie.server.services import Services

__all__ = ["create_acls", "delete_acls", "describe_acls"]

_OFF = "No Authorizer is configured."


def describe_acls(services: Services, call: Call, request: DescribeAclsRequest) -> Response:
    """DescribeAcls 1-3."""
    authorizer = services.security.authorizer
    if authorizer is None:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED,
            error_message="No Authorizer is configured on the broker",
        )
    wanted = filter_of(request)
    if wanted.unknown:
        return DescribeAclsResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message=f"Unknown {wanted.unknown}."
        )
    found = sorted(authorizer.find(wanted))
    by_resource = groupby(found, key=lambda a: (a.resource_type, a.resource_name, a.pattern_type))
    return DescribeAclsResponse(
        error_message=None,
        resources=tuple(
            DescribeAclsResource(
                *resource,
                tuple(
                    AclDescription(acl.principal, acl.host, acl.operation, acl.permission)
                    for acl in acls
                ),
            )
            for resource, acls in by_resource
        ),
    )


def create_acls(services: Services, call: Call, request: CreateAclsRequest) -> Response:
    """CreateAcls 1-3: each with its own result; one that exists already is not an error."""
    security = services.security
    if security.authorizer is None:
        off = AclCreationResult(ErrorCode.SECURITY_DISABLED, _OFF)
        return CreateAclsResponse(results=(off,) * len(request.creations))
    results = []
    new: list[AclBinding] = []
    for creation in request.creations:
        acl = binding_of(creation)
        why = acl.why_invalid()
        if why is None:
            new.append(acl)
        error = ErrorCode.INVALID_REQUEST if why else ErrorCode.NONE
        results.append(AclCreationResult(error, why))
    security.add_acls(new)
    return CreateAclsResponse(results=tuple(results))


def delete_acls(services: Services, call: Call, request: DeleteAclsRequest) -> Response:
    """DeleteAcls 1-3: all that match any of the filters, and for each filter what it matched."""
    security = services.security
    authorizer = security.authorizer
    if authorizer is None:
        off = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, _OFF)
        return DeleteAclsResponse(filter_results=(off,) * len(request.filters))
    results = []
    gone: dict[AclBinding, None] = {}
    for each in request.filters:
        wanted = filter_of(each)
        if wanted.unknown:
            why = f"Unknown {wanted.unknown}."
            results.append(DeleteAclsFilterResult(ErrorCode.INVALID_REQUEST, why))
            continue
        found = authorizer.find(wanted)
        gone |= dict.fromkeys(found)
        results.append(
            DeleteAclsFilterResult(
                error_message=None, matching_acls=tuple(_matched(acl) for acl in found)
            )
        )
    security.remove_acls(gone)
    return DeleteAclsResponse(filter_results=tuple(results))


def _matched(acl: AclBinding) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
