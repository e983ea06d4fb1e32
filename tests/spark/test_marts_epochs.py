"""The mart `rebalances` of consumer (KIP-848), share and streams groups, on records written by hand."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Self

import pytest
from pyspark.sql import Row, SparkSession

from coterie.spark.marts import make_mart
from tests.spark.marts_kit import NOW, frame, member, quick

START = NOW - timedelta(days=20)


class Records:
    """Records of one group, each behind the one before, at the time that was set last."""

    def __init__(self, group: str, kind: str = "Consumer") -> None:
        self.rows: list[dict[str, Any]] = []
        self._group, self._kind = group, kind
        self._time = START

    def at(self, **passed: float) -> Self:
        self._time = START + timedelta(**passed)
        return self

    def add(self, kind: str, **more: Any) -> Self:
        row = {
            "partition": 1,
            "offset": len(self.rows),
            "timestamp": self._time,
            "group_id": self._group,
            "group_type": self._kind.lower(),
            "record": f"{self._kind}Group{kind}",
            "tombstone": False,
        }
        self.rows.append(row | more)
        return self

    def joins(self, member_id: str, *topics: str, **more: Any) -> Self:
        row = {"client_id": f"c-{member_id}", "subscription": list(topics or ["t"])}
        return self.add("MemberMetadata", member_id=member_id, **row | more)

    def epoch(self, number: int) -> Self:
        return self.add("Metadata", generation=number)

    def shall_have(self, member_id: str, *partitions: int, topic: str = "t") -> Self:
        given = [{"topic_id": f"id-of-{topic}", "partitions": list(partitions)}]
        return self.add("TargetAssignmentMember", member_id=member_id, assignment=given)

    def has(self, member_id: str, epoch: int, state: str = "STABLE") -> Self:
        more = {"member_id": member_id, "member_epoch": epoch, "member_state": state}
        return self.add("CurrentMemberAssignment", **more)

    def goes(self, member_id: str) -> Self:
        for record in ("CurrentMemberAssignment", "TargetAssignmentMember", "MemberMetadata"):
            self.add(record, member_id=member_id, tombstone=True)
        return self

    def classic(self, number: int, *members: str) -> Self:
        """The record of a classic group of the same name."""
        given = [member(each, index) for index, each in enumerate(members)]
        more = {"generation": number, "members": given}
        return self.add("", record="GroupMetadata", group_type="classic", **more)

    def no_longer_classic(self) -> Self:
        return self.add("", record="GroupMetadata", group_type="classic", tombstone=True)

    def deleted(self) -> Self:
        return self.add("Metadata", tombstone=True)


def all_kinds_of_causes() -> Records:
    log = Records("causes")
    # a joins an empty group
    log.joins("a").epoch(1).shall_have("a", 0, 1).has("a", 1)
    # b joins, and a has to give up a partition first
    log.at(seconds=2).joins("b").epoch(2).shall_have("a", 0).shall_have("b", 1)
    log.has("a", 1, "UNREVOKED_PARTITIONS").at(seconds=3).has("a", 2).at(seconds=4).has("b", 2)
    # b subscribes to more
    log.at(seconds=6).joins("b", "t", "u").epoch(3).has("b", 3)
    # the topic gets a partition
    log.at(seconds=8).epoch(4).shall_have("a", 0, 2).at(seconds=9).has("a", 4)
    # b goes
    return log.at(seconds=10).goes("b").epoch(5).shall_have("a", 0, 1, 2)


def static_restart() -> Records:
    log = Records("static").at(hours=10).joins("s-1", instance_id="s").joins("d").epoch(2)
    log.shall_have("s-1", 0, 1).shall_have("d", 2).has("s-1", 2).at(hours=10, seconds=4).has("d", 2)
    log.at(hours=15).goes("s-1").joins("s-2", instance_id="s").shall_have("s-2", 0, 1)
    log.has("s-2", 0).has("s-2", 2)
    # a topic grows
    log.at(hours=16).epoch(3).shall_have("d", 2, 3).has("d", 3).at(hours=16, seconds=2)
    log.has("s-2", 3)
    # the static member comes back once more, and wants something else
    log.at(hours=17).goes("s-2").joins("s-3", instance_id="s").shall_have("s-3", 0, 1).has("s-3", 0)
    log.joins("s-3", "t", "u", instance_id="s").epoch(4).has("s-3", 4).has("d", 4)
    # and again, while the others are on their way to an epoch
    log.at(hours=18).epoch(5).has("d", 5).at(hours=18, seconds=1)
    log.goes("s-3").joins("s-4", "t", "u", instance_id="s").shall_have("s-4", 0, 1)
    return log.has("s-4", 0).at(hours=18, seconds=6).has("s-4", 5)


def two_lives() -> Records:
    log = Records("twice").joins("a").epoch(2).shall_have("a", 0, 1).at(seconds=5).has("a", 2)
    log.at(minutes=1).epoch(57).has("a", 57).at(minutes=2).goes("a").epoch(58)
    log.at(days=1).deleted()
    # the same names, as they may be
    log.at(days=2).joins("a").epoch(2).shall_have("a", 1, 2, 3).at(days=2, seconds=2).has("a", 2)
    # members that are taken out with their group have not left the next one
    log.at(days=3).goes("a").deleted()
    return log.at(days=4).joins("b").epoch(2).shall_have("b", 1).has("b", 2)


def empty_and_elsewhere() -> Records:
    log = Records("spells").joins("a").epoch(2).shall_have("a", 0, 1, 2, 3, 4, 5).has("a", 2)
    log.at(seconds=10).goes("a").epoch(3)
    log.at(seconds=20).joins("b").epoch(4).shall_have("b", *range(6)).has("b", 4)
    log.at(seconds=30).joins("b", "u").epoch(5).shall_have("b", 0, 1, topic="u").has("b", 5)
    # two epochs in a row: the first has no target, and nobody comes to it
    log.at(seconds=40).joins("c", "u").epoch(6).epoch(7).shall_have("b", 0, topic="u")
    return log.shall_have("c", 1, topic="u").has("b", 7).has("c", 7)


def late_targets() -> Records:
    """The broker assigns a while after the epoch: until then, who comes has what there was before."""
    log = Records("late").joins("a").epoch(2).shall_have("a", 0, 1).has("a", 2)
    log.at(seconds=3).joins("b").epoch(3).has("b", 2).at(seconds=4).joins("c").epoch(4).has("c", 2)
    log.at(seconds=5).shall_have("a", 0).shall_have("b", 1).has("b", 4).has("c", 4)
    return log.at(seconds=6).has("a", 4)


def patterns() -> Records:
    log = Records("regex").add("MemberMetadata", member_id="a", subscription_regex="a.*")
    log.epoch(2).has("a", 2).at(hours=1)
    log.add("MemberMetadata", member_id="a", subscription_regex="b.*").epoch(3).has("a", 3)
    # another client id is no other wish
    log.at(hours=2).add("MemberMetadata", member_id="a", client_id="new", subscription_regex="b.*")
    return log.epoch(4).has("a", 4)


def streams() -> Records:
    log = Records("streams", "Streams").add("MemberMetadata", member_id="a")
    log.add("Topology", generation=0, subscription=["t"]).epoch(2).has("a", 2)
    log.at(hours=1).add("Topology", generation=1, subscription=["t", "u"]).epoch(3).has("a", 3)
    log.at(hours=2).add("MemberMetadata", member_id="a", client_host="/10.0.0.2").epoch(4)
    return log.has("a", 4).at(hours=3).epoch(5).has("a", 5)


def share() -> Records:
    log = Records("share", "Share").joins("a").epoch(2).has("a", 2)
    # once the state of the partitions is there
    log.at(seconds=2).epoch(3).shall_have("a", 0, 1).has("a", 3)
    log.at(seconds=4).goes("a").joins("b").joins("c").epoch(4)
    log.shall_have("b", 0, 1).shall_have("c", 0, 1).has("b", 4).has("c", 4)
    # days later the topic grows, which takes two epochs
    log.at(days=3).epoch(5).has("b", 5).has("c", 5)
    log.at(days=3, seconds=3).epoch(6).shall_have("b", 0, 1, 2).has("b", 6).has("c", 6)
    return log.at(days=4).goes("c").epoch(7).has("b", 7)


def compacted() -> Records:
    """What compaction leaves: the newest record of each member, and far on the newest epoch."""
    log = Records("compacted").joins("a").shall_have("a", 0, 1).has("a", 40).at(days=6).epoch(50)
    log.has("a", 50).at(days=7).epoch(90).has("a", 90)
    return log.at(days=7, seconds=1).joins("b").epoch(91).shall_have("a", 0).shall_have("b", 1)


def upgraded() -> Records:
    """Classic members stay, and a member of the consumer protocol joins in the same batch."""
    log = Records("upgraded").classic(6, "a").classic(7, "a", "b")
    log.at(seconds=5).no_longer_classic().joins("a").joins("b").epoch(7)
    log.shall_have("a", 0).shall_have("b", 1, 2).has("a", 7).has("b", 7)
    log.joins("c").epoch(8).shall_have("b", 1).shall_have("c", 2).has("c", 8)
    return log.at(seconds=7).has("a", 8).has("b", 8).at(seconds=9).goes("a").epoch(9)


def after_an_empty_classic_group() -> Records:
    """Without members nothing is converted: the classic group goes, and the first member joins."""
    log = Records("replaced").classic(1, "a").at(seconds=1).classic(2)
    return log.at(seconds=5).no_longer_classic().joins("c").epoch(2).shall_have("c", 0).has("c", 2)


def upgraded_before_the_log() -> Records:
    """The record of the classic group was compacted away: its members may have been there, or not."""
    log = Records("upgraded unseen").no_longer_classic().joins("a").epoch(1).has("a", 1)
    return log.at(seconds=5).joins("b").epoch(2).has("a", 2).has("b", 2)


def without_its_beginning() -> Records:
    """Epoch 1, with which a and b came, is missing; what follows is there."""
    log = Records("cut").goes("b").epoch(2).shall_have("a", 0, 1).at(seconds=1).has("a", 2)
    return log.at(seconds=5).joins("c").epoch(3).shall_have("c", 1).has("a", 3).has("c", 3)


def without_its_middle() -> Records:
    """The log begins at epoch 6 of a group of three; one leaves, and one wants something else."""
    log = Records("cut late").epoch(6).has("a", 6).has("b", 6).has("c", 6)
    log.at(seconds=5).goes("b").epoch(7).has("a", 7).has("c", 7)
    return log.at(seconds=9).joins("c", "t", "u").epoch(8).has("a", 8).has("c", 8)


STORIES = (
    upgraded,
    after_an_empty_classic_group,
    upgraded_before_the_log,
    without_its_beginning,
    without_its_middle,
    all_kinds_of_causes,
    static_restart,
    two_lives,
    empty_and_elsewhere,
    late_targets,
    patterns,
    streams,
    share,
    compacted,
)


@pytest.fixture(scope="module")
def made(spark: SparkSession) -> dict[str, list[Row]]:
    """The rows of each group, in the order of the log."""
    rows = [row for story in STORIES for row in story().rows]
    groups: dict[str, list[Row]] = {}
    with quick(spark):
        found = make_mart(
            "rebalances", {"group_events": frame(spark, "group_events", rows)}
        ).collect()
    for row in sorted(found, key=lambda row: row.log_offset):
        groups.setdefault(row.group_id, []).append(row)
    return groups


def column(rows: list[Row], name: str) -> list[Any]:
    return [row[name] for row in rows]


def since_start(moment: datetime) -> timedelta:
    return moment - START.replace(tzinfo=None)


def test_epochs_are_rebalances_of_the_new_protocol(made: dict[str, list[Row]]) -> None:
    rows = made["causes"]
    assert list(zip(column(rows, "generation"), column(rows, "cause"), strict=True)) == [
        (1, "member_churn"),
        (2, "member_churn"),
        (3, "subscription_change"),
        (4, "partition_count_change"),
        (5, "member_churn"),
    ]
    assert column(rows, "member_count") == [1, 2, 2, 2, 1]
    assert [each.member_id for each in rows[1].joined] == ["b"]
    assert [(each.member_id, each.client_id) for each in rows[4].left] == [("b", "c-b")]
    assert column(rows, "partitions") == [2, 2, 2, 3, 3]
    assert column(rows, "partitions_moved") == [0, 1, 0, 0, 1]
    assert column(rows, "stickiness") == [None, 0.5, 1.0, 1.0, pytest.approx(2 / 3)]
    # From the new epoch to the moment when the last member had come to it; to the last one nobody came.
    assert column(rows, "duration_seconds") == [0.0, 2.0, 0.0, 1.0, None]
    assert rows[4].completed_at == rows[4].started_at
    assert all(row.group_type == "consumer" and not row.hidden_before for row in rows)


def test_a_static_member_that_comes_back_makes_no_epoch(made: dict[str, list[Row]]) -> None:
    rows = made["static"]
    assert [(row.generation, *row.changes, row.rebalanced) for row in rows] == [
        (2, "member_churn", True),
        (2, "static_restart", False),
        (3, "partition_count_change", True),
        (3, "static_restart", False),
        (4, "subscription_change", True),
        (5, "partition_count_change", True),
        (5, "static_restart", False),
    ]
    back = rows[1]
    assert since_start(back.started_at) == since_start(back.completed_at) == timedelta(hours=15)
    assert ([each.member_id for each in back.joined], back.previous_generation) == (["s-2"], 2)
    assert [(each.member_id, each.instance_id) for each in back.left] == [("s-1", "s")]
    assert column(rows, "member_count") == [2] * 7
    assert column(rows, "partitions") == [3, 3, 4, 4, 4, 4, 4]
    assert column(rows, "partitions_moved") == [0] * 7
    assert column(rows, "stickiness") == [None] + [1.0] * 6


def test_a_static_member_that_comes_back_completes_what_was_open_only(
    made: dict[str, list[Row]],
) -> None:
    assert column(made["static"], "duration_seconds") == [4.0, None, 2.0, None, 0.0, 6.0, None]


def test_a_group_made_anew_has_nothing_to_do_with_the_old(made: dict[str, list[Row]]) -> None:
    rows = made["twice"]
    assert column(rows, "generation") == [2, 57, 58, 2, 2]
    assert column(rows, "previous_generation") == [None, 2, 57, None, None]
    assert column(rows, "duration_seconds") == [5.0, 0.0, 0.0, 2.0, 0.0]
    assert [row.cause for row in rows if row.generation != 57] == ["member_churn"] * 4
    assert column(rows, "member_count") == [1, 1, 0, 1, 1]
    assert column(rows, "partitions") == [2, 2, 0, 3, 1]
    assert column(rows, "partitions_moved") == [0] * 5
    assert [len(row.left) for row in rows] == [0, 0, 1, 0, 0]
    assert not any(row.history_begins for row in rows)


def test_partitions_are_those_that_members_have_now(made: dict[str, list[Row]]) -> None:
    rows = made["spells"]
    assert column(rows, "member_count") == [1, 0, 1, 1, 2, 2]
    assert column(rows, "partitions") == [6, 0, 6, 2, 2, 2]
    assert column(rows, "partitions_moved") == [0, 0, 0, 0, 0, 1]
    assert column(rows, "stickiness") == [None, None, None, None, 1.0, 0.5]
    assert column(rows, "duration_seconds") == [0.0, 0.0, 0.0, 0.0, None, 0.0]


def test_an_epoch_is_completed_by_those_who_were_there_for_it(made: dict[str, list[Row]]) -> None:
    assert column(made["late"], "duration_seconds") == [0.0, None, 2.0]
    assert column(made["late"], "partitions_moved") == [0, 0, 1]


def test_another_pattern_is_another_subscription(made: dict[str, list[Row]]) -> None:
    causes = ["member_churn", "subscription_change", "partition_count_change"]
    assert column(made["regex"], "cause") == causes


def test_another_topology_is_another_subscription(made: dict[str, list[Row]]) -> None:
    assert column(made["streams"], "cause") == [
        "member_churn",
        "subscription_change",
        "subscription_change",
        "partition_count_change",
    ]


def test_members_of_a_share_group_have_partitions_together(made: dict[str, list[Row]]) -> None:
    rows = made["share"]
    assert [(row.cause, row.follow_up) for row in rows] == [
        ("member_churn", False),
        ("member_churn", True),
        ("member_churn", False),
        ("partition_count_change", False),
        ("partition_count_change", True),
        ("member_churn", False),
    ]
    assert column(rows, "partitions") == [0, 2, 2, 2, 3, 3]
    assert {(row.partitions_moved, row.stickiness) for row in rows} == {(None, None)}


def test_epochs_that_were_compacted_away_are_no_storm(made: dict[str, list[Row]]) -> None:
    rows = made["compacted"]
    assert column(rows, "history_begins") == [True, False, False]
    assert column(rows, "hidden_before") == [None, 39, 0]
    assert column(rows, "in_ten_minutes") == [1, 1, 2]
    assert not any(row.storm for row in rows)
    assert column(rows, "partitions") == [2, 2, 2]
    assert column(rows, "partitions_moved") == [None, 0, 1]
    assert column(rows, "cause") == ["unknown", "partition_count_change", "member_churn"]


def summary(rows: list[Row]) -> list[tuple[Any, ...]]:
    """Epoch, who came, who went, how many there are, and why."""
    return [
        (
            row.generation,
            row.joined and "".join(each.member_id for each in row.joined),
            row.left and "".join(each.member_id for each in row.left),
            row.member_count,
            row.cause,
        )
        for row in rows
        if row.group_type != "classic"
    ]


def test_a_live_upgrade_is_not_a_rebalance(made: dict[str, list[Row]]) -> None:
    assert summary(made["upgraded"]) == [
        (8, "c", [], 3, "member_churn"),
        (9, [], "a", 2, "member_churn"),
    ]
    first = made["upgraded"][-2]
    assert (first.previous_generation, first.history_begins) == (7, False)
    assert (first.partitions, first.partitions_moved, first.in_ten_minutes) == (3, 1, 3)
    assert [row.member_count for row in made["upgraded"]] == [1, 2, 3, 2]


def test_a_member_that_replaces_an_empty_classic_group_joins(made: dict[str, list[Row]]) -> None:
    assert summary(made["replaced"]) == [(2, "c", [], 1, "member_churn")]
    assert not made["replaced"][-1].history_begins


def test_an_upgrade_of_an_unknown_group_begins_the_history(made: dict[str, list[Row]]) -> None:
    rows = made["upgraded unseen"]
    assert summary(rows) == [(1, None, None, 1, "unknown"), (2, "b", [], 2, "member_churn")]
    assert column(rows, "history_begins") == [True, False]


def test_members_from_before_the_log_are_counted(made: dict[str, list[Row]]) -> None:
    rows = made["cut"]
    assert summary(rows) == [
        (2, None, "b", 1, "member_churn"),
        (3, "c", [], 2, "member_churn"),
    ]
    assert column(rows, "history_begins") == [True, False]
    rows = made["cut late"]
    assert summary(rows) == [
        (6, None, None, 3, "unknown"),
        (7, [], "b", 2, "member_churn"),
        (8, [], [], 2, "subscription_change"),
    ]
    assert column(rows, "history_begins") == [True, False, False]
