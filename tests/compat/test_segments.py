"""Log files: Apache Kafka reads those that we write, and we read those that Apache Kafka wrote."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.client import AdminClient
from coterie.protocol.messages.groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from coterie.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from coterie.security.acls import (
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from coterie.testing import EmbeddedCluster
from tests.compat.clients.base import Client
from tests.compat.clients.confluent import ConfluentClient
from tests.compat.java import JavaTools, Said
from tests.compat.scenarios import drain, values
from tests.compat.setting import until_ok
from tests.kit.golden import DATA, load_json
from tests.kit.wire_client import WireClient

FIRST_SEGMENT = "00000000000000000000.log"
PARTITIONS = 4
CONFIG: dict[str, str | int | bool] = {
    "offsets.topic.num.partitions": PARTITIONS,
    # Kafka's files get older, and what they say must not expire.
    "offsets.retention.minutes": 2_000_000_000,
}
FINAL = load_json("offsets-log/final-state.json")


def write_groups(client: Client) -> None:
    """A group with a static member, a transaction's offsets, an abort, and a group that was deleted."""
    client.create_topic("orders", 2)
    client.produce("orders", values(6), 2, compression="zstd")
    with client.consumer("static", "orders", instance="one") as consumer:
        drain([consumer], values(6))
        consumer.commit()
    transactions = client.transactions("payments")
    with client.consumer("doomed", "orders") as consumer:
        drain([consumer], values(6))
        for offset, end in ((1, transactions.abort), (2, transactions.commit)):
            transactions.begin()
            transactions.send("orders", [b"paid"])
            transactions.send_offsets(consumer, {("orders", 0): offset})
            end()
    transactions.close()
    assert client.delete_group("doomed") == "NONE"


@pytest.mark.kafka
def test_kafka_reads_our_segments(tmp_path: Path) -> None:
    root = tmp_path / "data"
    with EmbeddedCluster(2, data_dir=root, config=CONFIG) as cluster:
        tools = JavaTools(cluster.bootstrap_servers, tmp_path)
        with ConfluentClient(cluster.bootstrap_servers) as client:
            write_groups(client)
    offsets = segments(root, "__consumer_offsets")
    said = tools.run("dump-log", "--offsets-decoder", "--files", ",".join(offsets))
    assert_valid(said)
    assert re.findall(r"endTxnMarker: (\w+)", said.out) == ["ABORT", "COMMIT"]
    # Coordinators count no sequences, in transactions neither; as in the files of tests/data/offsets-log.
    sequences = r"baseSequence: (-?\d+) .* isTransactional: true isControl: (\w+)"
    assert re.findall(sequences, said.out) == [("0", "false"), ("-1", "true")] * 2
    assert story(said, "static") == [
        ("group", 0, []),
        ("group", 1, ["one"]),
        ("orders", 0, 3),
        ("orders", 1, 3),
    ]
    assert story(said, "doomed") == [
        ("group", 0, []),
        ("group", 1, [None]),
        ("orders", 0, 1),
        ("orders", 0, 2),
        ("group", 2, []),
        ("orders", 0, None),
        ("group", None, []),
    ]
    data = tools.run("dump-log", "--print-data-log", "--files", ",".join(segments(root, "orders")))
    assert_valid(data)
    assert sorted(re.findall(r"payload: (.*)$", data.out, re.MULTILINE)) == sorted(
        [*(value.decode() for value in values(6)), "paid", "paid"]
    )


