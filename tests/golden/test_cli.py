"""Every transcript of Kafka's tool, replayed in three ways: our tool on Apache Kafka, our tool on our
cluster, and Kafka's tool on our cluster. Texts and exit codes are equal, once what must vary is masked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.testing import EmbeddedCluster
from tests.kit.cli_members import OUR_SETTINGS, SETTINGS
from tests.kit.cli_replay import (
    Tool,
    java_tool,
    not_playable,
    our_tool,
    replay,
    replay_secured,
)
from tests.kit.cli_secure_world import PASSWORDS, SecureWorld, secure_kafka
from tests.kit.cli_transcripts import Said, transcripts
from tests.kit.cli_world import World
from tests.kit.kafka import KafkaCluster
from tests.kit.plugin import require_kafka

NAMES = sorted(transcripts())
#: Our cluster serves neither; every transcript that needs none of them is played on it.
ABSENT = {"g-share", "g-streams"}
ON_OURS = [name for name in NAMES if name not in not_playable(ABSENT)]


class Replayed:
    """What a tool said, transcript by transcript, and the groups that the cluster could not have."""

    def __init__(self, open_to_all: str, secured: str, tool: Tool, directory: Path) -> None:
        with World(open_to_all) as world:
            self.said = replay(world, tool, directory)
            self.absent = world.absent
        with SecureWorld(secured):
            self.said |= replay_secured(secured, tool, directory)

    def check(self, name: str) -> None:
        transcript = transcripts()[name]
        told = transcript.canonical(self.said[name])
        expected = transcript.canonical(transcript.said)
        assert told.stdout == expected.stdout
        assert told.stderr == expected.stderr
        assert told.exit == expected.exit


@pytest.fixture(scope="module")
def ours_on_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replayed]:
    require_kafka()
    directory = tmp_path_factory.mktemp("ours-on-kafka")
    with KafkaCluster(config=SETTINGS) as cluster, secure_kafka() as secured:
        host, port = secured.listener("SASL")
        yield Replayed(cluster.bootstrap, f"{host}:{port}", our_tool, directory)


@contextlib.contextmanager
def our_clusters() -> Iterator[tuple[str, str]]:
    """Where one without users is, and one with them."""
    with (
        EmbeddedCluster(1, config=OUR_SETTINGS) as cluster,
        EmbeddedCluster(
            1, users=PASSWORDS, super_users=["User:admin"], config=OUR_SETTINGS
        ) as secured,
    ):
        yield cluster.bootstrap_servers, secured.bootstrap_servers


@pytest.fixture(scope="module")
def ours_on_ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replayed]:
    with our_clusters() as clusters:
        yield Replayed(*clusters, our_tool, tmp_path_factory.mktemp("ours-on-ours"))


@pytest.fixture(scope="module")
def javas_on_ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replayed]:
    require_kafka()
    directory = tmp_path_factory.mktemp("javas-on-ours")
    with our_clusters() as clusters, java_tool(directory) as tool:
        yield Replayed(*clusters, tool, directory)


@pytest.mark.kafka
@pytest.mark.parametrize("name", NAMES)
def test_our_tool_on_apache_kafka(ours_on_kafka: Replayed, name: str) -> None:
    ours_on_kafka.check(name)


@pytest.mark.parametrize("name", ON_OURS)
def test_our_tool_on_our_cluster(ours_on_ours: Replayed, name: str) -> None:
    ours_on_ours.check(name)


@pytest.mark.kafka
@pytest.mark.parametrize("name", ON_OURS)
def test_the_tool_of_kafka_on_our_cluster(javas_on_ours: Replayed, name: str) -> None:
    javas_on_ours.check(name)


@pytest.mark.kafka
def test_apache_kafka_has_every_group_of_the_world(ours_on_kafka: Replayed) -> None:
    assert sorted(ours_on_kafka.said) == NAMES
    assert not ours_on_kafka.absent


def test_our_cluster_lacks_share_and_streams_groups_and_nothing_else(
    ours_on_ours: Replayed,
) -> None:
    assert ours_on_ours.absent == ABSENT
    assert sorted(ours_on_ours.said) == ON_OURS


def test_masks_leave_what_matters() -> None:
    transcript = transcripts()["describe-two-groups"]
    before = transcript.said.stdout
    for part, other in (
        ("payments        1", "payments        2"),
        ("\n\nGROUP", "\nGROUP"),
        ("-  ", "- "),
    ):
        assert part in before
        said = Said(0, before.replace(part, other, 1), "")
        assert transcript.canonical(said).stdout != transcript.canonical(transcript.said).stdout


def test_rows_of_one_member_keep_their_order() -> None:
    transcript = transcripts()["describe-stable-offsets"]
    lines = transcript.said.stdout.split("\n")
    lines[2], lines[3] = lines[3], lines[2]
    told = transcript.canonical(Said(0, "\n".join(lines), ""))
    assert told.stdout != transcript.canonical(transcript.said).stdout
