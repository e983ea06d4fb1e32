"""Settings: DescribeConfigs, IncrementalAlterConfigs, AlterConfigs, ListConfigResources."""

from __future__ import annotations

from coterie.protocol.schema import Request, Response, Struct, field
from coterie.protocol.types import Int8, Int16, Int32

__all__ = [
    "AlterConfigsRequest",
    "AlterConfigsResource",
    "AlterConfigsResourceResponse",
    "AlterConfigsResponse",
    "AlterableConfig",
    "ConfigResource",
    "DescribeConfigsRequest",
    "DescribeConfigsResource",
    "DescribeConfigsResourceResult",
    "DescribeConfigsResponse",
    "DescribeConfigsResult",
    "DescribeConfigsSynonym",
    "IncrementalAlterConfigsRequest",
    "IncrementalAlterConfigsResponse",
    "LegacyAlterConfigsResource",
    "LegacyAlterableConfig",
    "ListConfigResourcesRequest",
    "ListConfigResourcesResponse",
]


class DescribeConfigsResource(Struct):
    """Resource whose configuration is wanted."""

    resource_type: Int8 = field(
        "0+", "Type: 2 topic, 4 broker, 8 logger, 16 client metrics, 32 group.", default=0
    )
    resource_name: str = field(
        "0+", "Name of the topic or group, or broker id; empty for all brokers.", default=""
    )
    configuration_keys: tuple[str, ...] | None = field(
        "0+", "Entries wanted; null asks for all.", default=(), nullable="0+"
    )


class DescribeConfigsRequest(Request, key=32, versions="1-4", flexible="4+"):
    """Reads the configuration of topics, brokers, groups and other resources."""

    resources: tuple[DescribeConfigsResource, ...] = field("0+", "Resources to read.", default=())
    include_synonyms: bool = field(
        "1+", "True asks for all places that define each entry.", default=False
    )
    include_documentation: bool = field(
        "3+", "True asks for the explanation of each entry.", default=False
    )


class DescribeConfigsSynonym(Struct):
    """Fallback that also defines the entry, strongest first."""

    name: str = field("1+", "Name under which that place defines the entry.", default="")
    value: str | None = field(
        "1+", "Value in that place; null if it is secret or not set.", default="", nullable="0+"
    )
    source: Int8 = field(
        "1+", "Origin of that value: 1 topic, 4 server file, 5 default.", default=0
    )


class DescribeConfigsResourceResult(Struct):
    """One configuration entry."""

    name: str = field("0+", "Name of the entry.", default="")
    value: str | None = field(
        "0+", "Value of the entry; null if it is secret or not set.", default="", nullable="0+"
    )
    read_only: bool = field(
        "0+", "True if the entry cannot be changed while running.", default=False
    )
    config_source: Int8 = field(
        "1+",
        "Origin of the value: 1 topic, 4 server file, 5 default; -1 unset.",
        default=-1,
        ignorable=True,
    )
    is_sensitive: bool = field(
        "0+", "True if the value is secret and therefore sent as null.", default=False
    )
    synonyms: tuple[DescribeConfigsSynonym, ...] = field(
        "1+", "Places that define the entry, strongest first.", default=(), ignorable=True
    )
    config_type: Int8 = field(
        "3+",
        "Value type: 1 boolean, 2 string, 3 int, 5 long; 0 unknown.",
        default=0,
        ignorable=True,
    )
    documentation: str | None = field(
        "3+",
        "Explanation of the entry; null if not asked for.",
        default="",
        nullable="0+",
        ignorable=True,
    )


class DescribeConfigsResult(Struct):
    """Configuration of one resource, or the error for it."""

    error_code: Int16 = field("0+", "Error code; 0 when all is well.", default=0)
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default="", nullable="0+"
    )
    resource_type: Int8 = field(
        "0+", "Type: 2 topic, 4 broker, 8 logger, 16 client metrics, 32 group.", default=0
    )
    resource_name: str = field(
        "0+", "Name of the topic or group, or broker id; empty for all brokers.", default=""
    )
    configs: tuple[DescribeConfigsResourceResult, ...] = field(
        "0+", "Configuration entries.", default=()
    )


