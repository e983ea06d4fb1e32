"""Settings: DescribeConfigs and IncrementalAlterConfigs, for what there is to set."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from coterie.protocol.schema import Response
from coterie.security.secrets import Secret
from coterie.server.metadata import TopicMetadata
from coterie.server.topic_configs import TOPIC_DEFAULTS, effective_configs, why_bad_config

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.calls import Call

__all__ = ["describe_configs", "incremental_alter_configs"]

_TOPIC, _BROKER = 2, 4
_SOURCE_TOPIC, _SOURCE_STATIC, _SOURCE_DEFAULT = 1, 4, 5
_SET, _DELETE, _APPEND, _SUBTRACT = 0, 1, 2, 3
_LISTS: Final = frozenset({"cleanup.policy"})


def describe_configs(broker: Broker, call: Call, request: DescribeConfigsRequest) -> Response:
    """DescribeConfigs 1-4."""
    return DescribeConfigsResponse(
        results=tuple(
            _describe(broker, resource, synonyms=request.include_synonyms)
            for resource in request.resources
        )
    )


def _describe(
    broker: Broker, resource: DescribeConfigsResource, *, synonyms: bool
) -> DescribeConfigsResult:
    error = ErrorCode.NONE
    values: dict[str, tuple[str | None, int]] = {}
    if resource.resource_type == _TOPIC:
        topic = broker.cluster.metadata.topic(resource.resource_name)
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            values = {
                name: (value, _SOURCE_TOPIC if name in topic.configs else _SOURCE_DEFAULT)
                for name, value in effective_configs(topic).items()
            }
    elif resource.resource_type == _BROKER:
        values = {name: (value, _SOURCE_STATIC) for name, value in _broker_configs(broker).items()}
    else:
        error = ErrorCode.INVALID_REQUEST
    wanted = resource.configuration_keys
    return DescribeConfigsResult(
        error_code=error,
        error_message=error.message if error else None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(
            DescribeConfigsResourceResult(
                name=name,
                value=value,
                is_sensitive=value is None,
                read_only=resource.resource_type == _BROKER,
                config_source=source,
                synonyms=(
                    (DescribeConfigsSynonym(name, value, source),)
                    if synonyms and source == _SOURCE_TOPIC
                    else ()
                ),
                documentation=None,
            )
            for name, (value, source) in values.items()
            if wanted is None or name in wanted
        ),
    )


def _broker_configs(broker: Broker) -> dict[str, str | None]:
    """What this broker runs with, under Kafka's names; a secret is None."""
    values: dict[str, str | None] = dict.fromkeys(("node.id", "broker.id"), str(broker.node_id))
    for settings in (broker.config, broker.config.group, broker.config.security):
        for spec in dataclasses.fields(settings):
            if name := spec.metadata.get("kafka"):
                value = getattr(settings, spec.name)
                text = str(getattr(value, "value", value))
                text = text.lower() if isinstance(value, bool) else text
                values[name] = None if isinstance(value, Secret) else text
    return values


def incremental_alter_configs(
    broker: Broker, call: Call, request: IncrementalAlterConfigsRequest
) -> Response:
    """IncrementalAlterConfigs 0-1, for topics; a broker's settings are given at its start."""
    responses = []
    for resource in request.resources:
        error, message = _alter(broker, resource, dry=request.validate_only)
        responses.append(
            AlterConfigsResourceResponse(
                error_code=error,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return IncrementalAlterConfigsResponse(responses=tuple(responses))


def _alter(
    broker: Broker, resource: AlterConfigsResource, *, dry: bool
) -> tuple[ErrorCode, str | None]:
    if resource.resource_type != _TOPIC:
        return ErrorCode.INVALID_REQUEST, "Only the settings of topics can be changed."
    topic = broker.cluster.metadata.topic(resource.resource_name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message
    configs = dict(topic.configs)
    for change in resource.configs:
        message = _change(topic, configs, change.name, change.config_operation, change.value)
        if message:
            return ErrorCode.INVALID_CONFIG, message
    bad = why_bad_config(configs)
    if bad:
        return ErrorCode.INVALID_CONFIG, bad
    if not dry:
        broker.cluster.change_topic_configs(topic, configs)
    return ErrorCode.NONE, None


def _change(
    topic: TopicMetadata, configs: dict[str, str], name: str, operation: int, value: str | None
) -> str | None:
    """Apply one operation to a copy of the settings; why it cannot be, or None."""
    if name not in TOPIC_DEFAULTS:
        return f"Unknown topic config name: {name}"
    if operation == _DELETE:
        configs.pop(name, None)
    elif operation == _SET:
        configs[name] = value or ""
    elif name not in _LISTS:
        return f"Config value append is not allowed for config key: {name}"
    else:
        items = [each for each in effective_configs(topic)[name].split(",") if each]
        given = (value or "").split(",")
        kept = [each for each in items if operation == _APPEND or each not in given]
        added = [each for each in given if operation == _APPEND and each not in items]
        configs[name] = ",".join(kept + added)
    return None
