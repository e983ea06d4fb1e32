"""Kafka's wire protocol: bytes to messages and back, without sockets, clocks or groups.

The parts, from the bottom: `types` and `schema` (how messages are declared), `messages` and
`group_records` (the declarations), `codec` (encode and decode), `frames` (headers, sizes, correlation),
`records` (record batches).
"""

from __future__ import annotations

from coterie.protocol.api import ApiKey
from coterie.protocol.codec import decode, decode_prefix, encode
from coterie.protocol.types import Uuid

__all__ = ["ApiKey", "Uuid", "decode", "decode_prefix", "encode"]
