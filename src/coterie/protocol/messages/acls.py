"""Who may do what: ACLs and SCRAM credentials."""

from __future__ import annotations

from coterie.protocol.schema import Request, Response, Struct, field
from coterie.protocol.types import Int8, Int16, Int32

__all__ = [
    "AclCreation",
    "AclCreationResult",
    "AclDescription",
    "AlterUserScramCredentialsRequest",
    "AlterUserScramCredentialsResponse",
    "AlterUserScramCredentialsResult",
    "CreateAclsRequest",
    "CreateAclsResponse",
    "CredentialInfo",
    "DeleteAclsFilter",
    "DeleteAclsFilterResult",
    "DeleteAclsMatchingAcl",
    "DeleteAclsRequest",
    "DeleteAclsResponse",
    "DescribeAclsRequest",
    "DescribeAclsResource",
    "DescribeAclsResponse",
    "DescribeUserScramCredentialsRequest",
    "DescribeUserScramCredentialsResponse",
    "DescribeUserScramCredentialsResult",
    "ScramCredentialDeletion",
    "ScramCredentialUpsertion",
    "UserName",
]


class DescribeAclsRequest(Request, key=29, versions="1-3", flexible="2+"):
    """Looks up the access control entries that match one filter."""

    resource_type_filter: Int8 = field(
        "0+", "Type to match: 1 any, 2 topic, 3 group, 4 cluster, 7 user.", default=0
    )
    resource_name_filter: str | None = field(
        "0+", "Resource name to match; null matches all.", default="", nullable="0+"
    )
    pattern_type_filter: Int8 = field(
        "1+", "Pattern to match: 1 any, 2 all that apply, 3 literal, 4 prefix.", default=3
    )
    principal_filter: str | None = field(
        "0+", "Principal to match; null matches all.", default="", nullable="0+"
    )
    host_filter: str | None = field(
        "0+", "Client host to match; null matches all.", default="", nullable="0+"
    )
    operation: Int8 = field(
        "0+", "Operation to match: 1 any, 2 all, 3 read, 4 write, 8 describe.", default=0
    )
    permission_type: Int8 = field("0+", "Permission to match: 1 any, 2 deny, 3 allow.", default=0)


class AclDescription(Struct):
    """One access control entry of the resource."""

    principal: str = field("0+", "Principal the entry is for, such as User:alice.", default="")
    host: str = field("0+", "Client host the entry is for; * stands for every host.", default="")
    operation: Int8 = field(
        "0+", "Operation code: 2 all, 3 read, 4 write, 6 delete, 8 describe.", default=0
    )
    permission_type: Int8 = field("0+", "Permission: 2 denies, 3 allows; a denial wins.", default=0)


class DescribeAclsResource(Struct):
    """Resource pattern that has matching entries."""

    resource_type: Int8 = field(
        "0+", "Type: 2 topic, 3 group, 4 cluster, 5 transactional id, 7 user.", default=0
    )
    resource_name: str = field(
        "0+", "Name or prefix of the resource; * stands for every name.", default=""
    )
    pattern_type: Int8 = field(
        "1+", "How the resource name is read: 3 literal, 4 prefix.", default=3
    )
    acls: tuple[AclDescription, ...] = field("0+", "Entries of the resource.", default=())


