"""Where Spark runs, and with how much memory: looked at before it starts, which would tell it late, in Java.

Called by coterie.spark.command for what a user writes, and by pipeline.session before a JVM is started.
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
_PLACE: Final = r"(\[[\da-fA-F:.]+\]|[^\s/,:\[\]]+):\d+"
_STANDALONE: Final = re.compile(rf"spark://{_PLACE}(,{_PLACE})*")
#: Of a JVM, which gets it as it is: `4gb` would be none.
_MEMORY: Final = re.compile(r"[1-9]\d*[kmgt]", re.IGNORECASE)
#: A master that was started with us is waited for; Spark itself would try for a minute.
_PATIENCE_S: Final = 15.0
_PAUSE_S: Final = 0.2


def check_master(text: str) -> str:
    """The same, if Spark knows such a master."""
    known = _LOCAL.fullmatch(text) or _STANDALONE.fullmatch(text)
    if known or text == "yarn" or text.startswith("k8s://"):
        return text
    raise InvalidArgument(
        f"{text!r} is no master of Spark; there are local[*], local[N], spark://HOST:PORT, yarn and"
        " k8s://HOST:PORT"
    )


def check_memory(text: str) -> str:
    """The same, if a JVM understands it."""
    if _MEMORY.fullmatch(text):
        return text
    raise InvalidArgument(f"{text!r} is no size; write a number and k, m, g or t, such as 4g")


def must_answer(master: str) -> None:
    """Fail if none of a standalone cluster's masters can be reached."""
    if not master.startswith("spark://"):
        return
    deadline = time.monotonic() + _PATIENCE_S
    while troubles := _troubles(master.removeprefix("spark://").split(","), deadline):
        if time.monotonic() + _PAUSE_S > deadline:
            raise CoterieError(
                f"no Spark master answers ({'; '.join(troubles)}); start it, or name another by --master"
            )
        time.sleep(_PAUSE_S)


def _troubles(places: list[str], deadline: float) -> list[str]:
    """Why each of them cannot be reached; nothing if one can."""
    import socket  # noqa: PLC0415  (`coterie --help` reads this module, too)

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
