"""Client quotas (KIP-546): describe and alter."""

from __future__ import annotations

from coterie.protocol.schema import Request, Response, Struct, field
from coterie.protocol.types import Float64, Int8, Int16, Int32

__all__ = [
    "AlterClientQuotasEntry",
    "AlterClientQuotasEntryResponse",
    "AlterClientQuotasRequest",
    "AlterClientQuotasResponse",
    "ComponentData",
    "DescribeClientQuotasEntry",
    "DescribeClientQuotasRequest",
    "DescribeClientQuotasResponse",
    "EntityData",
    "OpData",
    "ValueData",
]


class ComponentData(Struct):
    """Filter on one part of the entity."""

    entity_type: str = field("0+", "Type of the entity: user, client-id or ip.", default="")
    match_type: Int8 = field("0+", "0 exact name, 1 default name, 2 any name.", default=0)
    match: str | None = field(
        "0+", "Name to match; null if the match type does not need one.", default="", nullable="0+"
    )


class DescribeClientQuotasRequest(Request, key=48, versions="0-1", flexible="1+"):
    """Lists client quotas that match all filters."""

    components: tuple[ComponentData, ...] = field(
        "0+", "Filters on the entity; all must match.", default=()
    )
    strict: bool = field(
        "0+", "True leaves out entities with other types in addition.", default=False
    )


class EntityData(Struct):
    """One part of an entity."""

    entity_type: str = field("0+", "Type of the entity: user, client-id or ip.", default="")
    entity_name: str | None = field(
        "0+", "Name of the entity; null for the default.", default="", nullable="0+"
    )


class ValueData(Struct):
    """One quota."""

    key: str = field("0+", "Name of the quota.", default="")
    value: Float64 = field("0+", "Value of the quota.", default=0.0)


class DescribeClientQuotasEntry(Struct):
    """Quotas of one entity."""

    entity: tuple[EntityData, ...] = field("0+", "The parts that name the entity.", default=())
    values: tuple[ValueData, ...] = field("0+", "The quotas of the entity.", default=())


class DescribeClientQuotasResponse(Response, key=48, versions="0-1", flexible="1+"):
    """Quotas by entity."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    error_code: Int16 = field("0+", "0, or the error.", default=0)
    error_message: str | None = field(
        "0+", "Explanation for people; null if there is no error.", default="", nullable="0+"
    )
    entries: tuple[DescribeClientQuotasEntry, ...] | None = field(
        "0+", "One entry per entity.", default=(), nullable="0+"
    )


class OpData(Struct):
    """Change to one quota."""

    key: str = field("0+", "Name of the quota.", default="")
    value: Float64 = field("0+", "Value of the quota.", default=0.0)
    remove: bool = field("0+", "True removes the quota.", default=False)


class AlterClientQuotasEntry(Struct):
    """Changes to the quotas of one entity."""

    entity: tuple[EntityData, ...] = field("0+", "The parts that name the entity.", default=())
    ops: tuple[OpData, ...] = field("0+", "Changes to the quotas of the entity.", default=())


class AlterClientQuotasRequest(Request, key=49, versions="0-1", flexible="1+"):
    """Changes client quotas."""

    entries: tuple[AlterClientQuotasEntry, ...] = field("0+", "One entry per entity.", default=())
    validate_only: bool = field("0+", "True checks the request and changes nothing.", default=False)


class AlterClientQuotasEntryResponse(Struct):
    """Outcome for one entity."""

    error_code: Int16 = field("0+", "0, or the error.", default=0)
    error_message: str | None = field(
        "0+", "Explanation for people; null if there is no error.", default="", nullable="0+"
    )
    entity: tuple[EntityData, ...] = field("0+", "The parts that name the entity.", default=())


class AlterClientQuotasResponse(Response, key=49, versions="0-1", flexible="1+"):
    """Outcome for each entity."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    entries: tuple[AlterClientQuotasEntryResponse, ...] = field(
        "0+", "One entry per entity.", default=()
    )
