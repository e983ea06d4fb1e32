"""Live datasets on the embedded cluster: what they say, how few requests they take, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from coterie.client import AdminClient
from coterie.client.blocking import BlockingAdminClient
from coterie.client.network import Node
from coterie.client.results import GroupDescription, GroupLag, PartitionLag, Result, TopicPartition
from coterie.datasets import live
from coterie.datasets.cluster import ClusterSource
from coterie.datasets.live import LiveQuery, read_live
from coterie.datasets.log import LogQuery, LogRange, read_log
from coterie.datasets.schemas import pruned
from coterie.datasets.selection import Selection
from coterie.error_codes import ErrorCode
from coterie.errors import (
    GroupAuthorizationFailed,
    InvalidArgument,
    KafkaError,
    PartialAnswer,
    TopicAuthorizationFailed,
    kafka_error,
)
from coterie.protocol.group_state import GroupState, GroupType
from coterie.testing import EmbeddedCluster

Rows = list[dict[str, Any]]
APIS = ("ListGroups", "FindCoordinator", "DescribeGroups", "OffsetFetch", "ListOffsets")


@pytest.fixture(scope="module")
def fleet() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("orders", partitions=4)
        cluster.create_topic("payments", partitions=2)
        cluster.create_topic("lonely", partitions=1)
        cluster.scene("stable_group", "billing", topic="orders", members=2)
        cluster.scene("lagging_group", "reports", topic="payments", lag=50)
        for number in range(9):
            cluster.scene("empty_group", f"idle-{number}", topic="orders", offset=0)
        yield cluster


@pytest.fixture
def sound(fleet: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    yield fleet
    fleet.clear_faults()


def read(cluster: EmbeddedCluster, dataset: str, **query: Any) -> Rows:
    chosen = LiveQuery(dataset, **query)
    properties = {"bootstrap.servers": cluster.bootstrap_servers, "default.api.timeout.ms": "4000"}
    table = pa.Table.from_batches(read_live(properties, chosen), schema=chosen.schema)
    rows: Rows = table.to_pylist()
    return rows


def counted(cluster: EmbeddedCluster, dataset: str, **query: Any) -> tuple[Rows, dict[str, int]]:
    before = {api: cluster.requests(api) for api in APIS}
    rows = read(cluster, dataset, **query)
    return rows, {api: cluster.requests(api) - count for api, count in before.items()}


def test_groups_with_the_fields_of_kip_181(sound: EmbeddedCluster) -> None:
    rows = {row["group_id"]: row for row in read(sound, "groups")}
    assert set(rows) == {"billing", "reports", *(f"idle-{n}" for n in range(9))}
    billing = rows["billing"]
    assert (billing["state"], billing["type"], billing["protocol"]) == (
        "Stable",
        "classic",
        "range",
    )
    assert (billing["member_count"], billing["is_simple"]) == (2, False)
    assert billing["generation"] >= 1
    assert billing["new_member_added"] is False
    assert billing["received_consumer_offset_commits"] is not None
    assert billing["received_transactional_offset_commits"] is not None
    assert billing["coordinator_id"] == sound.coordinator_of("billing")
    assert billing["coordinator"] in sound.bootstrap_servers.split(",")
    assert "DESCRIBE" in billing["authorized_operations"]
    assert rows["idle-0"]["is_simple"] is True
    members = read(sound, "members", selection=Selection(groups=frozenset({"billing"})))
    assert {row["member_id"] for row in members if row["is_leader"]} == {billing["leader_id"]}


def test_members_and_assignments(sound: EmbeddedCluster) -> None:
    members = read(sound, "members")
    assert [row["group_id"] for row in members] == ["billing", "billing"]
    assert {row["client_id"] for row in members} == {"billing-client-1", "billing-client-2"}
    assert {tuple(row["subscription"]) for row in members} == {("orders",)}
    assert sum(row["assignment_count"] for row in members) == 4
    assignments = read(sound, "assignments")
    assert sorted((row["topic"], row["partition"]) for row in assignments) == [
        ("orders", number) for number in range(4)
    ]
    assert not any(row["target"] for row in assignments)
    assert read(sound, "assignments", selection=Selection(topics=frozenset({"payments"}))) == []


def test_offsets_with_ends_and_lag(sound: EmbeddedCluster) -> None:
    rows = read(sound, "offsets", selection=Selection(groups=frozenset({"reports", "billing"})))
    behind = [row for row in rows if row["group_id"] == "reports"]
    assert [(row["topic"], row["lag"], row["log_end"], row["log_start"]) for row in behind] == [
        ("payments", 50, 50, 0),
        ("payments", 50, 50, 0),
    ]
    owned = [row for row in rows if row["group_id"] == "billing"]
    assert {row["client_id"] for row in owned} == {"billing-client-1", "billing-client-2"}
    assert all(row["committed_offset"] is None and row["lag"] is None for row in owned)
    ends = read(sound, "end_offsets")
    assert max((row["topic"], row["partition"], row["log_end"]) for row in ends) == (
        "payments",
        1,
        50,
    )
    assert not any(row["topic"].startswith("__") for row in ends)


def test_a_list_and_a_description_take_a_request_per_broker(sound: EmbeddedCluster) -> None:
    rows, requests = counted(sound, "groups")
    assert len(rows) == 11
    assert requests["ListGroups"] == 3
    assert requests["DescribeGroups"] <= 3
    assert requests["FindCoordinator"] == 0


def test_a_state_narrows_the_list_itself(sound: EmbeddedCluster) -> None:
    rows, requests = counted(sound, "groups", selection=Selection(states=frozenset({"Stable"})))
    assert [row["group_id"] for row in rows] == ["billing"]
    assert (requests["ListGroups"], requests["DescribeGroups"]) == (3, 1)
    rows, requests = counted(sound, "groups", selection=Selection(types=frozenset({"consumer"})))
    assert rows == []
    assert (requests["ListGroups"], requests["DescribeGroups"]) == (3, 0)


def test_a_name_needs_no_list(sound: EmbeddedCluster) -> None:
    chosen = Selection(groups=frozenset({"idle-1", "idle-2", "idle-3", "not-there"}))
    rows, requests = counted(sound, "groups", selection=chosen)
    assert sorted(row["group_id"] for row in rows) == ["idle-1", "idle-2", "idle-3"]
    assert requests["ListGroups"] == 0
    assert requests["FindCoordinator"] == 1  # KIP-699: one for all
    assert requests["DescribeGroups"] <= 3


def test_a_beginning_or_a_pattern_describes_only_what_fits(sound: EmbeddedCluster) -> None:
    for chosen in (Selection(group_prefixes=("bill",)), Selection(group_regex="b.*g")):
        rows, requests = counted(sound, "groups", selection=chosen)
        assert [row["group_id"] for row in rows] == ["billing"]
        assert requests["DescribeGroups"] == 1


def test_a_topic_narrows_what_leaders_are_asked(sound: EmbeddedCluster) -> None:
    chosen = Selection(topics=frozenset({"payments", "not-there"}), group_prefixes=("r",))
    rows, requests = counted(
        sound, "offsets", selection=chosen, columns=("group_id", "topic", "lag")
    )
    assert [tuple(row.values()) for row in rows] == [("reports", "payments", 50)] * 2
    assert requests["OffsetFetch"] == 1
    # Two partitions have two leaders at most, and log_start was not asked for.
    assert requests["ListOffsets"] <= 2


@pytest.fixture
def outlived() -> Iterator[EmbeddedCluster]:
    """Commits of a topic that there is not, and of partitions that a topic made anew has no more."""
    with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("smaller", partitions=1)
        for topic in ("gone", "smaller"):
            commits = dict.fromkeys(range(3), 7)
            # As the coordinator writes them: no request commits to what is not there.
            cluster.scene(
                "_commit_each", f"of-{topic}", topic, commits, timestamp=1_700_000_000_000
            )
        yield cluster


@pytest.mark.parametrize("topic", ["gone", "smaller"])
def test_commits_that_outlived_their_topic_are_there_by_its_name_as_without(
    topic: str, outlived: EmbeddedCluster
) -> None:
    whole = [row for row in read(outlived, "offsets") if row["topic"] == topic]
    assert [row["committed_offset"] for row in whole] == [7, 7, 7]
    lost = {"gone": 3, "smaller": 2}[topic]
    assert sum("UNKNOWN_TOPIC" in (row["error"] or "") for row in whole) == lost
    assert read(outlived, "offsets", selection=Selection(topics=frozenset({topic}))) == whole


def test_an_empty_name_is_no_topic(sound: EmbeddedCluster) -> None:
    for dataset in ("offsets", "end_offsets"):
        rows, requests = counted(sound, dataset, selection=Selection(topics=frozenset({""})))
        assert (rows, sum(requests.values())) == ([], 0)
        both = Selection(topics=frozenset({"", "payments"}))
        assert len(read(sound, dataset, selection=both)) == 2


def test_coordinators_of_one_address_or_none_keep_their_groups(
    sound: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers may leave the metadata while their groups are listed, or share an address behind a proxy."""
    whole = {row["group_id"] for row in read(sound, "groups")}
    for brokers in ([], [Node(number, "proxy", 9092) for number in range(3)]):
        monkeypatch.setattr(BlockingAdminClient, "brokers", lambda _, known=brokers: known)
        assert {row["group_id"] for row in read(sound, "groups")} == whole


