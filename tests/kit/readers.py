"""Fixtures that run a test with compiled code and without it.

`readers` is for readers of logs (without compiled code they use numpy), `codecs` for the codec of messages.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from coterie import compiled
from coterie.protocol import codec

__all__ = ["codecs", "forget_codecs", "native", "readers"]


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


@pytest.fixture(scope="module", params=["compiled", "python"])
def codecs(request: pytest.FixtureRequest) -> Iterator[str]:
    name: str = request.param
    if name == "compiled":
        request.getfixturevalue("native")
        yield name
        return
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(compiled, "native", None)
        forget_codecs()
        yield name
    forget_codecs()


def forget_codecs() -> None:
    """Let the codec look again whether there is compiled code."""
    codec._decoder.cache_clear()
    codec._encoder.cache_clear()
    codec._element_encoder.cache_clear()


@pytest.fixture(scope="session")
def native() -> compiled.Native:
    """The compiled code. Where there is a compiler it has to be there."""
    if compiled.native is None and shutil.which("cc") is None:
        pytest.skip("there is no C compiler (cc), so nothing is compiled")
    assert compiled.native is not None, "there is a C compiler; run make clean, then make"
    return compiled.native
