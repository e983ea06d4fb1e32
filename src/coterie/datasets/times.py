"""Kafka's times, epoch milliseconds, as moments."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from coterie.errors import InvalidArgument

__all__ = ["EPOCH", "LAST_MS", "milliseconds", "moment"]

#: 9999-12-31, the last day that Python and Spark know.
LAST_MS: Final = 253402300799999
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: 2000-01-01. A smaller number is a year, a day or seconds: Kafka is younger.
_FIRST_MS: Final = 946684800000
#: Digits after the microseconds, which Python ignores.
_FINER: Final = re.compile(r"[.,]\d{6}\d*[1-9]")


def moment(epoch_ms: int) -> datetime | None:
    """Epoch milliseconds as a time; None for -1, Kafka's unknown, and for what no calendar has."""
    if not 0 <= epoch_ms <= LAST_MS:
        return None
    return EPOCH + timedelta(milliseconds=epoch_ms)


def milliseconds(text: str, name: str) -> int:
    """A time that a person gave: epoch milliseconds, or ISO 8601, UTC unless it says otherwise.

    One before 1970 is as good as 1970: no record is older. One between two milliseconds is the second of
    them, for records have whole ones.
    """
    when = text.strip()
    is_number = _is_short_number(when)
    found = int(when) if is_number else _from_iso(when)
    if is_number and int(when) < _FIRST_MS:
        raise InvalidArgument(
            f"{name}: {when} is before the year 2000 in epoch milliseconds; give all milliseconds, such as"
            " 1767225600000, or 2026-01-31T12:00:00"
        )
    if found is None or found > LAST_MS:
        raise InvalidArgument(
            f"{name}: {text!r} is not a time; give epoch milliseconds, or 2026-01-31T12:00:00"
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
    since = when - EPOCH + timedelta(microseconds=1 if _FINER.search(text) else 0)
    return -(-since // timedelta(milliseconds=1))
