"""Our kafka-consumer-groups beside Kafka's own, on one cluster, in one run: command lines that no transcript
has, names that no administrator would choose, and an old broker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.client import AdminClient, TopicPartition
from coterie.testing import EmbeddedCluster
from tests.compat.scenarios import unique
from tests.kit.cli_replay import Tool, java_tool, our_tool
from tests.kit.cli_transcripts import Said, Transcript
from tests.kit.plugin import KafkaClusterFactory, require_kafka

pytestmark = pytest.mark.kafka

ODD_NAMES = (
    "tab\there", "two\nlines", "\x1b[31mred\x1b[0m", "rtl-\u202egnp", "emoji-😀", "größe", " blanks ",
    'comma,quote"', "percent%s%n", "${jndi:ldap://x}", "a" * 249,
)  # fmt: skip
OLD_KAFKA = "2.5.1"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tools")
    (directory / "three.csv").write_text("orders,0,1\norders,1,99\n")
    (directory / "four.csv").write_text("plain,orders,0,1\n")
    (directory / "short.csv").write_text("orders\n")
    (directory / "empty.csv").write_text("")
    (directory / "consumer.properties").write_text(
        "group.id=mine\nauto.offset.reset=earliest\nrequest.timeout.ms=20000\n"
    )
    return directory


@pytest.fixture(scope="module")
def javas(directory: Path) -> Iterator[Tool]:
    require_kafka()
    with java_tool(directory) as tool:
        yield tool


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(1) as cluster:
        cluster.create_topic("orders", 2)
        offsets = {TopicPartition("orders", index): 0 for index in range(2)}
        with AdminClient.connect(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.alter_offsets(dict.fromkeys(("plain", *ODD_NAMES), offsets)).unwrap()
        yield cluster


def same(javas: Tool, arguments: list[str]) -> Said:
    """Run both tools; what ours said, if Kafka's said the same."""
    judge = Transcript("", tuple(arguments), {}, Said(0, "", ""))
    ours, theirs = judge.canonical(our_tool(arguments)), judge.canonical(javas(arguments))
    assert ours.stdout == theirs.stdout
    assert ours.stderr == theirs.stderr
    assert ours.exit == theirs.exit
    return ours


RESET = ["--reset-offsets", "--group", "plain", "--dry-run"]
COMMAND_LINES = [
    ["-list"],
    ["--list=yes", "more", "words"],
    ["--list", "--state", ","],
    ["--list", "--state="],
    ["--list", "--state", "-"],
    ["--list", "--state", "Empty", "--type", "CLASSIC"],
    ["--list", "--timeout", "+30000"],
    ["--list", "--timeout", "-1"],
    ["--list", "--timeout", "4294997296"],
    ["--list", "--command-config", "consumer.properties"],
    ["--list", "--command-config", "."],
    ["--describe", "--group=plain", "--offsets", "--verbose"],
    ["--describe", "--group", "plain", "--group", "plain", "--members"],
    ["--describe", "--group", "plain", "--state", "--verbose", "--verbose"],
    ["--describe", "--group", "plain", "--state", "a", "--state", "b"],
    ["--delete", "--group", "missing", "--group", "missing"],
    ["--delete-offsets", "--group", "plain", "--topic", "orders:5", "--topic", "nowhere"],
    ["--delete-offsets", "--group", "missing", "--topic", "nowhere"],
    ["--delete-offsets", "--group", "a", "--group", "b", "--topic", "orders"],
    ["--delete-offsets", "--group", "plain", "--topic", "orders:x"],
    [*RESET, "--to-earliest"],
    [*RESET, "--all-topics"],
    [*RESET, "--topic", "orders:0:1", "--to-earliest"],
    [*RESET, "--topic", "orders:0", "--topic", "orders:1", "--to-latest"],
    [*RESET, "--topic", "orders", "--topic", "nowhere", "--to-latest"],
    [*RESET, "--topic", "orders:0", "--to-offset", "9223372036854775807"],
    [*RESET, "--topic", "orders:0", "--to-offset", "1", "--to-offset", "2"],
    [*RESET, "--topic", "orders:0", "--shift-by", "1", "--shift-by", "2"],
    [*RESET, "--topic", "orders:0", "--to-datetime", "2025-07-31T08:50:00.5"],
    [*RESET, "--topic", "orders:0", "--to-datetime", "2025-02-31T08:50:00.000"],
    [*RESET, "--topic", "orders:0", "--to-datetime", "2025-07-31T08:50:00.000+25"],
    [*RESET, "--topic", "orders:0", "--to-datetime", "2025-07-31T08:50:00.000 and more"],
    [*RESET, "--topic", "orders:0", "--to-datetime", "T"],
    [*RESET, "--topic", "orders:0", "--by-duration", "P1DT2H3M4.5S"],
    [*RESET, "--topic", "orders:0", "--by-duration", "1 day"],
    [*RESET, "--topic", "orders:0", "--by-duration", "P1D", "--by-duration", "P2D"],
    [*RESET, "--from-file", "three.csv"],
    [*RESET, "--from-file", "three.csv", "--export"],
    [*RESET, "--from-file", "short.csv"],
    [*RESET, "--from-file", "empty.csv"],
    [*RESET, "--from-file", "four.csv", "--group", "other"],
    [*RESET, "--group", "größe", "--from-file", "four.csv", "--export"],
    ["--reset-offsets", "--group", "new", "--all-topics", "--to-earliest", "--dry-run", "--export"],
    ["--reset-offsets", "--group", "plain", "--group", "plain", "--all-topics", "--to-current"],
    ["--validate-regex", "(?P<n>a)(?P<n>b)"],
    ["--validate-regex", "a", "--validate-regex", "b"],
    ["--validate-regex", "a\\", "--list"],
    ["--help", "--members"],
    ["--version", "--members"],
]


