"""Kafka's times, epoch milliseconds, as moments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from coterie.errors import InvalidArgument

__all__ = ["EPOCH", "LAST_MS", "milliseconds", "moment"]

#: 9999-12-31, the last day that Python and Spark know.
LAST_MS: Final = 253402300799999
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def moment(epoch_ms: int) -> datetime | None:
    """Epoch milliseconds as a time; None for -1, Kafka's unknown, and for what no calendar has."""
    if not 0 <= epoch_ms <= LAST_MS:
        return None
    return EPOCH + timedelta(milliseconds=epoch_ms)


def milliseconds(text: str, name: str) -> int:
    """A time that a person gave: epoch milliseconds, or ISO 8601, UTC unless it says otherwise.

    One before 1970 is as good as 1970: no record is older.
    """
    when = text.strip()
    found = int(when) if _is_short_number(when) else _from_iso(when)
    if found is None or found > LAST_MS:
        raise InvalidArgument(
            f"{name}: {text!r} is no time; give epoch milliseconds, or 2026-01-31T12:00:00"
        )
    return max(0, found)


def _is_short_number(text: str) -> bool:
    # Other alphabets have digits too, and Python takes no number of thousands of them.
    return text.isascii() and text.isdecimal() and len(text) <= len(str(LAST_MS))


def _from_iso(text: str) -> int | None:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return (when - EPOCH) // timedelta(milliseconds=1)