def test_a_topic_whose_ends_may_not_be_seen_fails_the_query_or_is_an_error_row(
    sound: EmbeddedCluster,
) -> None:
    chosen = Selection(topics=frozenset({"payments", "not-there"}))
    assert len(read(sound, "end_offsets", selection=chosen)) == 2
    denied = Result[str, Any]({}, {"payments": kafka_error(29, "topic 'payments'")})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BlockingAdminClient, "describe_topics", lambda *_: denied)
        with pytest.raises(TopicAuthorizationFailed, match="payments"):
            read(sound, "end_offsets", selection=chosen)
        assert read(sound, "end_offsets", selection=chosen, partial=True) == []
        (row,) = read(sound, "errors", selection=chosen)
    assert (row["scope"], row["name"]) == ("partition", "payments")
    assert "TOPIC_AUTHORIZATION_FAILED" in row["error"]


def test_internal_topics_have_no_ends_named_or_not(sound: EmbeddedCluster) -> None:
    internal = Selection(topics=frozenset({"__consumer_offsets"}))
    assert read(sound, "end_offsets", selection=internal) == []


def test_a_partition_that_no_group_uses_is_an_error_row_too(sound: EmbeddedCluster) -> None:
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    sound.inject("ListOffsets", error_code=denied, times=None, match="lonely")
    with pytest.raises(PartialAnswer, match="lonely-0"):
        read(sound, "end_offsets")
    rows = read(sound, "end_offsets", partial=True)
    assert rows
    assert not any(row["topic"] == "lonely" for row in rows)
    assert ("partition", "lonely-0") in [
        (row["scope"], row["name"]) for row in read(sound, "errors")
    ]
    # Who asks about groups is told of what these use.
    assert read(sound, "errors", selection=Selection(groups=frozenset({"billing"}))) == []


