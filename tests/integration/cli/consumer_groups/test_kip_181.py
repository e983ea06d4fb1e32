"""KIP-181's additions, which Kafka never shipped: behind `--kip-181`, at the end of the rows."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from coterie.cli.consumer_groups import session
from coterie.client import AdminClient
from coterie.testing import EmbeddedCluster
from tests.kit.cli_replay import our_tool

GROUP = "billing"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(1) as cluster:
        cluster.scene("stable_group", GROUP, "orders", 2)
        cluster.scene("empty_group", "done", "orders", 0)
        cluster.scene("empty_group", "done", "payments", 0)
        yield cluster


def rows(cluster: EmbeddedCluster, *arguments: str) -> list[dict[str, str]]:
    said = our_tool(["--bootstrap-server", cluster.bootstrap_servers, "--describe", *arguments])
    assert said.exit == 0
    lines = [line.replace("COORDINATOR (ID)", "COORDINATOR") for line in said.stdout.splitlines()]
    heading, *found = [line for line in lines if line]
    # The coordinator's id stands behind two blanks.
    cells = [re.sub(r"  \((\d+)\)", r"-\1", line).split() for line in found]
    return [dict(zip(heading.split(), each, strict=True)) for each in cells]


def test_states_show_generation_and_leader(cluster: EmbeddedCluster) -> None:
    with AdminClient.connect(bootstrap_servers=cluster.bootstrap_servers) as admin:
        group = admin.describe_groups([GROUP])[GROUP]
    (row,) = rows(cluster, "--group", GROUP, "--state", "--kip-181")
    assert row["GENERATION-ID"] == str(group.generation)
    assert row["LEADER-ID"] == group.leader_id
    assert list(row)[-2:] == ["GENERATION-ID", "LEADER-ID"]
    (usual,) = rows(cluster, "--group", GROUP, "--state")
    assert list(usual) == list(row)[:-2]


def test_members_show_their_strategies(cluster: EmbeddedCluster) -> None:
    found = rows(cluster, "--group", GROUP, "--members", "--kip-181")
    assert [row["ASSIGNMENT-STRATEGY"] for row in found] == ["range", "range"]
    assert "SUBSCRIPTION" not in found[0]
    assert "ASSIGNMENT-STRATEGY" not in rows(cluster, "--group", GROUP, "--members")[0]


def test_members_show_their_subscriptions_if_asked_for_more(cluster: EmbeddedCluster) -> None:
    found = rows(cluster, "--group", GROUP, "--members", "--verbose", "--kip-181")
    assert [row["SUBSCRIPTION"] for row in found] == ["orders", "orders"]
    assert list(found[0])[-2:] == ["ASSIGNMENT-STRATEGY", "SUBSCRIPTION"]


def test_what_a_broker_does_not_tell_is_missing() -> None:
    with EmbeddedCluster(1, max_versions={"DescribeGroups": 4}) as old:
        old.scene("stable_group", GROUP, "orders", 1)
        (row,) = rows(old, "--group", GROUP, "--state", "--kip-181")
        assert (row["GENERATION-ID"], row["LEADER-ID"]) == ("-", "-")
        (member,) = rows(old, "--group", GROUP, "--members", "--kip-181")
        assert member["ASSIGNMENT-STRATEGY"] == "range"


def test_a_description_is_narrowed_to_topics(cluster: EmbeddedCluster) -> None:
    both = rows(cluster, "--group", "done", "--kip-181")
    assert {row["TOPIC"] for row in both} == {"orders", "payments"}
    one = rows(cluster, "--group", "done", "--kip-181", "--topic", "payments,other")
    assert {row["TOPIC"] for row in one} == {"payments"}
    two = rows(cluster, "--group", "done", "--kip-181", "--topic", "payments", "--topic", "orders")
    assert two == both
    server = ["--bootstrap-server", cluster.bootstrap_servers]
    said = our_tool([*server, "--describe", "--group", "done", "--topic", "orders"])
    assert said.exit == 1
    assert said.stderr.startswith('Option "[topic]" can\'t be used with option "[describe]"\n')


def test_all_groups_cost_a_handful_of_requests(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[AdminClient] = []
    create = session.create_admin

    def remember(bootstrap: str, properties: dict[str, str]) -> AdminClient:
        made.append(create(bootstrap, properties))
        return made[-1]

    monkeypatch.setattr(session, "create_admin", remember)
    rows_of_all = our_tool(
        ["--bootstrap-server", cluster.bootstrap_servers, "--describe", "--all-groups"]
    )
    assert GROUP in rows_of_all.stdout
    (admin,) = made
    assert admin.requests["ListGroups"] == 1
    assert admin.requests["DescribeGroups"] == 1
    assert admin.requests["OffsetFetch"] == 1
    assert admin.requests["ListOffsets"] == 1
    assert sum(admin.requests.values()) <= 10
