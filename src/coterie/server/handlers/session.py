"""ApiVersions: what this broker serves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.session import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from coterie.protocol.schema import Response

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.calls import Call

__all__ = ["api_versions"]

#: Software names and versions that a client may tell (KIP-511).
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

#: Features by name, with the levels that Kafka 4.3 finalizes and that hold here too.
_FEATURES: Final = {"metadata.version": (7, 30)}


def api_versions(broker: Broker, call: Call, request: ApiVersionsRequest) -> Response:
    """ApiVersions 0-4."""
    if call.version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(
        api_keys=tuple(
            ApiVersion(api, row.lowest, row.highest) for api, row in sorted(broker.served.items())
        ),
        supported_features=tuple(
            SupportedFeatureKey(name, low, high) for name, (low, high) in _FEATURES.items()
        ),
        finalized_features_epoch=0,
        finalized_features=tuple(
            FinalizedFeatureKey(name, high, high) for name, (_, high) in _FEATURES.items()
        ),
    )
