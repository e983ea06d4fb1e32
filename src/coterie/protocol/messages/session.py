"""Opening a connection: ApiVersions, SaslHandshake, SaslAuthenticate."""

from __future__ import annotations

from coterie.protocol.schema import Request, Response, Struct, field
from coterie.protocol.types import Int16, Int32, Int64

__all__ = [
    "ApiVersion",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "FinalizedFeatureKey",
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
    "SupportedFeatureKey",
]


class ApiVersionsRequest(Request, key=18, versions="0-4", flexible="3+"):
    """Asks which APIs and versions the broker speaks; usually sent first."""

    client_software_name: str = field(
        "3+", "Name of the client library.", default="", ignorable=True
    )
    client_software_version: str = field(
        "3+", "Version of the client library.", default="", ignorable=True
    )


class ApiVersion(Struct):
    """Versions of one API that the broker accepts."""

    api_key: Int16 = field("0+", "Number of the API.", default=0)
    min_version: Int16 = field("0+", "Lowest version of the API that is accepted.", default=0)
    max_version: Int16 = field("0+", "Highest version of the API that is accepted.", default=0)


class SupportedFeatureKey(Struct):
    """Range of one feature that this broker could run."""

    name: str = field("3+", "Name of the feature, such as group.version.", default="")
    min_version: Int16 = field(
        "3+", "Lowest level of the feature that this broker could run.", default=0
    )
    max_version: Int16 = field(
        "3+", "Highest level of the feature that this broker could run.", default=0
    )


class FinalizedFeatureKey(Struct):
    """Level of one feature that the whole cluster runs."""

    name: str = field("3+", "Name of the feature, such as group.version.", default="")
    max_version_level: Int16 = field(
        "3+", "Highest level that the cluster has agreed on.", default=0
    )
    min_version_level: Int16 = field(
        "3+", "Lowest level that the cluster has agreed on.", default=0
    )


class ApiVersionsResponse(Response, key=18, versions="0-4", flexible="3+"):
    """Version range of each API, plus the cluster's feature levels."""

    error_code: Int16 = field(
        "0+", "UNSUPPORTED_VERSION if the request was too new; 0 if fine.", default=0
    )
    api_keys: tuple[ApiVersion, ...] = field("0+", "APIs that the broker accepts.", default=())
    throttle_time_ms: Int32 = field(
        "1+", "Milliseconds the client was throttled; 0 if not.", default=0, ignorable=True
    )
    supported_features: tuple[SupportedFeatureKey, ...] = field(
        "3+", "Features that this broker could run.", default=(), tag=0, ignorable=True
    )
    finalized_features_epoch: Int64 = field(
        "3+",
        "Grows with each change of feature levels; -1 if unknown.",
        default=-1,
        tag=1,
        ignorable=True,
    )
    finalized_features: tuple[FinalizedFeatureKey, ...] = field(
        "3+", "Feature levels that the cluster has agreed on.", default=(), tag=2, ignorable=True
    )
    zk_migration_ready: bool = field(
        "3+",
        "Left over from the move off ZooKeeper; false today.",
        default=False,
        tag=3,
        ignorable=True,
    )


class SaslHandshakeRequest(Request, key=17, versions="0-1"):
    """Picks the SASL mechanism before authentication starts."""

    mechanism: str = field(
        "0+", "Name of the SASL mechanism, such as PLAIN or SCRAM-SHA-256.", default=""
    )


class SaslHandshakeResponse(Response, key=17, versions="0-1"):
    """Accepts the SASL mechanism, or lists the enabled ones."""

    error_code: Int16 = field(
        "0+", "UNSUPPORTED_SASL_MECHANISM if not enabled; 0 if accepted.", default=0
    )
    mechanisms: tuple[str, ...] = field(
        "0+", "SASL mechanisms that the broker has enabled.", default=()
    )


class SaslAuthenticateRequest(Request, key=36, versions="0-2", flexible="2+"):
    """Carries one SASL token from the client."""

    auth_bytes: bytes = field(
        "0+", "SASL token from the client, as the mechanism defines it.", default=b""
    )

    def __repr__(self) -> str:
        return "SaslAuthenticateRequest([hidden])"  # a token may be a password


class SaslAuthenticateResponse(Response, key=36, versions="0-2", flexible="2+"):
    """Carries the broker's SASL token, or the reason for refusing."""

    error_code: Int16 = field(
        "0+", "SASL_AUTHENTICATION_FAILED if refused; 0 when all is well.", default=0
    )
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default="", nullable="0+"
    )
    auth_bytes: bytes = field(
        "0+", "SASL token from the broker, as the mechanism defines it.", default=b""
    )
    session_lifetime_ms: Int64 = field(
        "1+",
        "Milliseconds until a new authentication is due; 0 for never.",
        default=0,
        ignorable=True,
    )

    def __repr__(self) -> str:
        return f"SaslAuthenticateResponse(error_code={self.error_code}, [hidden])"