class DescribeConfigsResponse(Response, key=32, versions="1-4", flexible="4+"):
    """Configuration entries of each resource asked for."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    results: tuple[DescribeConfigsResult, ...] = field("0+", "One result per resource.", default=())


class AlterableConfig(Struct):
    """One change to a configuration entry."""

    name: str = field("0+", "Name of the entry.", default="")
    config_operation: Int8 = field(
        "0+", "Change: 0 set, 1 delete, 2 append to list, 3 take out of list.", default=0
    )
    value: str | None = field(
        "0+", "New value, or list items; null when deleting.", default="", nullable="0+"
    )


class AlterConfigsResource(Struct):
    """Resource to change and its new settings."""

    resource_type: Int8 = field(
        "0+", "Type: 2 topic, 4 broker, 8 logger, 16 client metrics, 32 group.", default=0
    )
    resource_name: str = field(
        "0+", "Name of the topic or group, or broker id; empty for all brokers.", default=""
    )
    configs: tuple[AlterableConfig, ...] = field("0+", "Changes to make.", default=())


class IncrementalAlterConfigsRequest(Request, key=44, versions="0-1", flexible="1+"):
    """Changes single configuration entries and leaves the others as they are."""

    resources: tuple[AlterConfigsResource, ...] = field("0+", "Resources to change.", default=())
    validate_only: bool = field(
        "0+", "True only checks the request and changes nothing.", default=False
    )


class AlterConfigsResourceResponse(Struct):
    """Result for one resource."""

    error_code: Int16 = field("0+", "INVALID_CONFIG and so on; 0 when all is well.", default=0)
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default="", nullable="0+"
    )
    resource_type: Int8 = field(
        "0+", "Type: 2 topic, 4 broker, 8 logger, 16 client metrics, 32 group.", default=0
    )
    resource_name: str = field(
        "0+", "Name of the topic or group, or broker id; empty for all brokers.", default=""
    )


class IncrementalAlterConfigsResponse(Response, key=44, versions="0-1", flexible="1+"):
    """Outcome per resource of changing its configuration."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    responses: tuple[AlterConfigsResourceResponse, ...] = field(
        "0+", "One result per resource.", default=()
    )


class ListConfigResourcesRequest(Request, key=74, versions="0-1", flexible="0+"):
    """Lists the resources that can carry configuration."""

    resource_types: tuple[Int8, ...] = field(
        "1+", "Resource types to list; empty lists every supported type.", default=()
    )


class ConfigResource(Struct):
    """One resource that can carry configuration."""

    resource_name: str = field("0+", "Name of the resource, or broker id.", default="")
    resource_type: Int8 = field(
        "1+",
        "Type: 2 topic, 4 broker, 8 logger, 16 client metrics, 32 group.",
        default=16,
        ignorable=True,
    )


class ListConfigResourcesResponse(Response, key=74, versions="0-1", flexible="0+"):
    """Names and types of resources that can carry configuration."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    error_code: Int16 = field("0+", "Error code; 0 when all is well.", default=0)
    config_resources: tuple[ConfigResource, ...] = field("0+", "Resources found.", default=())


class LegacyAlterableConfig(Struct):
    """One entry to set."""

    name: str = field("0+", "Name of the entry.", default="")
    value: str | None = field("0+", "Value to set.", default="", nullable="0+")


class LegacyAlterConfigsResource(Struct):
    """Resource and all entries that it shall have."""

    resource_type: Int8 = field(
        "0+", "Type: 2 topic, 4 broker, 8 logger, 16 client metrics, 32 group.", default=0
    )
    resource_name: str = field("0+", "Name of the resource.", default="")
    configs: tuple[LegacyAlterableConfig, ...] = field(
        "0+", "The entries that the resource shall have; all others are removed.", default=()
    )


class AlterConfigsRequest(Request, key=33, versions="0-2", flexible="2+"):
    """Replaces all dynamic configuration of resources."""

    resources: tuple[LegacyAlterConfigsResource, ...] = field(
        "0+", "Resources to change.", default=()
    )
    validate_only: bool = field("0+", "True checks the request and changes nothing.", default=False)


class AlterConfigsResponse(Response, key=33, versions="0-2", flexible="2+"):
    """Outcome for each resource."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    responses: tuple[AlterConfigsResourceResponse, ...] = field(
        "0+", "One entry per resource.", default=()
    )
