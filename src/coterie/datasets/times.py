"""Kafka's times, epoch milliseconds, as moments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from coterie.errors import InvalidArgument

__all__ = ["LAST_MS", "milliseconds", "moment"]

#: 9999-12-31, the last day that Python and Spark know.
LAST_MS: Final = 253402300799999
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def moment(epoch_ms: int) -> datetime | None:
    """Epoch milliseconds as a time; None for -1, Kafka's unknown, and for what no calendar has."""
    if not 0 <= epoch_ms <= LAST_MS:
        return None
    return _EPOCH + timedelta(milliseconds=epoch_ms)


def milliseconds(text: str, name: str) -> int:
    """A time that a person gave: epoch milliseconds, or ISO 8601, UTC unless it says otherwise."""
    if text.strip().isdigit():
        return int(text)
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidArgument(
            f"{name}: {text!r} is no time; give epoch milliseconds, or 2026-01-31T12:00:00"
        ) from None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return (when - _EPOCH) // timedelta(milliseconds=1)