@pytest.mark.kafka
def test_kafka_reads_our_users_and_acls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its dump tool knows the records of `__cluster_metadata`, also when the log was written anew."""
    root, copy = tmp_path / "data", tmp_path / "copy"
    may, may_not = (
        AclBinding(
            ResourceType.GROUP,
            "billing-",
            PatternType.PREFIXED,
            f"User:{name}",
            "*",
            Operation.READ,
            Permission.ALLOW,
        )
        for name in ("may", "may-not")
    )
    users = {"admin": "admin-hush", "may": "may-hush"}
    with EmbeddedCluster(data_dir=root, users=users, super_users=["User:admin"]) as cluster:
        tools = JavaTools(cluster.bootstrap_servers, tmp_path)
        settings = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "admin",
            "sasl.password": "admin-hush",
        }
        with AdminClient.connect(settings) as admin:
            admin.create_acls([may, may_not]).unwrap()
            admin.delete_acls([AclFilter(principal="User:may-not")]).unwrap()
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                admin.alter_users(remove=["may"], mechanism=mechanism).unwrap()
    shutil.copytree(root, copy)
    monkeypatch.setattr("coterie.server.metadata.cluster_log._MOST_OBSOLETE", 0)
    with EmbeddedCluster(data_dir=copy):
        pass
    files = [segments(each, "__cluster_metadata")[0] for each in (root, copy)]
    said = tools.run("dump-log", "--cluster-metadata-decoder", "--files", ",".join(files))
    assert_valid(said)
    told = [json.loads(each) for each in re.findall(r" payload: (\{.*\})$", said.out, re.MULTILINE)]
    assert [each["type"].removesuffix("_RECORD") for each in told] == [
        *["USER_SCRAM_CREDENTIAL"] * 4,
        *["ACCESS_CONTROL_ENTRY"] * 2,
        "REMOVE_ACCESS_CONTROL_ENTRY",
        *["REMOVE_USER_SCRAM_CREDENTIAL"] * 2,
        *["USER_SCRAM_CREDENTIAL"] * 2,
        "ACCESS_CONTROL_ENTRY",
    ]
    data = [each["data"] for each in told]
    assert [(each["name"], each["mechanism"]) for each in (*data[:4], *data[7:9])] == [
        ("admin", 1),
        ("admin", 2),
        *[("may", 1), ("may", 2)] * 2,
    ]
    entry = {
        "resourceType": 3,
        "resourceName": "billing-",
        "patternType": 4,
        "host": "*",
        "operation": 3,
        "permissionType": 3,
    }
    ids = [each.pop("id") for each in (*data[4:7], data[11])]
    assert data[4:6] == [entry | {"principal": f"User:{name}"} for name in ("may", "may-not")]
    assert (ids[2], ids[3]) == (ids[1], ids[0])
    assert data[9:] == [*data[:2], data[4]]


def segments(root: Path, topic: str) -> list[str]:
    files = sorted(root.glob(f"broker-*/{topic}-*/*.log"))
    return [str(file) for file in files if file.stat().st_size]


def assert_valid(said: Said) -> None:
    assert said.code == 0
    batches = [line for line in said.lines if line.startswith("baseOffset: ")]
    assert batches
    assert all(line.endswith("isvalid: true") for line in batches)


def story(said: Said, group: str) -> list[tuple[Any, ...]]:
    """What the dump tells of one group, in the order of the log: None stands for a deletion."""
    told: list[tuple[Any, ...]] = []
    for line in said.lines:
        found = re.search(r" key: (\{.*\}) payload: (.*)$", line)
        if found is None or (key := json.loads(found[1])["data"])["group"] != group:
            continue
        value = {} if found[2] == "<DELETE>" else json.loads(found[2])["data"]
        if "topic" in key:
            told.append((key["topic"], key["partition"], value.get("offset")))
        else:
            instances = [member["groupInstanceId"] for member in value.get("members", [])]
            told.append(("group", value.get("generation"), instances))
    return told


@pytest.fixture(scope="module")
def kafkas_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of Apache Kafka, in a directory that a run of our server had made."""
    made = tmp_path_factory.mktemp("we-made-it")
    with EmbeddedCluster(data_dir=made, config=CONFIG) as cluster:
        cluster.coordinator_of("any")  # The first question makes the topic.
    for name in ("journal", "recovery-point-offset-checkpoint"):
        (made / "broker-1" / name).unlink(missing_ok=True)
    for partition in range(PARTITIONS):
        log = made / "broker-1" / f"__consumer_offsets-{partition}"
        shutil.copy(DATA / "offsets-log" / f"partition-{partition}.log", log / FIRST_SEGMENT)
    return made


@pytest.fixture
def loaded(kafkas_files: Path, tmp_path: Path) -> Iterator[WireClient]:
    """Our server, which has just loaded them: the members in them are gone, and have some seconds left.

    In a directory of its own, for whoever watches the other one knows that nothing was ever committed there.
    """
    root = tmp_path / "kafka-wrote-it"
    shutil.copytree(kafkas_files, root)
    with EmbeddedCluster(data_dir=root, config=CONFIG) as cluster:
        host, _, port = cluster.bootstrap_servers.partition(":")
        with WireClient(host, int(port)) as client:
            # While a shard loads, groups cannot be listed.
            until_ok(lambda: client.ask(ListGroupsRequest(), ListGroupsResponse).error_code)
            yield client


def test_we_list_the_groups_of_kafkas_segments(loaded: WireClient) -> None:
    answer = loaded.ask(ListGroupsRequest(types_filter=("classic",)), ListGroupsResponse)
    listed = {each.group_id: (each.protocol_type, each.group_state) for each in answer.groups}
    expected = {
        each["groupId"]: (each["protocolType"], each["groupState"])
        for each in FINAL["listGroups"]["groups"]
        if each["groupType"] == "classic"
    }
    # Of a group whose first rebalance was under way, the log knows only that it exists.
    assert expected.pop("life-joined-only") == ("consumer", "CompletingRebalance")
    assert listed.pop("life-joined-only") == ("", "Empty")
    assert listed == expected


@pytest.mark.parametrize("group", ["life-classic", "life-static", "life-connect", "life-coop"])
def test_we_describe_the_groups_of_kafkas_segments(loaded: WireClient, group: str) -> None:
    request = DescribeGroupsRequest(groups=(group,), include_authorized_operations=True)
    (found,) = loaded.ask(request, DescribeGroupsResponse, 6).groups
    (expected,) = (
        each for each in FINAL["describeGroups_v6"]["groups"] if each["groupId"] == group
    )
    assert (found.group_state, found.protocol_type, found.protocol_data) == (
        expected["groupState"],
        expected["protocolType"],
        expected["protocolData"],
    )
    assert [
        {
            "memberId": each.member_id,
            "groupInstanceId": each.group_instance_id,
            "clientId": each.client_id,
            "clientHost": each.client_host,
            "memberMetadata": base64.b64encode(each.member_metadata).decode(),
            "memberAssignment": base64.b64encode(each.member_assignment).decode(),
        }
        for each in found.members
    ] == expected["members"]


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("life-txn", {("orders", 0): 3, ("orders", 1): 4, ("orders", 3): 12}),
        ("life-offdel", {("audit-log", 0): 10}),
        ("life-simple", {("orders", 0): 5, ("orders", 1): 7, ("orders", 2): 9, ("orders", 3): 11}),
        ("life-deleted", {}),
    ],
)
def test_we_know_the_offsets_of_kafkas_segments(
    loaded: WireClient, group: str, expected: dict[tuple[str, int], int]
) -> None:
    asked = OffsetFetchRequestGroup(group_id=group, topics=None)
    (found,) = loaded.ask(OffsetFetchRequest(groups=(asked,)), OffsetFetchResponse, 9).groups
    assert {
        (topic.name, each.partition_index): each.committed_offset
        for topic in found.topics
        for each in topic.partitions
    } == expected
