"""What a worker of Spark's does when it has worked for us."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from importlib.machinery import ModuleSpec

import pytest

from coterie.spark.worker import settle


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


def test_no_other_process_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    named(monkeypatch, "pytest")
    before = gc.get_freeze_count()
    settle()
    assert gc.get_freeze_count() == before
