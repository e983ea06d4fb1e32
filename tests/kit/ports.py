"""Ports for servers in processes of their own, which tests kill and start again.

While such a server is down, its port must not be given to somebody else: clients that wait for it would talk
to a stranger (to Spark's Python, say, which then prints a traceback), and it could not come back. So they are
not from the kernel's range, out of which every connection and every `bind` to port 0 is served.
"""

from __future__ import annotations

import secrets
import socket
from pathlib import Path
from typing import Final

from tests.kit.kafka_config import HOST

__all__ = ["free_port", "free_ports", "hold_ports"]

_LOWEST: Final = 10_000
_KERNELS: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


def hold_ports(count: int) -> list[socket.socket]:
    """Sockets that are bound, to different ports, and keep them until they are closed."""
    held: list[socket.socket] = []
    highest = _below_the_kernels()
    while len(held) < count:
        holder = socket.socket()
        try:
            # Not from `random`, whose seed is the same in all workers.
            holder.bind((HOST, _LOWEST + secrets.randbelow(highest - _LOWEST)))
        except OSError:
            holder.close()
        else:
            held.append(holder)
    return held


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on at this moment."""
    held = hold_ports(count)
    ports = [int(each.getsockname()[1]) for each in held]
    for each in held:
        each.close()
    return ports


def free_port() -> int:
    return free_ports(1)[0]


def _below_the_kernels() -> int:
    first = int(_KERNELS.read_text().split()[0]) if _KERNELS.exists() else 32_768
    # Where the kernel has nearly all of them, there is no safe place.
    return first if first > 2 * _LOWEST else 65_536
