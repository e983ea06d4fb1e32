"""What a worker of Spark's does besides the work."""

from __future__ import annotations

import gc
import os
import pickle
import socket
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from coterie.datasets.schemas import pruned
from coterie.spark.options import SourceOptions
from coterie.spark.quickstart import worker
from coterie.spark.quickstart.worker import acknowledge, settle
from coterie.spark.source import CoterieReader
from coterie.spark.streaming import CoterieStreamReader


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    before = gc.get_freeze_count()
    settle.cache_clear()
    yield
    settle.cache_clear()
    if not before:
        gc.unfreeze()


def named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("__main__.__spec__", ModuleSpec(name, None))


def test_what_is_loaded_is_kept_out_of_collections_once(monkeypatch: pytest.MonkeyPatch) -> None:
    named(monkeypatch, "pyspark.daemon")
    before = gc.get_freeze_count()
    settle()
    frozen = gc.get_freeze_count()
    assert frozen > before
    more = [[] for _ in range(1000)]  # type: ignore[var-annotated]
    settle()
    assert gc.get_freeze_count() <= frozen
    assert len(more) == 1000


@pytest.mark.parametrize(("name", "plain"), [("pytest", "0"), ("pyspark.daemon", "1")])
def test_no_other_process_is_touched_and_no_worker_of_plain_spark(
    monkeypatch: pytest.MonkeyPatch, name: str, plain: str
) -> None:
    named(monkeypatch, name)
    monkeypatch.setenv("COTERIE_PLAIN_SPARK", plain)
    before = gc.get_freeze_count()
    settle()
    assert gc.get_freeze_count() == before


# -- acknowledgements -------------------------------------------------------------------------------------


@pytest.fixture
def talk() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a connection that have spoken in turns, so that both put acknowledgements off."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    with one, other:
        for _ in range(4):
            for speaker, listener in ((one, other), (other, one)):
                speaker.sendall(b"?")
                listener.recv(1)
        yield one, other


def is_quick(link: socket.socket) -> bool:
    if sys.platform != "linux":
        return False
    return link.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) == 1


def test_what_has_come_is_acknowledged_at_once(
    talk: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    named(monkeypatch, "pyspark.daemon")
    assert list(map(is_quick, talk)) == [False, False]
    acknowledge()
    quick = sys.platform == "linux"
    assert list(map(is_quick, talk)) == [quick, quick]
    # Nothing is closed by it.
    talk[0].sendall(b"!")
    assert talk[1].recv(1) == b"!"


def test_a_connection_that_blocks_goes_on_blocking(
    talk: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    named(monkeypatch, "pyspark.daemon")
    talk[1].setblocking(False)  # noqa: FBT003 - its own name
    socket.setdefaulttimeout(10)  # as some function of a user's may
    try:
        acknowledge()
    finally:
        socket.setdefaulttimeout(None)
    assert [os.get_blocking(each.fileno()) for each in talk] == [True, False]


def test_nothing_fails_where_open_files_are_not_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    named(monkeypatch, "pyspark.daemon")
    monkeypatch.setattr(worker, "_OPEN_FILES", tmp_path / "none")
    acknowledge()


def test_connections_of_other_processes_are_left_alone(
    talk: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    named(monkeypatch, "pytest")
    acknowledge()
    assert list(map(is_quick, talk)) == [False, False]


@pytest.mark.parametrize("kind", [CoterieReader, CoterieStreamReader])
def test_a_reader_that_comes_to_a_worker_has_its_task_follow(
    kind: type[CoterieReader | CoterieStreamReader],
    talk: tuple[socket.socket, socket.socket],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = SourceOptions.of({"bootstrap.servers": "127.0.0.1:1", "path": "commits"})
    sent = pickle.dumps(kind(options, pruned("commits", None)))
    named(monkeypatch, "pyspark.daemon")
    assert isinstance(pickle.loads(sent), kind)
    assert is_quick(talk[0]) is (sys.platform == "linux")
