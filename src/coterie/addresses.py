"""Network addresses as text: `host:port`, with an IPv6 address in brackets (`[::1]:9092`)."""

from __future__ import annotations

from typing import Final

__all__ = ["LAST_PORT", "address_text", "java_address", "parse_address"]

LAST_PORT: Final = 65_535


def address_text(host: str, port: int) -> str:
    """An address as users write it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def java_address(address: str) -> str:
    """An IP address as Java prints it, which is how members and ACLs spell hosts.

    IPv6 is written out (`0:0:0:0:0:0:0:1`), and an IPv4 address that came in by IPv6 is an IPv4 address.
    """
    if ":" not in address:
        return address
    import ipaddress  # noqa: PLC0415 - only for IPv6

    bare, percent, scope = address.partition("%")
    parsed = ipaddress.IPv6Address(bare)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    groups = parsed.exploded.split(":")
    return ":".join(f"{int(group, 16):x}" for group in groups) + percent + scope


def parse_address(text: str) -> tuple[str, int] | None:
    """Host and port; None if the text is not an address. The host may be empty, the port may be 0.

    An IPv6 address without brackets is accepted if it is complete without the port, as Kafka does.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal()) or int(port) > LAST_PORT:
        return None
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        return (host, int(port)) if ":" in host else None
    if ":" in host and not _is_ipv6(host):
        return None
    return host, int(port)


def _is_ipv6(host: str) -> bool:
    import ipaddress  # noqa: PLC0415 - only for an address without brackets

    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True
