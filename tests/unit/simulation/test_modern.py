"""Simulated consumers of the new protocol while a topic gets more partitions: all of them, and the truth."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from coterie.protocol.types import Uuid
from coterie.simulation.chronicle import Cause, Chronicle
from coterie.simulation.modern import ModernConsumer
from coterie.simulation.reading import Reading
from coterie.simulation.stage import Stage
from coterie.simulation.traffic import TopicPlan

BEGIN, GROWS, END = 1_000_000, 2_000_000, 3_000_000
DAY = 86_400_000


class Scene(NamedTuple):
    """A group of two, with one partition each, of a topic that gets a third."""

    stage: Stage
    one: ModernConsumer
    other: ModernConsumer

    def given(self) -> set[int]:
        return {index for each in (self.one, self.other) for index in each.assignment.get("t", ())}

    def causes(self) -> list[list[str]]:
        return [line["causes"] for line in self.stage.chronicle.rebalances]


@pytest.fixture
def scene() -> Scene:
    topic = TopicPlan("t", Uuid(bytes(15) + b"t"), 2, 0, 1.0, 0.0, DAY, GROWS, 3)
    stage = Stage(0, Chronicle("g", modern=True), {"t": topic}, random.Random(1))
    reading = Reading(stage, "g", commit_every_ms=60_000, producer_id=None)
    one, other = (
        ModernConsumer(stage, reading, client_id=name, host="/127.0.0.1", topics=("t",))
        for name in ("one", "other")
    )
    for delay, consumer in enumerate((one, other)):
        stage.at(BEGIN + 10_000 * delay, _hire, stage, consumer)
    stage.run(GROWS - 1)
    found = Scene(stage, one, other)
    assert found.given() == {0, 1}
    return found


def _hire(stage: Stage, consumer: ModernConsumer) -> None:
    stage.actors.append(consumer)
    stage.chronicle.because(Cause.CHURN, "start", stage.now_ms)
    consumer.join()


@pytest.mark.parametrize("notices", ["one", "other"])
def test_a_new_partition_is_read_whoever_notices_it(scene: Scene, notices: str) -> None:
    scene.stage.at(GROWS + 5_000, getattr(scene, notices).heartbeat)
    scene.stage.run(END)
    assert scene.given() == set(range(3))
    assert scene.causes() == [[Cause.CHURN], [Cause.CHURN], [Cause.PARTITIONS]]


def test_an_epoch_for_who_left_has_the_new_partition_already(scene: Scene) -> None:
    def leave() -> None:
        scene.stage.chronicle.because(Cause.CHURN, "stop", scene.stage.now_ms)
        scene.other.leave("stop")

    scene.stage.at(GROWS + 1_000, leave)
    scene.stage.run(END)
    assert set(scene.one.assignment["t"]) == set(range(3))
    assert scene.causes() == [[Cause.CHURN]] * 3
    assert not scene.stage.chronicle.has_reason
