"""DescribeConfigs and ListConfigResources: settings of topics, brokers, groups and loggers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from coterie.addresses import address_text
from coterie.error_codes import ErrorCode
from coterie.protocol.messages.configs import (
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from coterie.protocol.schema import Response
from coterie.server.handlers.log_dirs import log_dir
from coterie.server.metadata.brokers import Addresses
from coterie.server.metadata.topics import TopicMetadata, why_bad_name
from coterie.server.requests.calls import Call
from coterie.server.services import Services
from coterie.server.settings.brokers import Refused, check_broker_id, logger_levels
from coterie.server.settings.catalog import Setting, catalog
from coterie.server.settings.cluster import ALL_BROKERS, ResourceKind, Source, Synonym
from coterie.server.settings.groups import group_values
from coterie.server.settings.topics import own_configs, topic_values

__all__ = ["describe_configs", "list_config_resources", "topic_entries"]

Entry = DescribeConfigsResourceResult

#: Defaults of a client metrics subscription (KIP-714), which Kafka shows for any name.
_CLIENT_METRICS: Final = (
    ("interval.ms", "300000", 3, "Metrics push interval in milliseconds"),
    ("match", "", 7, "Client match criteria"),
    ("metrics", "", 7, "Telemetry metric name prefix list"),
)


def describe_configs(services: Services, call: Call, request: DescribeConfigsRequest) -> Response:
    """DescribeConfigs 1-4."""
    return DescribeConfigsResponse(
        results=tuple(_describe(services, each, request) for each in request.resources)
    )


def _describe(
    services: Services, resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> DescribeConfigsResult:
    error, message = ErrorCode.NONE, ""
    entries: Iterable[Entry] = ()
    try:
        entries = _entries(services, resource)
    except Refused as refused:
        error, message = refused.error, str(refused)
    wanted = resource.configuration_keys
    return DescribeConfigsResult(
        error_code=error,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(
            _as_asked(entry, request) for entry in entries if not wanted or entry.name in wanted
        ),
    )


def _as_asked(entry: Entry, request: DescribeConfigsRequest) -> Entry:
    """The entry without synonyms and documentation, unless they are asked for."""
    return Entry(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.config_source,
        is_sensitive=entry.is_sensitive,
        synonyms=entry.synonyms if request.include_synonyms else (),
        config_type=entry.config_type,
        documentation=entry.documentation if request.include_documentation else None,
    )


def _entries(services: Services, resource: DescribeConfigsResource) -> Iterable[Entry]:
    name = resource.resource_name
    match resource.resource_type:
        case ResourceKind.TOPIC:
            return _of_topic(services, name)
        case ResourceKind.BROKER:
            return list(_of_broker(services, name))
        case ResourceKind.GROUP:
            if not name:
                raise Refused(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            return list(_of_group(services, name))
        case ResourceKind.BROKER_LOGGER:
            return _of_loggers(services, name)
        case ResourceKind.CLIENT_METRICS:
            return _of_client_metrics(name)
        case _:
            error = ErrorCode.INVALID_REQUEST
            raise Refused(error, error.message)


# -- topics -------------------------------------------------------------------------------------------


def _of_topic(services: Services, name: str) -> list[Entry]:
    if why := why_bad_name(name):
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
    topic = services.metadata.topic(name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    return list(topic_entries(services, topic))


def topic_entries(services: Services, topic: TopicMetadata) -> Iterator[Entry]:
    """All settings of a topic."""
    own = own_configs(topic)
    known = catalog().topic
    for name, value in topic_values(topic, services.broker_settings.topic_defaults).items():
        first = [Synonym(name, value, Source.TOPIC)] if name in own else []
        names = known[name].synonyms
        others = services.settings.synonyms(names[0][0], services.node_id) if names else []
        yield _entry(name, value, known[name], first + others)


def _entry(
    name: str,
    value: str | None,
    known: Setting | None,
    synonyms: list[Synonym],
    *,
    fixed: bool = False,
) -> Entry:
    """One setting; a value of a type that is not known may be a secret."""
    secret = known is None or known.is_sensitive
    return Entry(
        name=name,
        value=None if secret else value,
        read_only=fixed,
        config_source=synonyms[0].source if synonyms else Source.DEFAULT,
        is_sensitive=secret,
        synonyms=tuple(
            DescribeConfigsSynonym(each.name, None if secret else each.value, each.source)
            for each in synonyms
        ),
        config_type=0 if known is None else known.wire_type,
        documentation=None if known is None else known.documentation,
    )


# -- brokers ------------------------------------------------------------------------------------------


def _of_broker(services: Services, name: str) -> Iterator[Entry]:
    settings = services.settings
    if name != ALL_BROKERS:
        check_broker_id(name, services.node_id, "{} or empty string, but received {}")
    known = catalog()
    names = settings.of(ResourceKind.BROKER, ALL_BROKERS)
    if name == ALL_BROKERS:
        for each, value in names.items():
            synonym = [Synonym(each, value, Source.ALL_BROKERS)]
            yield _entry(each, value, known.setting(each), synonym, fixed=False)
        return
    own_settings = _own_settings(services)
    static = {**settings.static.static_values, **own_settings}
    shown = [each for each, setting in known.broker.items() if not setting.internal]
    shown += [each for each in static if each not in known.broker or known.broker[each].internal]
    for each in dict.fromkeys([*shown, *names, *settings.of(ResourceKind.BROKER, name)]):
        synonyms = settings.synonyms(each, services.node_id)
        own = own_settings.get(each)
        if own is not None and not any(s.source < Source.STATIC for s in synonyms):
            synonyms = [Synonym(each, own, Source.STATIC)] + [
                s for s in synonyms if s.source is Source.DEFAULT
            ]
        effective = synonyms[0].value if synonyms else None
        mode = known.update_mode(each)
        yield _entry(
            each, effective, known.setting(each), synonyms, fixed=mode in {"read-only", ""}
        )


def _own_settings(services: Services) -> dict[str, str]:
    """Settings that follow from where and how the broker runs."""
    node_id = services.node_id
    return {
        "node.id": str(node_id),
        "broker.id": str(node_id),
        "process.roles": "broker,controller",
        "listeners": _listener_list(services.brokers.bound(node_id)),
        "advertised.listeners": _listener_list(services.brokers.advertised(node_id)),
        "log.dirs": log_dir(services.directory).path,
    }


def _listener_list(addresses: Addresses) -> str:
    """Listeners as Kafka writes them: NAME://host:port, separated by commas."""
    return ",".join(f"{name}://{address_text(*each)}" for name, each in addresses.items())


