"""docs/kafka-consumer-groups.md tells what --help, being Kafka's, cannot."""

from __future__ import annotations

from pathlib import Path

from coterie.cli.consumer_groups.main import KAFKA_VERSION
from coterie.cli.consumer_groups.options import OPTIONS

PAGE = (Path(__file__).parents[4] / "docs" / "kafka-consumer-groups.md").read_text(encoding="utf-8")


def test_the_page_names_our_own_options() -> None:
    for option in list(OPTIONS)[-2:]:
        assert f"| `--{option}`" in PAGE


def test_the_page_names_what_kip_181_adds() -> None:
    for column in ("GENERATION-ID", "LEADER-ID", "ASSIGNMENT-STRATEGY", "SUBSCRIPTION"):
        assert column in PAGE
    assert "Scripts that split rows from their end\nhave to follow." in PAGE


def test_the_page_names_the_version_that_we_stand_in_for() -> None:
    assert f"Apache Kafka {KAFKA_VERSION}" in PAGE
