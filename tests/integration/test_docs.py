"""Documents that are tables of the code are the code's tables; examples in them run."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent.parent


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "tools/generate_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", sorted(generator().GENERATED))
def test_generated_documents_are_fresh(name: str) -> None:
    made = generator().GENERATED[name]()
    assert (ROOT / name).read_text(encoding="utf-8") == made, "run `make docs`"


@pytest.mark.parametrize(
    "path", ["README.md", "docs/security.md", "docs/testing.md", "docs/listeners.md"]
)
def test_python_examples_run(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert examples
    for example in examples:
        code = compile(example, path, "exec")
        scope: dict[str, object] = {"__name__": "example"}
        exec(code, scope)
        for name, value in list(scope.items()):
            if name.startswith("test_") and callable(value) and not value.__code__.co_argcount:  # type: ignore[attr-defined]
                value()
