"""Deep descriptions: what brokers do not tell, from the groups' latest records in the offsets topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from coterie.client import AdminClient, FetchedRecords, TopicPartition, logs
from coterie.client.fetching import Fetching
from coterie.protocol.group_state import partition_for
from coterie.testing import EmbeddedCluster
from tests.integration.client.talk import counted, played

OFFSETS = "__consumer_offsets"


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    # Before KIP-181, as every Apache Kafka is.
    with EmbeddedCluster(brokers=3, max_versions={"DescribeGroups": 4}) as running:
        running.scene("stable_group", "stable", members=2)
        running.scene("empty_group", "simple", offset=0)
        yield running


def place_of(group: str) -> str:
    return f"{OFFSETS}-{partition_for(group, 50)}"


def test_generation_and_leader_come_from_the_log_and_say_so(cluster: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        plain = (await admin.describe_groups(["stable"]))["stable"]
        assert (plain.generation, plain.leader_id) == (None, None)
        before = admin.requests.copy()
        deep = (await admin.describe_groups(["stable", "simple"], deep=True)).unwrap()
        group = deep["stable"]
        assert group.generation is not None
        assert group.leader_id in {each.member_id for each in group.members}
        assert group.sources["generation"].startswith(f"{place_of('stable')}, offset ")
        assert group.not_read is None
        # A group that has only committed offsets has no generation to look for.
        assert (deep["simple"].generation, deep["simple"].not_read) == (None, None)
        # One partition of fifty is read; a classic group's record has the chosen protocol alone.
        assert counted(admin, before)["Fetch"] == 1
        assert group.members[0].supported_protocols is None

    played(cluster, scene)


def test_nothing_is_read_where_the_broker_tells_all() -> None:
    with EmbeddedCluster() as cluster:
        cluster.scene("stable_group", "stable", members=2)

        async def scene(admin: AdminClient) -> None:
            group = (await admin.describe_groups(["stable"], deep=True))["stable"]
            assert group.generation is not None
            assert "KIP-181" in group.sources["generation"]
            assert set(counted(admin, Counter())) == {"FindCoordinator", "DescribeGroups"}

        played(cluster, scene)


def test_the_latest_record_counts_however_far_back_it_is(cluster: EmbeddedCluster) -> None:
    """Commits of a group in the same partition push the record back, beyond the first looks."""
    same = next(
        name
        for name in (f"busy-{number}" for number in range(10_000))
        if partition_for(name, 50) == partition_for("stable", 50)
    )

    async def scene(admin: AdminClient) -> None:
        (await admin.create_topics({"wide": 500})).unwrap()
        wide = [TopicPartition("wide", index) for index in range(500)]
        for offset in range(12):
            (await admin.alter_offsets({same: dict.fromkeys(wide, offset)})).unwrap()
        before = admin.requests.copy()
        group = (await admin.describe_groups(["stable"], deep=True))["stable"]
        assert group.leader_id in {each.member_id for each in group.members}
        assert counted(admin, before)["Fetch"] == 2

    played(cluster, scene)


@pytest.mark.parametrize("api", ["Fetch", "ListOffsets"])
def test_what_may_not_be_read_is_told_and_stays_none(cluster: EmbeddedCluster, api: str) -> None:
    cluster.inject(api, error_code=29, times=None)  # TOPIC_AUTHORIZATION_FAILED

    async def scene(admin: AdminClient) -> None:
        described = await admin.describe_groups(["stable"], deep=True)
        assert described.complete
        group = described["stable"]
        assert (group.generation, group.leader_id) == (None, None)
        assert group.not_read is not None
        assert group.not_read.startswith(f"{place_of('stable')} cannot be read: ")
        assert "TOPIC_AUTHORIZATION_FAILED" in group.not_read
        assert len(group.members) == 2

    played(cluster, scene)


def damaged(batch: FetchedRecords) -> FetchedRecords:
    records = bytearray(batch.records)
    records[-1] ^= 0xFF
    return batch._replace(records=bytes(records))


class Damaged(Fetching):
    """A reading in which the partition of one group is damaged."""

    async def next(self) -> FetchedRecords | None:
        found = await super().next()
        if found is not None and str(found.partition) == place_of("stable"):
            return damaged(found)
        return found


class DamagedLater(Fetching):
    """A reading in which what follows the record of one group is damaged."""

    _later: FetchedRecords | None = None

    async def next(self) -> FetchedRecords | None:
        found, self._later = self._later, None
        if found is not None:
            return damaged(found)
        found = await super().next()
        if found is not None and str(found.partition) == place_of("stable"):
            self._later = found
        return found


@pytest.mark.parametrize("reading", [Damaged, DamagedLater])
def test_a_damaged_batch_is_trouble_of_its_partition_alone(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch, reading: type[Fetching]
) -> None:
    """An older record is not believed: what is damaged may have a newer one."""
    monkeypatch.setattr(logs, "Fetching", reading)
    cluster.scene("stable_group", "other", members=1)
    assert place_of("other") != place_of("stable")

    async def scene(admin: AdminClient) -> None:
        described = (await admin.describe_groups(["stable", "other"], deep=True)).unwrap()
        group = described["stable"]
        assert (group.generation, group.leader_id) == (None, None)
        assert group.not_read is not None
        assert group.not_read.startswith(f"{place_of('stable')} cannot be read: ")
        assert "checksum" in group.not_read
        assert described["other"].generation is not None
        assert described["other"].not_read is None

    played(cluster, scene)


def test_a_group_that_rebalances_is_not_told_of_by_an_old_record(cluster: EmbeddedCluster) -> None:
    cluster.scene("rebalancing_group", "moving")

    async def scene(admin: AdminClient) -> None:
        group = (await admin.describe_groups(["moving"], deep=True))["moving"]
        assert group.state in {"PreparingRebalance", "CompletingRebalance"}
        assert group.generation is None
        assert group.not_read is not None
        assert "rebalancing" in group.not_read or "no record" in group.not_read

    played(cluster, scene)
