"""`--reset-offsets` of many groups: what they have in common is looked up once, and errors stay their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.client import AdminClient, TopicPartition
from coterie.error_codes import ErrorCode
from coterie.testing import EmbeddedCluster
from tests.kit.cli_replay import our_tool
from tests.kit.cli_transcripts import Said

GROUPS = ["a", "b", "c"]
PARTITION = TopicPartition("orders", 0)


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=2) as running:
        for group in GROUPS:
            running.scene("lagging_group", group, topic="orders", lag=5)
        yield running


def reset(cluster: EmbeddedCluster, *arguments: str) -> Said:
    options = ["--reset-offsets", "--all-groups", "--all-topics", "--execute", *arguments]
    return our_tool(["--bootstrap-server", cluster.bootstrap_servers, *options])


def committed(cluster: EmbeddedCluster) -> list[int]:
    with AdminClient.connect(bootstrap_servers=cluster.bootstrap_servers) as admin:
        found = admin.list_offsets(GROUPS).unwrap()
        return [found[group].offsets[PARTITION].offset for group in GROUPS]


@pytest.mark.parametrize(
    ("arguments", "after"),
    [
        (["--to-latest"], [15, 15, 15]),
        (["--to-earliest"], [0, 0, 0]),
        (["--shift-by", "3"], [3, 8, 13]),
    ],
)
def test_every_group_is_reset(
    cluster: EmbeddedCluster, arguments: list[str], after: list[int]
) -> None:
    assert committed(cluster) == [0, 5, 10]
    assert reset(cluster, *arguments).exit == 0
    assert committed(cluster) == after


def test_groups_before_the_one_that_fails_are_reset(cluster: EmbeddedCluster) -> None:
    cluster.inject(
        "OffsetFetch", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, times=None, match="b"
    )
    said = reset(cluster, "--to-latest")
    assert "GroupAuthorizationException" in said.stdout + said.stderr
    cluster.clear_faults()
    assert committed(cluster) == [15, 5, 10]