@pytest.mark.parametrize("arguments", COMMAND_LINES, ids=" ".join)
def test_command_lines(
    cluster: EmbeddedCluster,
    javas: Tool,
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
) -> None:
    monkeypatch.chdir(directory)
    same(javas, ["--bootstrap-server", cluster.bootstrap_servers, *arguments])


@pytest.mark.parametrize(
    "server", ["", "nohost", "127.0.0.1:99999", "127.0.0.1:1,", "127.0.0.1:x", "[::1]:-1"]
)
def test_servers_that_are_none(javas: Tool, server: str) -> None:
    same(javas, ["--bootstrap-server", server, "--list", "--timeout", "1"])


@pytest.mark.parametrize("view", [[], ["--members", "--verbose"], ["--state"]], ids=str)
def test_names_that_nobody_would_choose(
    cluster: EmbeddedCluster, javas: Tool, view: list[str]
) -> None:
    chosen = [word for name in ODD_NAMES for word in ("--group", name)]
    server = ["--bootstrap-server", cluster.bootstrap_servers]
    same(javas, [*server, "--list", *([] if view else ["--state"])])
    said = same(javas, [*server, "--describe", *chosen, *view])
    assert all(name in said.stdout + said.stderr for name in ODD_NAMES)


def test_a_plan_of_odd_names_is_exported_alike(cluster: EmbeddedCluster, javas: Tool) -> None:
    chosen = [word for name in ODD_NAMES for word in ("--group", name)]
    server = ["--bootstrap-server", cluster.bootstrap_servers]
    plan = ["--reset-offsets", "--all-topics", "--to-earliest", "--export", "--dry-run"]
    same(javas, [*server, *plan, *chosen])


# -- an old broker ----------------------------------------------------------------------------------------


def lines_about(names: list[str], said: Said) -> list[str]:
    """The lines of some groups, with one blank where there are more: others may widen the columns."""
    text = re.sub(r" +", " ", said.stdout + said.stderr)
    lines = [line for line in text.split("\n") if any(name in line for name in names)]
    return sorted(line for line in lines if not line.startswith("\t"))


def test_kafka_2_5(kafka_cluster: KafkaClusterFactory, javas: Tool) -> None:
    old = kafka_cluster(OLD_KAFKA, 1)
    names = [unique("old") for _ in range(3)]
    topic = unique("old-topic")
    with AdminClient.connect(bootstrap_servers=old.bootstrap) as admin:
        admin.create_topics({topic: 2}, replication_factor=1).unwrap()
        offsets = {TopicPartition(topic, index): 0 for index in range(2)}
        admin.alter_offsets(dict.fromkeys(names, offsets)).unwrap()
    server = ["--bootstrap-server", old.bootstrap]
    groups = [word for name in names for word in ("--group", name)]
    for arguments in (
        ["--list"],
        ["--list", "--state"],
        ["--list", "--type", "classic"],
        ["--describe", *groups],
        ["--describe", *groups, "--members"],
        ["--describe", *groups, "--state"],
    ):
        ours = lines_about(names, our_tool([*server, *arguments]))
        assert ours == lines_about(names, javas([*server, *arguments]))
        assert ours
    for arguments in (
        ["--list", "--state", "Stable"],
        ["--list", "--type", "consumer"],
        ["--describe", "--group", "never-there"],
        ["--describe", "--group", "never-there", "--members"],
        ["--describe", "--group", "never-there", "--state"],
    ):
        same(javas, [*server, *arguments])
    deleted = our_tool([*server, "--delete", "--group", names[0], "--group", names[1]])
    also = javas([*server, "--delete", "--group", names[2]])
    assert re.sub(r"'[^)]*'", "", deleted.stdout) == re.sub(r"'[^)]*'", "", also.stdout)
    for name in names:
        same(javas, [*server, "--delete", "--group", name])
