"""Unit tests use no network: a test that connects or listens belongs to tests/integration."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

_NETWORK = (socket.AF_INET, socket.AF_INET6)
#: Addresses that a test has used; None while no unit test runs.
_used: list[object] | None = None


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event in {"socket.bind", "socket.connect"} and _used is not None:
        used, address = arguments
        if used.family in _NETWORK:
            _used.append(address)


sys.addaudithook(_watch)


@pytest.fixture(autouse=True)
def no_network() -> Iterator[None]:
    """Fails a test that bound or connected a socket."""
    global _used  # noqa: PLW0603 - an audit hook stays for the life of the process
    _used = []
    yield
    used, _used = _used, None
    assert not used, f"a unit test used the network ({used[0]}); move it to tests/integration"
