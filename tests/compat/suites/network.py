"""A network of its own for each suite, so that fixed ports such as 9092 do not collide.

Where the system allows it (Linux with user namespaces), a command runs in a new network namespace with a
loopback interface only. Elsewhere it runs in the system's network, and a port in use is an error.
"""

from __future__ import annotations

import fcntl
import functools
import shutil
import socket
import struct
import subprocess
from typing import Final

__all__ = ["bring_up_loopback", "isolated"]

_SIOCGIFFLAGS: Final = 0x8913
_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP: Final = 0x1
_REQUEST: Final = struct.Struct("16sh14x")


def isolated(command: list[str]) -> list[str]:
    """The command line that runs `command` in a network of its own, or `command` itself."""
    prefix = _prefix()
    return [*prefix, *command]


@functools.cache
def _prefix() -> tuple[str, ...]:
    unshare = shutil.which("unshare")
    if unshare is None:
        return ()
    prefix = (unshare, "--map-root-user", "--net", "--")
    tried = subprocess.run([*prefix, "true"], check=False, capture_output=True)
    return prefix if tried.returncode == 0 else ()


def bring_up_loopback() -> None:
    """Enable the loopback interface, which is down in a new namespace."""
    with socket.socket() as any_socket:
        asked = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, _REQUEST.pack(b"lo", 0))
        name, flags = _REQUEST.unpack(asked)
        if not flags & _IFF_UP:
            fcntl.ioctl(any_socket, _SIOCSIFFLAGS, _REQUEST.pack(name, flags | _IFF_UP))