class DescribeAclsResponse(Response, key=29, versions="1-3", flexible="2+"):
    """Access control entries that matched, grouped by resource."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    error_code: Int16 = field(
        "0+", "SECURITY_DISABLED without an authorizer; 0 when all is well.", default=0
    )
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default="", nullable="0+"
    )
    resources: tuple[DescribeAclsResource, ...] = field(
        "0+", "Resource patterns with matching entries.", default=()
    )


class AclCreation(Struct):
    """One access control entry to add."""

    resource_type: Int8 = field(
        "0+", "Type: 2 topic, 3 group, 4 cluster, 5 transactional id, 7 user.", default=0
    )
    resource_name: str = field(
        "0+", "Name or prefix of the resource; * stands for every name.", default=""
    )
    resource_pattern_type: Int8 = field(
        "1+", "How the resource name is read: 3 literal, 4 prefix.", default=3
    )
    principal: str = field("0+", "Principal the entry is for, such as User:alice.", default="")
    host: str = field("0+", "Client host the entry is for; * stands for every host.", default="")
    operation: Int8 = field(
        "0+", "Operation code: 2 all, 3 read, 4 write, 6 delete, 8 describe.", default=0
    )
    permission_type: Int8 = field("0+", "Permission: 2 denies, 3 allows; a denial wins.", default=0)


class CreateAclsRequest(Request, key=30, versions="1-3", flexible="2+"):
    """Adds access control entries; needs ALTER on the cluster."""

    creations: tuple[AclCreation, ...] = field("0+", "Entries to add.", default=())


class AclCreationResult(Struct):
    """Result for one access control entry."""

    error_code: Int16 = field(
        "0+", "SECURITY_DISABLED without an authorizer; 0 when all is well.", default=0
    )
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default="", nullable="0+"
    )


class CreateAclsResponse(Response, key=30, versions="1-3", flexible="2+"):
    """Outcome of each requested access control entry, in request order."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    results: tuple[AclCreationResult, ...] = field(
        "0+", "One result per entry, in request order.", default=()
    )


class DeleteAclsFilter(Struct):
    """Filter for the access control entries to remove."""

    resource_type_filter: Int8 = field(
        "0+", "Type to match: 1 any, 2 topic, 3 group, 4 cluster, 7 user.", default=0
    )
    resource_name_filter: str | None = field(
        "0+", "Resource name to match; null matches all.", default="", nullable="0+"
    )
    pattern_type_filter: Int8 = field(
        "1+", "Pattern to match: 1 any, 2 all that apply, 3 literal, 4 prefix.", default=3
    )
    principal_filter: str | None = field(
        "0+", "Principal to match; null matches all.", default="", nullable="0+"
    )
    host_filter: str | None = field(
        "0+", "Client host to match; null matches all.", default="", nullable="0+"
    )
    operation: Int8 = field(
        "0+", "Operation to match: 1 any, 2 all, 3 read, 4 write, 8 describe.", default=0
    )
    permission_type: Int8 = field("0+", "Permission to match: 1 any, 2 deny, 3 allow.", default=0)


class DeleteAclsRequest(Request, key=31, versions="1-3", flexible="2+"):
    """Removes the access control entries that match any of the filters."""

    filters: tuple[DeleteAclsFilter, ...] = field(
        "0+", "Filters; an entry that matches any of them is removed.", default=()
    )


class DeleteAclsMatchingAcl(Struct):
    """Matched entry and whether it was removed."""

    error_code: Int16 = field("0+", "Why the entry could not be removed; 0 if it was.", default=0)
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default="", nullable="0+"
    )
    resource_type: Int8 = field(
        "0+", "Type: 2 topic, 3 group, 4 cluster, 5 transactional id, 7 user.", default=0
    )
    resource_name: str = field(
        "0+", "Name or prefix of the resource; * stands for every name.", default=""
    )
    pattern_type: Int8 = field(
        "1+", "How the resource name is read: 3 literal, 4 prefix.", default=3
    )
    principal: str = field("0+", "Principal the entry is for, such as User:alice.", default="")
    host: str = field("0+", "Client host the entry is for; * stands for every host.", default="")
    operation: Int8 = field(
        "0+", "Operation code: 2 all, 3 read, 4 write, 6 delete, 8 describe.", default=0
    )
    permission_type: Int8 = field("0+", "Permission: 2 denies, 3 allows; a denial wins.", default=0)


class DeleteAclsFilterResult(Struct):
    """What one filter matched."""

    error_code: Int16 = field(
        "0+", "Error for the filter; 0 even if it matched nothing.", default=0
    )
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default="", nullable="0+"
    )
    matching_acls: tuple[DeleteAclsMatchingAcl, ...] = field(
        "0+", "Entries that the filter matched.", default=()
    )


