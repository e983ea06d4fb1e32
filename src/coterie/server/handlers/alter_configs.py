"""AlterConfigs and IncrementalAlterConfigs: changes to settings, checked as Kafka checks them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    LegacyAlterConfigsResource,
)
from coterie.protocol.schema import Response
from coterie.server.metadata.topics import why_bad_name
from coterie.server.requests.calls import Call
from coterie.server.services import Services
from coterie.server.settings.brokers import (
    LOGGER_LEVELS,
    Refused,
    check_broker_id,
    check_broker_settings,
    logger_levels,
    set_logger_level,
)
from coterie.server.settings.catalog import Setting, catalog
from coterie.server.settings.cluster import ResourceKind
from coterie.server.settings.groups import why_bad_group_config
from coterie.server.settings.topics import why_bad_config

__all__ = ["alter_configs", "incremental_alter_configs"]

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_OPERATIONS: Final = {_APPEND: "APPEND", _SUBTRACT: "SUBTRACT"}

_INVALID: Final = ErrorCode.INVALID_REQUEST
_Resource = AlterConfigsResource | LegacyAlterConfigsResource


class _Change(NamedTuple):
    """What to do with one setting."""

    name: str
    operation: int
    value: str | None


def incremental_alter_configs(
    services: Services, call: Call, request: IncrementalAlterConfigsRequest
) -> Response:
    """IncrementalAlterConfigs 0-1."""
    responses = _alter_all(services, request.resources, dry=request.validate_only)
    return IncrementalAlterConfigsResponse(responses=responses)


def alter_configs(services: Services, call: Call, request: AlterConfigsRequest) -> Response:
    """AlterConfigs 0-2: what a resource has and the request does not name is removed."""
    responses = _alter_all(services, request.resources, dry=request.validate_only)
    return AlterConfigsResponse(responses=responses)


def _alter_all(
    services: Services, resources: Sequence[_Resource], *, dry: bool
) -> tuple[AlterConfigsResourceResponse, ...]:
    counts = Counter((each.resource_type, each.resource_name) for each in resources)
    responses = []
    for resource in resources:
        error, message = ErrorCode.NONE, None
        try:
            _alter(services, resource, counts, dry=dry)
        except Refused as refused:
            error, message = refused.error, str(refused) or None
        responses.append(
            AlterConfigsResourceResponse(
                error_code=error,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return tuple(responses)


def _alter(
    services: Services, resource: _Resource, counts: Mapping[tuple[int, str], int], *, dry: bool
) -> None:
    kind, name = resource.resource_type, resource.resource_name
    if counts[kind, name] > 1:
        raise Refused(_INVALID, "Each resource must appear at most once.")
    legacy = isinstance(resource, LegacyAlterConfigsResource)
    changes = _changes(resource)
    if kind == ResourceKind.BROKER_LOGGER and not legacy:
        _alter_loggers(services, name, changes, dry=dry)
    elif kind == ResourceKind.TOPIC:
        _alter_topic(services, name, changes, legacy=legacy, dry=dry)
    elif kind == ResourceKind.GROUP:
        _alter_group(services, name, changes, legacy=legacy, dry=dry)
    elif kind == ResourceKind.BROKER:
        _alter_broker(services, name, changes, legacy=legacy, dry=dry)
    else:
        raise Refused(_INVALID, f"Unknown resource type {kind}")


def _changes(resource: _Resource) -> list[_Change]:
    if len({each.name for each in resource.configs}) < len(resource.configs):
        raise Refused(_INVALID, "Error due to duplicate config keys")
    changes = [
        _Change(each.name, each.config_operation, each.value)
        if isinstance(each, AlterableConfig)
        else _Change(each.name, _SET, each.value)
        for each in resource.configs
    ]
    nulls = [each.name for each in changes if each.value is None and each.operation != _DELETE]
    if nulls:
        raise Refused(_INVALID, f"Null value not supported for : {', '.join(nulls)}")
    if any(not _SET <= each.operation <= _SUBTRACT for each in changes):
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "")
    return changes


def _applied(
    changes: Sequence[_Change],
    before: Mapping[str, str],
    known: Mapping[str, Setting],
    defaults: Mapping[str, str | None],
    *,
    legacy: bool,
    refusal: str,
) -> dict[str, str]:
    """The settings after the changes; `refusal` is the message for lists that are none."""
    after = {} if legacy else dict(before)
    for name, operation, value in changes:
        if operation == _DELETE:
            after.pop(name, None)
        elif operation == _SET:
            after[name] = value or ""
        else:
            if name not in known or not known[name].is_list:
                word = _OPERATIONS[operation]
                text = refusal.format(word, name, word=word.lower())
                raise Refused(ErrorCode.INVALID_CONFIG, text)
            items = [
                each for each in (after.get(name, defaults.get(name)) or "").split(",") if each
            ]
            given = (value or "").split(",")
            if operation == _APPEND:
                items = list(dict.fromkeys([*items, *given]))
            else:
                items = [each for each in items if each not in given]
            after[name] = ",".join(items)
    return after


_BY_CONTROLLER: Final = "Can't {} to key {} because its type is not LIST."
_BY_BROKER: Final = "Config value {word} is not allowed for config key: {1}"


def _alter_topic(
    services: Services, name: str, changes: Sequence[_Change], *, legacy: bool, dry: bool
) -> None:
    topic = services.metadata.topic(name)
    before = topic.configs if topic is not None else {}
    known, defaults = catalog().topic, services.broker_settings.topic_defaults
    after = _applied(changes, before, known, defaults, legacy=legacy, refusal=_BY_CONTROLLER)
    if not name:
        raise Refused(_INVALID, "Default topic resources are not allowed.")
    if why := why_bad_name(name):
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
    if why := why_bad_config(after):
        raise Refused(ErrorCode.INVALID_CONFIG, why)
    if topic is None:
        text = f"The topic '{name}' does not exist."
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    if not dry and after != topic.configs:
        services.partitions.change_configs(topic, after)


def _alter_group(
    services: Services, name: str, changes: Sequence[_Change], *, legacy: bool, dry: bool
) -> None:
    settings = services.settings
    before = settings.of(ResourceKind.GROUP, name)
    known = catalog().group
    after = _applied(changes, before, known, {}, legacy=legacy, refusal=_BY_CONTROLLER)
    if not name:
        raise Refused(_INVALID, "Default group resources are not allowed.")
    if why := why_bad_group_config(after, settings, services.node_id):
        raise Refused(ErrorCode.INVALID_CONFIG, why)
    if not dry:
        settings.change(ResourceKind.GROUP, name, _difference(before, after))


def _alter_broker(
    services: Services, name: str, changes: Sequence[_Change], *, legacy: bool, dry: bool
) -> None:
    settings = services.settings
    if name:
        check_broker_id(name, services.node_id, "{}, but received {}", "Node")
    before = settings.of(ResourceKind.BROKER, name)
    known = catalog().broker
    defaults = {each: known[each].default for each in known}
    after = _applied(changes, before, known, defaults, legacy=legacy, refusal=_BY_BROKER)
    difference = _difference(before, after)
    named = {each.name for each in changes}
    check_broker_settings(
        after, named | set(difference), settings.static.static_values, per_broker=bool(name)
    )
    if not dry:
        settings.change(ResourceKind.BROKER, name, difference)


def _difference(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    gone: dict[str, str | None] = {name: None for name in before if name not in after}
    return gone | {name: value for name, value in after.items() if before.get(name) != value}


def _alter_loggers(services: Services, name: str, changes: Sequence[_Change], *, dry: bool) -> None:
    try:
        check_broker_id(name, services.node_id, "", "Node")
    except Refused as refused:
        text = f"Unexpected node id. Expected {services.node_id}, but received {name}"
        raise Refused(_INVALID, str(refused) if "integer" in str(refused) else text) from None
    for logger, operation, level in changes:
        if operation not in (_SET, _DELETE):
            raise Refused(
                _INVALID,
                f"{_OPERATIONS[operation]} operation is not allowed for the BROKER_LOGGER resource",
            )
        if logger not in logger_levels():
            raise Refused(ErrorCode.INVALID_CONFIG, f"Logger {logger} does not exist!")
        if operation == _SET and level not in LOGGER_LEVELS:
            allowed = ", ".join(each for each in LOGGER_LEVELS if each != "OFF")
            raise Refused(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {logger} to {level} as it is not a supported log level. "
                f"Valid log levels are {allowed}",
            )
    if not dry:
        for logger, operation, level in changes:
            set_logger_level(logger, level if operation == _SET else None)
