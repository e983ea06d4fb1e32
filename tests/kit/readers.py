"""Both ways to read logs in bulk: by compiled code, and as vectors. What asks for `readers` runs on each."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from coterie import compiled

__all__ = ["native", "readers"]


@pytest.fixture(scope="module", params=["compiled", "vectors"])
def readers(request: pytest.FixtureRequest) -> Iterator[str]:
    name: str = request.param
    if name == "compiled":
        request.getfixturevalue("native")
        yield name
        return
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(compiled, "native", None)
        yield name


@pytest.fixture(scope="session")
def native() -> compiled.Native:
    """The compiled code. Where there is a compiler it has to be there."""
    if compiled.native is None and shutil.which("cc") is None:
        pytest.skip("there is no C compiler (cc), so nothing is compiled")
    assert compiled.native is not None, "there is a C compiler; say make clean, and again"
    return compiled.native