def test_a_state_that_has_no_name_is_found_without_being_asked_for(
    sound: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = GroupDescription("odd", GroupType.CLASSIC, GroupState.UNKNOWN, "", 0)
    monkeypatch.setattr(
        BlockingAdminClient, "describe_groups", lambda *_, **__: Result({"odd": described})
    )
    for states in ({"Unknown"}, {"Unknown", "Stable"}):
        rows = read(sound, "groups", selection=Selection(states=frozenset(states)))
        assert {row["group_id"] for row in rows} == {"odd"}
    assert read(sound, "groups", selection=Selection(states=frozenset({"Stable"}))) == []


def test_what_excludes_itself_asks_nobody(sound: EmbeddedCluster) -> None:
    chosen = Selection(groups=frozenset({"billing"})).narrowed("groups", ["reports"])
    rows, requests = counted(sound, "groups", selection=chosen)
    assert (rows, sum(requests.values())) == ([], 0)
    rows, requests = counted(sound, "groups", selection=Selection(states=frozenset({"Happy"})))
    assert (rows, sum(requests.values())) == ([], 0)


def test_a_group_that_may_not_be_described_fails_the_query_or_is_an_error_row(
    sound: EmbeddedCluster,
) -> None:
    denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
    chosen = Selection(groups=frozenset({"billing"}))
    sound.inject("DescribeGroups", error_code=denied, times=None)
    with pytest.raises(GroupAuthorizationFailed, match="billing"):
        read(sound, "groups", selection=chosen)
    assert read(sound, "groups", selection=chosen, partial=True) == []
    (row,) = read(sound, "errors", selection=chosen)
    assert (row["scope"], row["name"]) == ("group", "billing")
    assert "GROUP_AUTHORIZATION_FAILED" in row["error"]


def test_a_broker_that_refuses_fails_the_query_or_is_an_error_row(sound: EmbeddedCluster) -> None:
    node = sound.coordinator_of("billing")
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    sound.inject("ListGroups", broker=node, error_code=refused, times=None)
    with pytest.raises(PartialAnswer, match="partial=allow"):
        read(sound, "groups", columns=("group_id",))
    rows = read(sound, "groups", columns=("group_id",), partial=True)
    assert rows
    assert {"group_id": "billing"} not in rows
    (error,) = read(sound, "errors")
    assert (error["scope"], error["name"]) == ("broker", str(node))
    assert error["address"] in sound.bootstrap_servers.split(",")
    assert refused.name in error["error"]


def test_a_topic_that_is_gone_is_no_failure_and_a_leader_that_is_gone_is_one() -> None:
    """Commits outlive topics that were deleted while their group was active."""

    def behind(topic: str, error: ErrorCode) -> PartitionLag:
        text = f"partition {topic}-0: {error.message} ({error.name})"
        return PartitionLag(TopicPartition(topic, 0), 42, None, None, None, error=text)

    rows = (
        behind("gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        behind("headless", ErrorCode.LEADER_NOT_AVAILABLE),
    )
    lag = GroupLag("orphan", GroupType.CLASSIC, GroupState.EMPTY, rows)
    (trouble,) = live._partition_troubles(Result({"orphan": lag, "twin": lag}))
    assert (trouble.scope, trouble.name) == ("partition", "headless-0")


def test_no_such_dataset_or_column(fleet: EmbeddedCluster) -> None:
    with pytest.raises(InvalidArgument, match="not a live dataset"):
        read(fleet, "commits")
    with pytest.raises(InvalidArgument, match="did you mean 'state'"):
        read(fleet, "groups", columns=("stat",))


def test_the_log_is_read_by_fetch(sound: EmbeddedCluster) -> None:
    source = ClusterSource({"bootstrap.servers": sound.bootstrap_servers})
    found = pa.Table.from_batches(
        read_log(source, LogQuery("commits")), schema=pruned("commits", None)
    )
    now = {
        (row["group_id"], row["topic"], row["partition"]): row["committed_offset"]
        for row in read(sound, "offsets")
        if row["committed_offset"] is not None
    }
    last = {
        (row["group_id"], row["topic"], row["topic_partition"]): row["committed_offset"]
        for row in found.to_pylist()
    }
    assert last == now
    assert "bootstrap" not in repr(source)


def test_a_partition_that_cannot_be_read_fails_the_log_unless_the_rest_will_do(
    sound: EmbeddedCluster,
) -> None:
    def read_commits(*, partial: bool) -> set[str]:
        properties = {"bootstrap.servers": sound.bootstrap_servers}
        source = ClusterSource(properties, partial=partial)
        batches = read_log(source, LogQuery("commits", ("group_id",)))
        return {row["group_id"] for batch in batches for row in batch.to_pylist()}

    whole = read_commits(partial=False)
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    node = sound.coordinator_of("reports")
    for api in ("Fetch", "ListOffsets"):
        sound.inject(api, broker=node, error_code=denied, times=None)
        with pytest.raises((PartialAnswer, KafkaError), match="TOPIC_AUTHORIZATION_FAILED"):
            read_commits(partial=False)
        rest = read_commits(partial=True)
        assert "reports" not in rest
        assert rest < whole
        sound.clear_faults()


@pytest.mark.parametrize("api", ["Fetch", "ListOffsets"])
def test_what_the_log_lacks_is_an_error_row_for_each_partition(
    sound: EmbeddedCluster, api: str
) -> None:
    properties = {"bootstrap.servers": sound.bootstrap_servers}
    whole = ClusterSource(properties).slices(LogRange())
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    sound.inject(api, error_code=denied, times=None)
    source = ClusterSource(properties, partial=True)
    assert list(read_log(source, LogQuery("commits"))) == []
    rows = read(sound, "errors")
    assert {row["scope"] for row in rows} == {"partition"}
    names = [row["name"] for row in rows]
    assert len(names) == len(set(names))
    # A partition without records has none to lack.
    assert set(names) >= {f"__consumer_offsets-{each.partition}" for each in whole}
    assert all(denied.name in row["error"] for row in rows)
    # Who names groups is told of the partition that their records are in.
    rows = read(sound, "errors", selection=Selection(groups=frozenset({"reports"})))
    (name,) = (row["name"] for row in rows if row["name"].startswith("__"))
    assert name in names


def test_a_log_that_is_not_there_is_no_error() -> None:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders", partitions=1)
        with AdminClient.connect(bootstrap_servers=cluster.bootstrap_servers) as admin:
            assert "__consumer_offsets" not in admin.describe_topics()
        assert read(cluster, "errors") == []


def test_a_look_for_errors_is_a_few_requests_to_each_leader(sound: EmbeddedCluster) -> None:
    before = {api: sound.requests(api) for api in ("ListOffsets", "Fetch")}
    assert read(sound, "errors") == []
    asked = {api: sound.requests(api) - count for api, count in before.items()}
    # Starts and ends: of what groups use, and of all logs.
    assert asked["ListOffsets"] <= 3 * 4
    assert 0 < asked["Fetch"] <= 3 * 2


def test_each_partition_is_one_error_row_however_many_groups_use_it(
    sound: EmbeddedCluster,
) -> None:
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for topic in ("orders", "payments", "lonely"):
        sound.inject("ListOffsets", error_code=denied, times=None, match=f"name='{topic}'")
    rows = read(sound, "errors")
    names = sorted(row["name"] for row in rows if not row["name"].startswith("__"))
    assert names == ["lonely-0", *(f"orders-{n}" for n in range(4)), "payments-0", "payments-1"]
    groups = frozenset({"billing", "reports", *(f"idle-{n}" for n in range(9))})
    rows = read(sound, "errors", selection=Selection(groups=groups))
    names = sorted(row["name"] for row in rows if not row["name"].startswith("__"))
    assert names == [*(f"orders-{n}" for n in range(4)), "payments-0", "payments-1"]


def test_a_broker_that_hangs_is_one_error_row() -> None:
    with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("orders", partitions=6)
        for number in range(9):
            cluster.scene("empty_group", f"idle-{number}", topic="orders", offset=0)
        cluster.pause_broker(2)
        rows = read(cluster, "errors")
        cluster.resume_broker(2)
    told = [(row["scope"], row["name"]) for row in rows]
    assert len(told) == len(set(told))
    assert [name for scope, name in told if scope == "broker"] == ["2"]
    assert sum(name.startswith("orders-") for _, name in told) == 2


@pytest.mark.parametrize("api", ["Metadata", "ListOffsets", "Fetch"])
@pytest.mark.parametrize("denied_on", ["all", "one"])
def test_a_log_that_may_not_be_read_is_told_with_the_permissions_in_one_short_sentence(
    sound: EmbeddedCluster, api: str, denied_on: str
) -> None:
    source = ClusterSource({"bootstrap.servers": sound.bootstrap_servers})
    wanted = source.slices(LogRange())
    if denied_on == "one":
        wanted = wanted[:1]
    partitions = frozenset(each.partition for each in wanted)
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def read_all() -> None:
        found = source.slices(LogRange(partitions=partitions))
        list(read_log(source, LogQuery("commits"), found))

    with pytest.MonkeyPatch.context() as patch:
        if api == "Metadata":
            lost = Result[str, Any]({}, {"__consumer_offsets": kafka_error(denied, "topic 'x'")})
            patch.setattr(BlockingAdminClient, "describe_topics", lambda *_: lost)
        else:
            sound.inject(api, error_code=denied, times=None)
        with pytest.raises((PartialAnswer, TopicAuthorizationFailed)) as caught:
            read_all()
    said = str(caught.value)
    assert said.count(denied.name) == 1
    assert "READ and DESCRIBE on topic __consumer_offsets" in said
    assert len(said) < 400
    if api == "ListOffsets" and denied_on == "all":
        for ask in (source.bounds, source.ends):
            with pytest.raises(PartialAnswer, match="READ and DESCRIBE on topic"):
                ask()
