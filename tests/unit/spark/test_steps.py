"""Steps of `coterie pipeline` that need no Spark."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from coterie.errors import InvalidArgument
from coterie.spark.pipeline.steps import Steps


def test_a_plan_of_groups_that_the_mart_does_not_have_is_refused(tmp_path: Path) -> None:
    to = tmp_path / "plan.json"
    with pytest.raises(InvalidArgument, match="idle for a day"):
        Steps(tmp_path).plan(to, timedelta(hours=6))
    assert not to.exists()
