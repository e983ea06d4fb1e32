"""The simulator: the same bytes for the same seed, logs that a coordinator reads, and a truth that fits."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from coterie.cli.simulate import command
from coterie.coordinator import CoordinatorShard, GroupConfig, partition_for
from coterie.datasets.schemas import schema
from coterie.errors import CoterieError, InvalidArgument
from coterie.protocol.records import decode_batches
from coterie.protocol.types import Uuid
from coterie.server.group_service import replay_batch
from coterie.simulation import Simulated, simulate
from coterie.simulation.fleet import plan_fleet
from coterie.simulation.lives import KINDS
from coterie.simulation.writing import write_identity
from tests.unit.cli.conftest import COTERIE

PARTITIONS = 4


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """Twice as many groups as there are kinds, so that each kind is there; a day."""
    directory = tmp_path_factory.mktemp("fleet") / "sim"
    return simulate(directory, groups=2 * len(KINDS), hours=24, seed=7, partitions=PARTITIONS)


def truth(fleet: Simulated, name: str) -> list[dict[str, Any]]:
    lines = (fleet.directory / "truth" / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def test_a_seed_decides_every_byte_however_many_processes_work(tmp_path: Path) -> None:
    for name, seed, workers in (("one", 3, 1), ("two", 3, 2), ("other", 4, 1)):
        simulate(tmp_path / name, groups=18, hours=2, seed=seed, partitions=3, workers=workers)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert files(tmp_path / "one") != files(tmp_path / "other")


def test_every_simulation_is_a_cluster_of_its_own(tmp_path: Path) -> None:
    asked = {"groups": 2, "hours": 1, "seed": 1, "partitions": 1, "commit_every_ms": 300_000}
    others = {"groups": 3, "hours": 2, "seed": 2, "partitions": 2, "commit_every_ms": 600_000}
    kinds: list[dict[str, Any]] = [asked, asked | {"hours": 1.0}]
    kinds += [asked | {name: value} for name, value in others.items()]
    clusters = []
    for number, each in enumerate(kinds):
        simulate(tmp_path / str(number), **each)
        said = dict(
            line.split("=", 1)
            for line in (tmp_path / str(number) / "meta.properties").read_text().splitlines()
        )
        assert said["version"] == "1"
        clusters.append(said["cluster.id"])
        assert len(Uuid.parse(clusters[-1])) == 16
    assert clusters[0] == clusters[1]
    assert len(set(clusters)) == 1 + len(others)


def test_a_cluster_id_is_never_taken_for_an_option(tmp_path: Path) -> None:
    for number in range(40, 90):  # one in 64 would begin with a hyphen: 41 and 87 would
        write_identity(tmp_path, str(number))
        assert "cluster.id=-" not in (tmp_path / "meta.properties").read_text()


def test_console_consumers_may_be_more_than_there_are_numbers_of_five_digits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coterie.simulation.fleet._CONSOLES", 3)
    fleet = plan_fleet(
        groups=500, hours=1, seed=1, start_ms=0, partitions=50, commit_every_ms=60_000
    )
    consoles = [each.group_id for each in fleet.groups if each.kind == "console"]
    assert len(set(consoles)) == len(consoles) > 3


def test_no_two_groups_of_a_large_fleet_have_one_name() -> None:
    fleet = plan_fleet(
        groups=10_000, hours=1, seed=1, start_ms=0, partitions=50, commit_every_ms=60_000
    )
    assert max(Counter(each.group_id for each in fleet.groups).values()) == 1


def test_a_coordinator_reads_every_record_and_knows_the_groups(fleet: Simulated) -> None:
    groups = {line["group"]: line for line in truth(fleet, "groups")}
    seen = records = 0
    for partition in range(PARTITIONS):
        (segment,) = (fleet.directory / f"__consumer_offsets-{partition}").glob("*.log")
        decoded = decode_batches(segment.read_bytes())
        assert decoded.trailing_bytes == 0
        shard = CoordinatorShard(partition, GroupConfig())
        expected = 0
        for batch in decoded.batches:
            assert batch.base_offset == expected
            expected = batch.last_offset + 1
            replay_batch(shard, batch)
        records += expected
        assert shard.skipped_records == 0
        for group_id, stored in shard.durable_state()["groups"].items():
            seen += 1
            assert partition_for(group_id, PARTITIONS) == partition
            if groups[group_id]["kind"] == "modern":
                assert stored["epoch"] == groups[group_id]["generation"]
                assert len(stored["members"]) == groups[group_id]["members"]
            elif (value := stored[0]) is not None:
                assert value.generation == groups[group_id]["generation"]
                assert len(value.members) == groups[group_id]["members"]
    expired = sum(line["kind"] == "expired" for line in groups.values())
    assert (seen, records) == (len(groups) - expired, fleet.records)


def test_times_in_the_log_never_go_back(fleet: Simulated) -> None:
    for partition in range(PARTITIONS):
        (segment,) = (fleet.directory / f"__consumer_offsets-{partition}").glob("*.log")
        times = [batch.max_timestamp for batch in decode_batches(segment.read_bytes()).batches]
        assert times == sorted(times)
        assert times[-1] <= fleet.end_ms


def test_all_kinds_of_upheaval_are_there(fleet: Simulated) -> None:
    rebalances = truth(fleet, "rebalances")
    causes = Counter(line["cause"] for line in rebalances)
    assert set(causes) == {
        "member_churn",
        "subscription_change",
        "partition_count_change",
        "static_restart",
        "coordinator_move",
    }
    assert any(line["hidden_before"] for line in rebalances)
    assert {line["kind"] for line in truth(fleet, "groups")} == set(KINDS)
    resets = truth(fleet, "offset_resets")
    assert all(line["to"] < line["from"] for line in resets)
    assert {"administrator"} < {line["by"] for line in resets}


def test_generations_follow_each_other(fleet: Simulated) -> None:
    last: dict[str, dict[str, Any]] = {}
    members: dict[str, set[str]] = {}
    for line in truth(fleet, "rebalances"):
        before = last.get(line["group"], {"generation": 0})
        if line["leader_changed"] is None and line["group"] not in last:
            before = {"generation": line["generation"] - 1}  # a consumer group's first epoch
        step = 0 if line["cause"] == "static_restart" else 1 + line["hidden_before"]
        assert line["generation"] == before["generation"] + step
        now = members.setdefault(line["group"], set())
        assert not now & set(line["joined"])
        assert now >= set(line["left"])
        now |= set(line["joined"])
        now -= set(line["left"])
        assert len(now) == line["members"]
        last[line["group"]] = line


def test_groups_without_members_are_the_stale_ones(fleet: Simulated) -> None:
    stale = {line["group"] for line in truth(fleet, "stale_groups")}
    groups = truth(fleet, "groups")
    gone = {line["group"] for line in groups if line["kind"] == "expired"}
    assert stale == {line["group"] for line in groups if not line["members"]} - gone


def test_end_offsets_are_the_dataset_of_that_name(fleet: Simulated) -> None:
    table = pq.read_table(fleet.directory / "end_offsets")
    assert table.schema.equals(schema("end_offsets"))
    assert table.num_rows == fleet.end_offsets
    rows = table.to_pylist()
    assert all(0 <= row["log_start"] <= row["log_end"] for row in rows)


def test_a_directory_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    with pytest.raises(InvalidArgument, match="new or empty"):
        simulate(tmp_path, groups=1, hours=1, seed=1)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"groups": 0},
        {"hours": 0.5},
        {"hours": float("nan")},
        {"hours": float("inf")},
        {"hours": 1e8},
        {"partitions": 0},
        {"commit_every_ms": 10},
        {"workers": 0},
    ],
)
def test_what_makes_no_fleet_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"groups": 1, "hours": 1, "seed": 1} | wrong
    with pytest.raises(InvalidArgument):
        simulate(tmp_path / "sim", **asked)
    assert not list(tmp_path.iterdir())


def test_a_run_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("coterie.simulation.simulator.write_end_offsets", fail)
    with pytest.raises(CoterieError, match="sim cannot be written: No space left on device"):
        simulate(tmp_path / "sim", groups=2, hours=1, seed=1, partitions=1)
    assert not list(tmp_path.iterdir())


def test_the_command_says_what_it_wrote(tmp_path: Path) -> None:
    out = tmp_path / "sim"
    arguments = ["--groups", "3", "--hours", "1", "--partitions", "2", "--workers", "1"]
    result = CliRunner().invoke(command, [*arguments, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "3 groups, 2026-03-02T00:00:00.000Z to 2026-03-02T01:00:00.000Z" in result.output
    # A bar is for terminals.
    assert result.stderr == ""
    assert {path.name for path in out.iterdir()} == {
        "__consumer_offsets-0",
        "__consumer_offsets-1",
        "end_offsets",
        "meta.properties",
        "truth",
    }


@pytest.mark.parametrize(
    "option",
    [
        ("--workers", "0"),
        ("--groups", "0"),
        ("--hours", "0"),
        ("--hours", "nan"),
        ("--hours", "inf"),
        ("--hours", "1e9"),
    ],
)
def test_the_command_refuses_numbers_that_mean_nothing(
    tmp_path: Path, option: tuple[str, str]
) -> None:
    result = CliRunner().invoke(command, ["--out", str(tmp_path / "sim"), *option])
    assert result.exit_code == 2
    assert result.output.startswith("Usage: ")
    assert f"Invalid value for '{option[0]}'" in result.output
    assert not list(tmp_path.iterdir())


def test_nobody_reads_what_it_wrote(tmp_path: Path) -> None:
    """The code is that of all other commands, and the fleet is there."""
    reading, writing = os.pipe()
    os.close(reading)
    small = ["--groups", "1", "--hours", "1", "--partitions", "1", "--workers", "1"]
    done = subprocess.run(
        [COTERIE, "simulate", *small, "--out", "sim"],
        cwd=tmp_path,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(writing)
    assert done.returncode == 141
    assert "Error" not in done.stderr
    assert (tmp_path / "sim" / "truth").is_dir()
