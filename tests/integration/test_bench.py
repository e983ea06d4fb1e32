"""The benchmark's harness, on tiny data: its format and its honesty, never its times."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import pytest

from bench import PARTS, cluster
from bench.__main__ import main
from bench.consumer_groups import p50_of_consumer_rebalances
from bench.harness import (
    Disagreement,
    Measurement,
    fresh_process,
    load_part,
    measure,
    must_equal,
    timed,
)
from bench.load import Load, one_answer, run
from bench.rebalance import p50_of_rebalances
from bench.samples import described_groups, listed_groups, offsets_log
from bench.scene import TINY, prepare
from bench.servers import Server, Unavailable, coterie
from coterie.protocol.group_records import decode_record
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from coterie.protocol.messages.membership import HeartbeatRequest
from coterie.protocol.records import decode_batches
from coterie.protocol.versioned import Undecoded, decode_assignment, decode_subscription

KEYS = {"name", "ours", "peer", "peer_name", "unit", "ratio", "goal", "met"}


def fixed(
    *,
    ours: float = 2.0,
    peers: Mapping[str, float] = MappingProxyType({"peer": 4.0}),
    goal: float = 1.5,
    is_rate: bool = False,
    agree: Callable[[], None] = lambda: None,
) -> Measurement:
    """A measurement whose figures are known beforehand."""
    return Measurement(
        name="protocol.example",
        ours=lambda: ours,
        peers={name: partial(float, figure) for name, figure in peers.items()},
        goal=goal,
        agree=agree,
        is_rate=is_rate,
    )


@pytest.mark.parametrize(
    "part",
    [pytest.param(p, marks=[pytest.mark.kafka] if p != "protocol" else []) for p in PARTS],
)
def test_peers_agree_with_us(part: str) -> None:
    names: list[str] = []
    for measurement in load_part(part).measurements(tiny=True):
        assert measurement.name.startswith(f"{part}.")
        measurement.agree()
        names.append(measurement.name)
    assert names
    assert len(set(names)) == len(names)


def test_a_cluster_without_peers_is_measured_alone_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(_: Path) -> Server:
        raise Unavailable("not on this machine")

    monkeypatch.setitem(cluster.MAKE, "kafka", missing)
    monkeypatch.setitem(cluster.MAKE, "kfake", missing)
    for measurement in cluster.measurements(tiny=True):
        result = measure(measurement, rounds=1)
        assert result.name.startswith("cluster.scale_")
        assert result.peer_name == "goal"
        assert result.ours > 0
    said = capsys.readouterr().err
    for peer in ("kafka", "kfake"):
        assert f"NOT MEASURED: {peer} cannot be had here: not on this machine" in said


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Ours in memory, as a process."""
    server = coterie(tmp_path / "server", memory=True)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def test_the_load_generator_counts_only_answers_that_are_right(server: Server) -> None:
    loads = prepare(server, TINY)
    for load in loads.values():
        assert one_answer(server.address, load) == load.expected
        assert run(server.address, load, in_flight=3, seconds=0.01) > 0
    stale = HeartbeatRequest(group_id="stable-000", generation_id=99, member_id="nobody")
    with pytest.raises(Disagreement, match="an answer to Heartbeat"):
        run(server.address, Load.of([stale], 4, elements=1), in_flight=3, seconds=0.01)


def test_a_rebalance_is_of_all_members_and_leaves_nothing_behind(server: Server) -> None:
    loads = prepare(server, TINY)
    assert p50_of_rebalances(server, "many", 4, 2) > 0
    assert p50_of_consumer_rebalances(server, "new", 3, 2) > 0
    # The group is not in the list any more.
    assert one_answer(server.address, loads["list_groups"]) == loads["list_groups"].expected


def test_more_rounds_than_are_worth_it_are_not_taken() -> None:
    turns: list[int] = []

    def turn() -> float:
        turns.append(1)
        return 1.0

    short = Measurement(
        name="protocol.short",
        ours=turn,
        peers={"peer": lambda: 1.0},
        goal=1,
        agree=lambda: None,
        max_rounds=2,
    )
    measure(short, rounds=9)
    assert len(turns) == 3


