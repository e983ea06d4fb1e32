"""Tests that documents name: node ids such as `tests/unit/test_x.py::test_y`, and whether they exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

__all__ = ["NODE_ID", "REPOSITORY", "must_exist", "names_in"]

REPOSITORY = Path(__file__).parents[2]
NODE_ID = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def must_exist(proof: str) -> None:
    """Fail unless the text is a node id in backquotes, of a test that exists."""
    match = NODE_ID.fullmatch(proof)
    assert match, f"{proof} is not a test's node id in backquotes"
    path, name = match.groups()
    assert (REPOSITORY / path).is_file(), f"there is no file {path}"
    assert name in names_in(REPOSITORY / path), f"{path} has no test {name}"


@cache
def names_in(path: Path) -> frozenset[str]:
    """Functions at the top of a file, and state machines that are assigned to a name there."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8"), filename=str(path)).body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                found.add(node.name)
            case ast.Assign(targets=[ast.Name(id=name)]):
                found.add(name)
    return frozenset(found)
