"""Every exception that Coterie raises on purpose, in one tree.

    CoterieError
    ├── ProtocolError           bytes that break Kafka's protocol, or that we refuse to believe
    │   └── RecordBatchError    the same, for record batches (checksum, codec, record layout)
    ├── InvalidMessage          a message whose own values do not fit its fields
    └── UnsupportedVersion      a message that cannot be said in the asked-for version

What a peer did wrong is a ProtocolError; what the caller asked for and cannot have is the rest. Error
codes that a broker sends are data, not exceptions: see coterie.error_codes.
"""

from __future__ import annotations

__all__ = [
    "CoterieError",
    "InvalidMessage",
    "ProtocolError",
    "RecordBatchError",
    "UnsupportedVersion",
]


class CoterieError(Exception):
    """Base of all errors of this package; its text is one sentence for a person."""


class ProtocolError(CoterieError):
    """Bytes that are no message. Names what was read, which field, and where it went wrong."""

    def __init__(
        self,
        reason: str,
        *,
        message: str = "",
        version: int | None = None,
        field: str = "",
        offset: int | None = None,
    ) -> None:
        self.reason = reason
        self.message = message
        self.version = version
        self.field = field
        self.offset = offset
        what = message if version is None else f"{message} v{version}"
        place = f"{what}.{field}" if what and field else what or field
        if offset is not None:
            place = f"{place} at byte {offset}".strip()
        super().__init__(f"{place}: {reason}" if place else reason)


class RecordBatchError(ProtocolError):
    """A record batch that is damaged, cut, or of a kind that Kafka no longer writes."""


class InvalidMessage(CoterieError):
    """A message that was built with a value its field cannot hold: the caller's mistake."""


class UnsupportedVersion(CoterieError):
    """A value that the chosen version of a message has no place for, or a version that is not there."""
