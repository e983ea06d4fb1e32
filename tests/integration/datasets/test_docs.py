"""docs/datasets.md has the tables of the code, and its examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coterie.spark.options import OPTIONS
from coterie.testing import EmbeddedCluster
from coterie.vocabulary.columns import Table
from coterie.vocabulary.datasets import DATASETS
from tests.kit.offsets_log import golden_disk

DOCUMENT = Path(__file__).parents[3] / "docs" / "datasets.md"


def table(dataset: Table) -> str:
    rows = [
        f"| `{column.name}` | `{column.type}` | {'yes' if column.optional else ''} |"
        f" {column.meaning} |"
        for column in dataset.columns
    ]
    head = ["| column | type | may be null | meaning |", "|---|---|---|---|"]
    return "\n".join([f"### `{dataset.name}`", "", dataset.meaning, "", *head, *rows, ""])


def options() -> str:
    rows = [f"| `{name}` | {meaning} |" for name, meaning in OPTIONS.items()]
    return "\n".join(["| option | what |", "|---|---|", *rows, ""])


@pytest.mark.parametrize("name", DATASETS)
def test_the_table_of_a_dataset_is_the_codes(name: str) -> None:
    assert table(DATASETS[name]) in DOCUMENT.read_text(encoding="utf-8")


def test_the_table_of_options_is_the_codes() -> None:
    assert options() in DOCUMENT.read_text(encoding="utf-8")


def test_the_examples_without_spark_run(tmp_path: Path) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    examples = [
        each for each in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "spark" not in each
    ]
    assert examples
    with EmbeddedCluster() as cluster:
        cluster.scene("lagging_group", "billing", lag=5)
        disk = golden_disk(tmp_path)
        for example in examples:
            code = example.replace("localhost:9092", cluster.bootstrap_servers)
            exec(compile(code.replace("/mnt/broker-1", str(disk)), "datasets.md", "exec"), {})