def test_a_run_writes_results_and_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.json"
    assert main(["--tiny", "--rounds", "1", "protocol"], path) == 0
    results = json.loads(path.read_text())
    table = capsys.readouterr().out
    assert results
    for result in results:
        assert set(result) == KEYS
        assert result["name"].startswith("protocol.")
        assert result["name"] in table
        assert result["ours"] > 0
        assert result["peer"] > 0
        assert result["ratio"] > 0
        assert isinstance(result["met"], bool)
        assert isinstance(result["unit"], str)
        assert result["peer_name"] in {"kafka-python", "kio", "confluent-kafka"}
    met = sum(result["met"] for result in results)
    assert table.endswith(f"{met} of {len(results)} goals met\n")


@pytest.mark.parametrize(
    ("goal", "flags", "code"), [(9, ["--strict"], 1), (9, [], 0), (1, ["--strict"], 0)]
)
def test_a_missed_goal_is_an_error_only_when_strict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goal: float, flags: list[str], code: int
) -> None:
    part = SimpleNamespace(measurements=lambda **_: [fixed(goal=goal)])
    monkeypatch.setattr("bench.__main__.load_part", lambda _: part)
    assert main(["--rounds", "1", *flags], tmp_path / "results.json") == code


def test_one_measurement_can_be_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.json"
    name = next(load_part("protocol").measurements(tiny=True)).name
    assert main(["--tiny", "--rounds", "1", "protocol", "--only", name], path) == 0
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines()[2:-1]] == [name]
    assert not path.exists()


def test_an_unknown_part_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "results.json"
    assert main(["nonsense"], path) == 2
    assert "protocol" in capsys.readouterr().err
    assert not path.exists()


@pytest.mark.parametrize(
    ("ours", "peer", "is_rate", "ratio"), [(2, 4, False, 2), (4, 2, False, 0.5), (30, 10, True, 3)]
)
def test_the_ratio_says_how_many_times_better_we_are(
    *, ours: float, peer: float, is_rate: bool, ratio: float
) -> None:
    result = measure(fixed(ours=ours, peers={"peer": peer}, is_rate=is_rate), rounds=2)
    assert result.ratio == ratio
    assert result.met == (ratio >= 1.5)


@pytest.mark.parametrize(("is_rate", "best"), [(False, "quick"), (True, "slow")])
def test_the_best_peer_is_the_one_to_compare_with(*, is_rate: bool, best: str) -> None:
    result = measure(fixed(peers={"slow": 9.0, "quick": 3.0}, is_rate=is_rate), rounds=1)
    assert result.peer_name == best


def test_everyone_takes_turns_and_the_first_turn_does_not_count() -> None:
    turns: list[str] = []
    clock = count(1)

    def turn(name: str) -> float:
        turns.append(name)
        return float(next(clock))

    measurement = Measurement(
        name="protocol.turns",
        ours=lambda: turn("ours"),
        peers={"peer": lambda: turn("peer")},
        goal=1,
        agree=lambda: None,
    )
    result = measure(measurement, rounds=2)
    assert turns == ["ours", "peer"] * 3
    assert (result.ours, result.peer) == (3, 4)


def test_who_disagrees_is_not_measured() -> None:
    def agree() -> None:
        must_equal("the answer", 42, 41)

    with pytest.raises(Disagreement, match="the answer: ours 42, theirs 41"):
        measure(fixed(agree=agree), rounds=1)


def test_rounds_do_the_work_they_time() -> None:
    calls: list[int] = []
    assert timed(lambda: calls.append(1))() >= 0
    assert calls == [1]
    assert fresh_process("pass")() > 0


def test_the_samples_are_what_they_claim() -> None:
    assert listed_groups(200) == listed_groups(200)
    assert len({group.group_state for group in listed_groups(200).groups}) > 3
    for group in described_groups(5).groups:
        assert len({member.client_host for member in group.members}) == 3
        for member in group.members:
            assert member.member_id.startswith(f"consumer-{group.group_id}-")
            subscription = decode_subscription(member.member_metadata)
            assignment = decode_assignment(member.member_assignment)
            assert isinstance(subscription, ConsumerProtocolSubscription)
            assert isinstance(assignment, ConsumerProtocolAssignment)
            assert assignment.assigned_partitions == subscription.owned_partitions


@pytest.mark.parametrize("per_batch", [1, 6, 50])
def test_the_offsets_log_holds_group_records(per_batch: int) -> None:
    batches = decode_batches(offsets_log(600, per_batch)).batches
    assert {batch.records_count for batch in batches} == {per_batch}
    records = [record for batch in batches for record in batch.records()]
    assert [record.offset for record in records] == list(range(600))
    for record in records:
        key, value = decode_record(record.key, record.value)
        assert not isinstance(key, Undecoded)
        assert not isinstance(value, Undecoded)
