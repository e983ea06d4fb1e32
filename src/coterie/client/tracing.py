"""OpenTelemetry through the request hook: a span and a duration per request (`pip install 'coterie[otel]'`).

    AdminClient(bootstrap_servers=..., on_request=trace_requests())

Names are those of OpenTelemetry's conventions for messaging systems and RPC, where they have one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from coterie.client.connection import RequestLog, RequestNote

try:
    from opentelemetry import metrics, trace
except ImportError as error:
    raise ImportError("tracing needs OpenTelemetry: pip install 'coterie[otel]'") from error

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["trace_requests"]

_NAME: Final = "coterie.client"


def trace_requests(
    tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
) -> RequestLog:
    """A hook for `on_request`; without providers, those that the program has set."""
    tracer = trace.get_tracer(_NAME, tracer_provider=tracer_provider)
    meter = metrics.get_meter(_NAME, meter_provider=meter_provider)
    duration = meter.create_histogram(
        "messaging.client.operation.duration", "s", "How long brokers take to answer."
    )

    def note(request: RequestNote) -> None:
        host, _, port = request.broker.rpartition(":")
        about: dict[str, str | int] = {
            "messaging.system": "kafka",
            "messaging.operation.name": request.api,
            "server.address": host.strip("[]"),
            "server.port": int(port),
        }
        # The hook is called when the response has arrived: the span began that long ago.
        end = time.time_ns()
        span = tracer.start_span(
            f"kafka {request.api}",
            kind=trace.SpanKind.CLIENT,
            start_time=end - int(request.milliseconds * 1_000_000),
            attributes={
                **about,
                "kafka.api.version": request.version,
                "kafka.request.bytes": request.sent_bytes,
                "kafka.response.bytes": request.received_bytes,
            },
        )
        span.end(end)
        duration.record(request.milliseconds / 1000, about)

    return note
