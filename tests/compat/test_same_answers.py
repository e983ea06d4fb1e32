"""Our cluster gives the answers that Apache Kafka gives, question by question."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from coterie.testing import EmbeddedCluster
from tests.compat import setting
from tests.compat.conversations import ask, questions
from tests.kit.kafka import KafkaCluster
from tests.kit.plugin import require_kafka
from tests.kit.wire_client import WireClient

pytestmark = pytest.mark.kafka

FINDINGS = Path(__file__).parent / "FINDINGS.md"


def documented() -> set[str]:
    """The questions that FINDINGS.md lists as answered differently, with a reason."""
    return set(re.findall(r"^\| `(.+?)` \|", FINDINGS.read_text(encoding="utf-8"), re.MULTILINE))


def conversation(host: str, port: int) -> dict[str, Any]:
    with WireClient(host, port) as client:
        setting.create_topic(client)
        setting.find_coordinators(client, "live", "empty")
        member = setting.join(client, "live")
        setting.commit(client, "empty")
        return {question[0]: ask(client, question) for question in questions(member, generation=1)}


def test_every_answer_is_kafkas() -> None:
    require_kafka()
    # A Kafka of its own: groups of other tests would show in lists.
    with KafkaCluster() as kafka:
        theirs = conversation(*kafka.addresses[0])
    with EmbeddedCluster() as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        ours = conversation(host, int(port))
    different = {title for title in theirs if ours[title] != theirs[title]}
    expected = documented()
    unexpected = {
        title: {"ours": ours[title], "Kafka": theirs[title]} for title in different - expected
    }
    assert not unexpected
    assert not expected - different, "FINDINGS.md lists differences that are gone"
