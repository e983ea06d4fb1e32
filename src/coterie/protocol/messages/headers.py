"""What stands before every request and response."""

from __future__ import annotations

from coterie.protocol.schema import Header, field
from coterie.protocol.types import Int16, Int32

__all__ = ["RequestHeader", "ResponseHeader"]


class RequestHeader(Header, versions="1-2", flexible="2+"):
    """Leads every request: API, version, correlation id and client id."""

    request_api_key: Int16 = field("0+", "Number of the API that is called.", default=0)
    request_api_version: Int16 = field(
        "0+", "Version in which the request body is encoded.", default=0
    )
    correlation_id: Int32 = field(
        "0+", "Number chosen by the client; the response repeats it.", default=0
    )
    client_id: str | None = field(
        "1+",
        "Name the client gives itself, for logs and quotas; may be null.",
        default="",
        nullable="1+",
        compact=False,
    )


class ResponseHeader(Header, versions="0-1", flexible="1+"):
    """Leads every response and pairs it with its request."""

    correlation_id: Int32 = field("0+", "Number of the request that this answers.", default=0)
