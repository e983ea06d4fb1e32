"""ApiVersions: what this broker serves; and SASL where there is none, or no more to come."""

from __future__ import annotations

import re
from typing import Final

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.session import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
    SupportedFeatureKey,
)
from coterie.protocol.schema import Response
from coterie.server.metadata.features import FEATURES
from coterie.server.requests.calls import Call
from coterie.server.services import Services

__all__ = ["api_versions", "sasl_authenticate", "sasl_handshake"]

#: Software names and versions that a client may tell (KIP-511).
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

#: Older clients refuse the whole answer if a supported feature begins at 0 (KAFKA-17011).
_ZERO_FROM: Final = 4


def api_versions(services: Services, call: Call, request: ApiVersionsRequest) -> Response:
    """ApiVersions 0-4."""
    if call.version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(
        api_keys=tuple(
            ApiVersion(api, *versions) for api, versions in sorted(services.versions.items())
        ),
        supported_features=tuple(
            SupportedFeatureKey(name, each.lowest, each.highest)
            for name, each in FEATURES.items()
            if each.highest > 0 and (each.lowest > 0 or call.version >= _ZERO_FROM)
        ),
        finalized_features_epoch=services.features.epoch,
        finalized_features=tuple(
            FinalizedFeatureKey(name, level, level)
            for name, level in services.features.finalized.items()
        ),
    )


def sasl_handshake(services: Services, call: Call, request: SaslHandshakeRequest) -> Response:
    """SaslHandshake 0-1 where it is not due; where it is, the connection answers it."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def sasl_authenticate(services: Services, call: Call, request: SaslAuthenticateRequest) -> Response:
    """SaslAuthenticate 0-2, likewise."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