# -- groups, loggers, client metrics ------------------------------------------------------------------


def _of_group(services: Services, name: str) -> Iterator[Entry]:
    settings = services.settings
    own = settings.of(ResourceKind.GROUP, name)
    for each, value in group_values(settings, name, services.node_id).items():
        known = catalog().group[each]
        synonyms = [Synonym(each, value, Source.GROUP)] if each in own else []
        if known.synonyms:
            synonyms += settings.synonyms(known.synonyms[0][0], services.node_id)
        else:
            synonyms.append(Synonym(each, known.default or "", Source.DEFAULT))
        yield _entry(each, value, known, synonyms)


def _of_loggers(services: Services, name: str) -> list[Entry]:
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    check_broker_id(name, services.node_id, "{} but received {}")
    return [
        Entry(name=logger, value=level, config_source=Source.LOGGER, documentation=None)
        for logger, level in logger_levels().items()
    ]


def _of_client_metrics(name: str) -> list[Entry]:
    if not name:
        text = "Client metrics subscription name must not be empty"
        raise Refused(ErrorCode.INVALID_REQUEST, text)
    return [
        Entry(
            name=each,
            value=value,
            config_source=Source.DEFAULT,
            config_type=kind,
            documentation=documentation,
        )
        for each, value, kind, documentation in _CLIENT_METRICS
    ]


def list_config_resources(
    services: Services, call: Call, request: ListConfigResourcesRequest
) -> Response:
    """ListConfigResources 0-1; version 0 lists client metrics, of which there are none."""
    brokers = [str(node_id) for node_id in services.brokers.node_ids]
    every: dict[int, list[str]] = {
        ResourceKind.GROUP: services.settings.names(ResourceKind.GROUP),
        ResourceKind.CLIENT_METRICS: [],
        ResourceKind.BROKER_LOGGER: brokers,
        ResourceKind.BROKER: brokers,
        ResourceKind.TOPIC: [topic.name for topic in services.metadata],
    }
    wanted = request.resource_types
    if call.version == 0:
        wanted = (ResourceKind.CLIENT_METRICS,)
    if any(kind not in every for kind in wanted):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=tuple(
            ConfigResource(resource_name=name, resource_type=kind)
            for kind, names in every.items()
            if not wanted or kind in wanted
            for name in names
        )
    )
