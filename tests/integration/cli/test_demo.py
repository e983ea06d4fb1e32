"""`coterie demo` runs to its end, and what it shows is what it says."""

from __future__ import annotations

import re

from tests.unit.cli.conftest import Tool


def test_both_commands_on_a_live_cluster(nowhere: Tool) -> None:
    done = nowhere("demo", "--no-spark", process=True)
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stdout + done.stderr
    ran = re.findall(r"^\$ (\S+ \S+ \S+)", done.stdout, re.MULTILINE)
    for expected in (
        "coterie groups list",
        "coterie groups describe",
        "coterie groups lag",
        "coterie groups delete",
        "coterie groups import",
    ):
        assert expected in ran
    assert any(line.startswith("kafka-consumer-groups") for line in ran)
    assert re.search(r"restless +CompletingRebalance", done.stdout)
    assert re.search(r"GENERATION +LEADER +ASSIGNMENT-STRATEGY +SUBSCRIPTION", done.stdout)
    assert len(re.findall(r"^session-\d +done +deleted$", done.stdout, re.MULTILINE)) == 4
    assert len(re.findall(r"^session-\d +orders +\d +42 +done$", done.stdout, re.MULTILINE)) == 8
    assert "was killed; another one took over" in done.stdout
