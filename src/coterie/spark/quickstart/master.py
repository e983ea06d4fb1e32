"""Checks of --master and --driver-memory before Spark starts: Spark itself reports them late, as Java errors.

Called by coterie.cli.pipeline for what a user writes, and by quickstart.session before a JVM is started.
"""

from __future__ import annotations

import re
import time
from typing import Final

from coterie.errors import CoterieError, InvalidArgument

__all__ = ["check_master", "check_memory", "must_answer"]

_LOCAL: Final = re.compile(
    r"local(\[(\*|[1-9]\d*)(, *\d+)?\])?|local-cluster\[ *\d+ *, *\d+ *, *\d+ *\]"
)
_PLACE: Final = r"(\[[\da-fA-F:.]+\]|[^\s/,:\[\]]+):[0-9]{1,9}"
_STANDALONE: Final = re.compile(rf"spark://{_PLACE}(,{_PLACE})*")
_LAST_PORT: Final = 65_535
#: As a JVM takes it: `4gb` is refused.
_MEMORY: Final = re.compile(r"[1-9]\d*[kmgt]", re.IGNORECASE)
#: A master that was started with us is waited for; Spark itself would try for a minute.
_PATIENCE_S: Final = 15.0
_PAUSE_S: Final = 0.2


def check_master(text: str) -> str:
    """The same, if Spark knows such a master."""
    if _STANDALONE.fullmatch(text):
        for place in _places(text):
            _check_place(place)
        return text
    if _LOCAL.fullmatch(text) or text == "yarn" or text.startswith("k8s://"):
        return text
    raise InvalidArgument(
        f"{text!r} is not a Spark master; use local[*], local[N], spark://HOST:PORT, yarn or"
        " k8s://HOST:PORT"
    )


def _places(master: str) -> list[str]:
    return master.removeprefix("spark://").split(",")


def _check_place(place: str) -> None:
    """Refuse what Python's resolver would refuse with an unclear error."""
    host, _, port = place.rpartition(":")
    try:
        host.encode("idna")
    except UnicodeError:
        raise InvalidArgument(
            f"{host!r} is not a host name: each part between dots has 1 to 63 characters"
        ) from None
    if not 0 < int(port) <= _LAST_PORT:
        raise InvalidArgument(f"{place!r} has no valid port: ports are 1 to {_LAST_PORT}")


def check_memory(text: str) -> str:
    """The same, if a JVM understands it."""
    if _MEMORY.fullmatch(text):
        return text
    raise InvalidArgument(
        f"{text!r} is not a memory size; write a number and k, m, g or t, such as 4g"
    )


def must_answer(master: str) -> None:
    """Fail if none of a standalone cluster's masters can be reached."""
    if not master.startswith("spark://"):
        return
    check_master(master)
    deadline = time.monotonic() + _PATIENCE_S
    while troubles := _troubles(_places(master), deadline):
        if time.monotonic() + _PAUSE_S > deadline:
            raise CoterieError(
                f"no Spark master answers ({'; '.join(troubles)}); start it, or pass another --master"
            )
        time.sleep(_PAUSE_S)


def _troubles(places: list[str], deadline: float) -> list[str]:
    """Why each of them cannot be reached; nothing if one can."""
    import socket

    troubles = []
    for place in places:
        host, _, port = place.rpartition(":")
        try:
            left = max(deadline - time.monotonic(), _PAUSE_S)
            socket.create_connection((host.strip("[]"), int(port)), left).close()
        except OSError as error:
            troubles.append(f"{place}: {error.strerror or error}")
        else:
            return []
    return troubles
