"""The examples in docs/client.md run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "client.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_examples_run(number: int) -> None:
    scope: dict[str, object] = {"__name__": "example"}
    exec(compile(EXAMPLES[number], str(PAGE), "exec"), scope)
    tests = [value for name, value in scope.items() if name.startswith("test_")]
    assert tests
    for test in tests:
        assert callable(test)
        test()
