"""What `watch` draws on screens of any width."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from coterie.cli.groups.watching import WATCHED_PARTITIONS, Watched
from coterie.cli.live import Screen
from coterie.client.results import TopicPartition
from coterie.console.output import Format


def drawn(width: int, **names: str) -> list[str]:
    screen = Screen(WATCHED_PARTITIONS, Format(), "title")
    row = Watched(
        at=1_772_366_400_000,
        group=names.get("group", "g"),
        state="CompletingRebalance",
        members=1,
        lag=1234567890,
        committed=5,
        log_end=1234567895,
        partition=TopicPartition(names.get("topic", "t"), 0),
        client_id=names.get("client_id", "c"),
    )
    screen.rows = [row]
    console = Console(width=width, file=io.StringIO())
    console.print(screen.render(24, width, unicode=True))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()[2:4]


@pytest.mark.parametrize("long", [("group",), ("topic",), ("group", "topic", "client_id")])
def test_names_share_what_the_numbers_leave(long: tuple[str, ...]) -> None:
    header, row = drawn(140, **{each: each * 100 for each in long})
    assert "PARTITION" in header.split()
    assert {"CompletingRebalance", "1234567890", "1234567895"} <= set(row.split())
    assert row.count("…") == len(long)
    assert len(row) <= 140


def test_names_that_fit_stay_as_they_are() -> None:
    assert "…" not in "".join(drawn(140, group="a-name", topic="a-topic"))


@pytest.mark.parametrize("width", [100, 80, 20])
def test_a_screen_that_is_too_narrow_shows_what_it_can(width: int) -> None:
    header, row = drawn(width, topic="t" * 100)
    assert "PARTITION" in header.split()
    assert max(len(header), len(row)) <= width
