"""Client quotas: DescribeClientQuotas, AlterClientQuotas (KIP-546)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.quotas import (
    AlterClientQuotasEntryResponse,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ComponentData,
    DescribeClientQuotasEntry,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    ValueData,
)
from coterie.protocol.schema import Response
from coterie.server.metadata.client_quotas import (
    CLIENT_ID,
    IP,
    USER,
    Entity,
    entity_text,
    why_invalid,
)
from coterie.server.requests.calls import Call
from coterie.server.services import Services

__all__ = ["alter_client_quotas", "describe_client_quotas"]

_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2
_MATCH_TYPES: Final = {
    _EXACT: "MATCH_TYPE_EXACT",
    _DEFAULT: "MATCH_TYPE_DEFAULT",
    _SPECIFIED: "MATCH_TYPE_SPECIFIED",
}

_IP_WITH_OTHERS: Final = (
    "Invalid entity filter component combination. IP filter component should not be used with "
    "user or clientId filter component."
)


def describe_client_quotas(
    services: Services, call: Call, request: DescribeClientQuotasRequest
) -> Response:
    """DescribeClientQuotas 0-1."""
    wrong = _why_wrong_filter(request.components)
    if wrong is not None:
        code, why = wrong
        return DescribeClientQuotasResponse(error_code=code, error_message=why, entries=None)
    entries = tuple(
        DescribeClientQuotasEntry(
            tuple(EntityData(*part) for part in sorted(entity, key=lambda part: part[0])),
            tuple(ValueData(key, value) for key, value in values.items()),
        )
        for entity, values in services.quotas
        if _matches(dict(entity), request)
    )
    return DescribeClientQuotasResponse(entries=entries)


def _why_wrong_filter(components: Sequence[ComponentData]) -> tuple[ErrorCode, str] | None:
    """Why a filter cannot be used, with Kafka's error message."""
    seen: set[str] = set()
    for each in components:
        wrong = _why_wrong_component(each, seen)
        if wrong is not None:
            return wrong
        seen.add(each.entity_type)
    if IP in seen and len(seen) > 1:
        return ErrorCode.INVALID_REQUEST, _IP_WITH_OTHERS
    return None


def _why_wrong_component(each: ComponentData, seen: set[str]) -> tuple[ErrorCode, str] | None:
    kind = each.entity_type
    match_type = _MATCH_TYPES.get(each.match_type)
    invalid = ErrorCode.INVALID_REQUEST
    exact = each.match_type == _EXACT
    wrong: tuple[tuple[bool, ErrorCode, str], ...] = (
        (not kind, invalid, "Invalid empty entity type."),
        (kind in seen, invalid, f"Entity type {kind} cannot appear more than once in the filter."),
        (
            kind not in (USER, CLIENT_ID, IP),
            ErrorCode.UNSUPPORTED_VERSION,
            f"Unsupported entity type {kind}",
        ),
        (match_type is None, invalid, f"Unknown match type {each.match_type}"),
        (
            exact and each.match is None,
            invalid,
            f"Request specified {match_type}, but set match string to null.",
        ),
        (
            not exact and each.match is not None,
            invalid,
            f"Request specified {match_type}, but also specified a match string.",
        ),
    )
    return next(((code, why) for is_so, code, why in wrong if is_so), None)


def _matches(entity: dict[str, str | None], request: DescribeClientQuotasRequest) -> bool:
    """Whether an entity has all parts of the filter; if the filter is strict, and no others."""
    if request.strict and len(entity) != len(request.components):
        return False
    if request.strict and not request.components:
        return False
    return all(
        each.entity_type in entity
        and (each.match_type == _SPECIFIED or entity[each.entity_type] == each.match)
        for each in request.components
    )


def alter_client_quotas(
    services: Services, call: Call, request: AlterClientQuotasRequest
) -> Response:
    """AlterClientQuotas 0-1: valid entries are applied in one change, others get an error."""
    changes: dict[Entity, dict[str, float | None]] = {}
    errors: dict[Entity, str | None] = {}
    named: dict[Entity, tuple[EntityData, ...]] = {}
    for entry in request.entries:
        # As in Kafka, the last name counts if a type is repeated.
        parts = {each.entity_type: each.entity_name for each in entry.entity}
        entity: Entity = frozenset(parts.items())
        named.setdefault(entity, tuple(EntityData(*part) for part in parts.items()))
        values = {each.key: None if each.remove else each.value for each in entry.ops}
        if entity in errors or len(values) < len(entry.ops):
            errors[entity] = f"Ignoring duplicate entity {entity_text(parts.items())}"
            continue
        errors[entity] = why_invalid(entity, values)
        if errors[entity] is None:
            changes[entity] = values
    if not request.validate_only:
        services.quotas.alter(changes.items())
    return AlterClientQuotasResponse(
        entries=tuple(
            AlterClientQuotasEntryResponse(
                ErrorCode.NONE if why is None else ErrorCode.INVALID_REQUEST, why, named[entity]
            )
            for entity, why in errors.items()
        )
    )
