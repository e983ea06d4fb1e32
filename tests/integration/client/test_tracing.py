"""Whoever watches: the hook is told of each request, and OpenTelemetry through it."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import Histogram, InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from coterie.client import AdminClient
from coterie.client.connection import RequestNote
from coterie.client.tracing import trace_requests
from coterie.testing import EmbeddedCluster


def test_the_hook_is_told_of_each_request(coterie_cluster: EmbeddedCluster) -> None:
    notes: list[RequestNote] = []
    servers = coterie_cluster.bootstrap_servers
    with AdminClient.connect(bootstrap_servers=servers, on_request=notes.append) as admin:
        admin.list_groups()
    assert [each.api for each in notes] == ["ApiVersions", "Metadata", "ListGroups", "Metadata"]
    assert {each.broker for each in notes} == {servers}
    assert notes[2].version == 5
    assert all(each.sent_bytes > 0 and each.received_bytes > 0 for each in notes)
    assert all(each.milliseconds > 0 for each in notes)


@pytest.mark.breaks("I9", reason="a user's hook raises, which is logged and goes no further")
def test_a_hook_that_fails_breaks_nothing(coterie_cluster: EmbeddedCluster) -> None:
    def broken(_: RequestNote) -> None:
        raise RuntimeError("no")

    servers = coterie_cluster.bootstrap_servers
    with AdminClient.connect(bootstrap_servers=servers, on_request=broken) as admin:
        assert admin.list_groups().complete


def test_each_request_is_a_span_and_a_duration(coterie_cluster: EmbeddedCluster) -> None:
    spans = InMemorySpanExporter()
    tracing = TracerProvider(shutdown_on_exit=False)
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    reader = InMemoryMetricReader()
    metering = MeterProvider([reader], shutdown_on_exit=False)
    hook = trace_requests(tracing, metering)
    servers = coterie_cluster.bootstrap_servers
    with AdminClient.connect(bootstrap_servers=servers, on_request=hook) as admin:
        admin.list_groups()
    found = spans.get_finished_spans()
    assert [each.name for each in found][:3] == [
        "kafka ApiVersions",
        "kafka Metadata",
        "kafka ListGroups",
    ]
    span = found[2]
    assert span.kind is SpanKind.CLIENT
    assert span.attributes is not None
    host, port = servers.split(":")
    assert span.attributes["messaging.system"] == "kafka"
    assert (span.attributes["server.address"], span.attributes["server.port"]) == (host, int(port))
    assert span.attributes["kafka.api.version"] == 5
    assert (span.start_time or 0) < (span.end_time or 0)
    data = reader.get_metrics_data()
    assert data is not None
    (metric,) = data.resource_metrics[0].scope_metrics[0].metrics
    assert metric.name == "messaging.client.operation.duration"
    assert isinstance(metric.data, Histogram)
    assert sum(point.count for point in metric.data.data_points) == 4
    tracing.shutdown()
    metering.shutdown()
