"""Our cluster advertises what Apache Kafka advertises, but for the list in docs/apis.md."""

from __future__ import annotations

import re

import pytest

from coterie.protocol.messages.session import ApiVersionsRequest, ApiVersionsResponse
from coterie.testing import EmbeddedCluster
from tests.kit.kafka import KafkaCluster
from tests.kit.named_tests import REPOSITORY
from tests.kit.plugin import require_kafka
from tests.kit.wire_client import WireClient

pytestmark = pytest.mark.kafka


def advertised(host: str, port: int) -> dict[int, tuple[int, int]]:
    request = ApiVersionsRequest(client_software_name="coterie", client_software_version="1")
    with WireClient(host, port) as client:
        answer = client.ask(request, ApiVersionsResponse)
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


def not_served() -> set[int]:
    page = (REPOSITORY / "docs" / "apis.md").read_text(encoding="utf-8")
    _, _, missing = page.partition("not served\n")
    return {int(key) for key in re.findall(r"^\| (\d+) \|", missing, re.MULTILINE)}


def test_apis_and_versions_are_kafkas(kafka: KafkaCluster) -> None:
    require_kafka()
    theirs = advertised(*kafka.addresses[0])
    with EmbeddedCluster() as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        ours = advertised(host, int(port))
    assert set(theirs) - set(ours) == not_served()
    assert ours == {key: versions for key, versions in theirs.items() if key in ours}