class DeleteAclsResponse(Response, key=31, versions="1-3", flexible="2+"):
    """Removed access control entries, listed per filter."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    filter_results: tuple[DeleteAclsFilterResult, ...] = field(
        "0+", "One result per filter, in request order.", default=()
    )


class UserName(Struct):
    """User to look up."""

    name: str = field("0+", "Name of the user.", default="")


class DescribeUserScramCredentialsRequest(Request, key=50, versions="0", flexible="0+"):
    """Asks which SCRAM credentials users have."""

    users: tuple[UserName, ...] | None = field(
        "0+", "Users to look up; null or empty asks for all.", default=(), nullable="0+"
    )


class CredentialInfo(Struct):
    """Mechanism and strength of one credential."""

    mechanism: Int8 = field(
        "0+", "SCRAM mechanism: 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512.", default=0
    )
    iterations: Int32 = field("0+", "Number of SCRAM hash rounds.", default=0)


class DescribeUserScramCredentialsResult(Struct):
    """Credentials of one user, or the error."""

    user: str = field("0+", "Name of the user.", default="")
    error_code: Int16 = field(
        "0+", "RESOURCE_NOT_FOUND if the user has none; 0 when all is well.", default=0
    )
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default="", nullable="0+"
    )
    credential_infos: tuple[CredentialInfo, ...] = field(
        "0+", "Credentials that the user has.", default=()
    )


class DescribeUserScramCredentialsResponse(Response, key=50, versions="0", flexible="0+"):
    """Mechanisms and iteration counts per user; never the secrets."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    error_code: Int16 = field("0+", "Error for the whole request; 0 when all is well.", default=0)
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default="", nullable="0+"
    )
    results: tuple[DescribeUserScramCredentialsResult, ...] = field(
        "0+", "One result per user.", default=()
    )


class ScramCredentialDeletion(Struct):
    """Credential to remove: a user and a mechanism."""

    name: str = field("0+", "Name of the user who loses the credential.", default="")
    mechanism: Int8 = field(
        "0+", "SCRAM mechanism: 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512.", default=0
    )


class ScramCredentialUpsertion(Struct):
    """Credential to add, or to put in place of an old one."""

    name: str = field("0+", "Name of the user who gets the credential.", default="")
    mechanism: Int8 = field(
        "0+", "SCRAM mechanism: 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512.", default=0
    )
    iterations: Int32 = field(
        "0+", "Number of SCRAM hash rounds; the broker wants at least 4096.", default=0
    )
    salt: bytes = field("0+", "Random salt that the client chose.", default=b"")
    salted_password: bytes = field(
        "0+", "Password after salting and hashing; never the plain text.", default=b""
    )

    def __repr__(self) -> str:
        return f"ScramCredentialUpsertion(name={self.name!r}, [hidden])"  # what is salted opens as well


class AlterUserScramCredentialsRequest(Request, key=51, versions="0", flexible="0+"):
    """Deletes, adds or replaces SCRAM credentials of users."""

    deletions: tuple[ScramCredentialDeletion, ...] = field(
        "0+", "Credentials to remove.", default=()
    )
    upsertions: tuple[ScramCredentialUpsertion, ...] = field(
        "0+", "Credentials to add or replace.", default=()
    )


class AlterUserScramCredentialsResult(Struct):
    """Result for one user."""

    user: str = field("0+", "Name of the user.", default="")
    error_code: Int16 = field("0+", "Error code; 0 when all is well.", default=0)
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default="", nullable="0+"
    )


class AlterUserScramCredentialsResponse(Response, key=51, versions="0", flexible="0+"):
    """Outcome per user of changing SCRAM credentials."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    results: tuple[AlterUserScramCredentialsResult, ...] = field(
        "0+", "One result per user.", default=()
    )
