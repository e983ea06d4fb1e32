"""Exceptions as the Java tool prints them, and times and durations as Java parses them.

Scripts look for the names of Java exceptions in what the tool prints, so ours prints them, too. Stack frames
are left out: they name lines of programs that do not run here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

__all__ = [
    "Throwable",
    "api_exception",
    "class_of",
    "execution",
    "parse_datetime",
    "parse_duration",
    "runtime",
    "timeout",
]

_ERRORS: Final = "org.apache.kafka.common.errors."

#: Error codes whose exception is not named like the code.
_ODD_NAMES: Final = {
    "BROKER_NOT_AVAILABLE": "BrokerNotAvailable",
    "CLUSTER_AUTHORIZATION_FAILED": "ClusterAuthorization",
    "CORRUPT_MESSAGE": "CorruptRecord",
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED": "DelegationTokenAuthorization",
    "GROUP_AUTHORIZATION_FAILED": "GroupAuthorization",
    "INVALID_TOPIC_EXCEPTION": "InvalidTopic",
    "KAFKA_STORAGE_ERROR": "KafkaStorage",
    "MESSAGE_TOO_LARGE": "RecordTooLarge",
    "NON_EMPTY_GROUP": "GroupNotEmpty",
    "OFFSET_METADATA_TOO_LARGE": "OffsetMetadataTooLarge",
    "REQUEST_TIMED_OUT": "Timeout",
    "SASL_AUTHENTICATION_FAILED": "SaslAuthentication",
    "TOPIC_AUTHORIZATION_FAILED": "TopicAuthorization",
    "TOPIC_ALREADY_EXISTS": "TopicExists",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "TransactionalIdAuthorization",
    "UNKNOWN_SERVER_ERROR": "UnknownServer",
}


class Throwable(Exception):
    """A Java exception: its class, its message (None if it has none) and what caused it."""

    def __init__(
        self, class_name: str, message: str | None = None, cause: Throwable | None = None
    ) -> None:
        super().__init__(message)
        self.class_name = class_name
        # Java: an exception with a cause and no words of its own has the cause's.
        self.message = str(cause) if message is None and cause is not None else message
        self.cause = cause

    def __str__(self) -> str:
        return self.class_name if self.message is None else f"{self.class_name}: {self.message}"

    def lines(self) -> Iterator[str]:
        """What printStackTrace prints, without the frames."""
        yield str(self)
        cause = self.cause
        while cause is not None:
            yield f"Caused by: {cause}"
            cause = cause.cause


def class_of(code_name: str) -> str:
    """The exception of an error code: GroupIdNotFoundException for GROUP_ID_NOT_FOUND."""
    camel = "".join(word.capitalize() for word in code_name.split("_"))
    return f"{_ERRORS}{_ODD_NAMES.get(code_name, camel)}Exception"


def api_exception(code_name: str, message: str) -> Throwable:
    return Throwable(class_of(code_name), message)


def timeout(message: str) -> Throwable:
    return Throwable(f"{_ERRORS}TimeoutException", message)


def execution(cause: Throwable) -> Throwable:
    """What a future throws for a failure that happened elsewhere."""
    return Throwable("java.util.concurrent.ExecutionException", cause=cause)


def runtime(cause: Throwable) -> Throwable:
    return Throwable("java.lang.RuntimeException", cause=cause)


#: yyyy-MM-dd'T'HH:mm:ss.SSSXXX; Java lets numbers be shorter or longer than its pattern, and ignores a rest.
_DATE_TIME: Final = re.compile(
    r"(\d{1,9})-(\d{1,9})-(\d{1,9})T(\d{1,9}):(\d{1,9}):(\d{1,9})\.(\d{1,9})"
    r"(Z|[+-]\d{2}(?::?\d{2})?)"
)
_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?"
    r"(T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.IGNORECASE,
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_datetime(text: str) -> int:
    """Milliseconds since 1970; without a zone the time is in UTC."""
    _, has_time, rest = text.partition("T")
    if not has_time or not rest:
        raise _parse_error(
            "Error parsing timestamp. It does not contain a 'T' according to ISO8601 format"
        )
    if not any(sign in rest.split("T")[0] for sign in "+-Z"):
        text += "Z"
    found = _DATE_TIME.match(text)
    try:
        return _millis(found) if found is not None else _unparseable(text)
    except (ValueError, OverflowError):
        # Kafka's tool parses strictly: 31 February is an error.
        return _unparseable(text)


def _millis(found: re.Match[str]) -> int:
    year, month, day, hour, minute, second, fraction = (int(found[i]) for i in range(1, 8))
    # Milliseconds are a number in Java's pattern, not a decimal fraction.
    moment = datetime(year, month, day, hour, minute, second, fraction * 1000, _zone(found[8]))
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _zone(text: str) -> timezone:
    if text == "Z":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)


def _unparseable(text: str) -> int:
    raise _parse_error(f'Unparseable date: "{text}"')


def _parse_error(message: str) -> Throwable:
    return runtime(Throwable("java.text.ParseException", message))


def parse_duration(text: str) -> timedelta:
    """ISO 8601 as java.time.Duration has it: PnDTnHnMn.nS."""
    found = _DURATION.fullmatch(text)
    days, time, hours, minutes, seconds = (found[i] if found else None for i in range(2, 7))
    # A T that nothing follows is as wrong as an empty text.
    empty = days is None and hours is None and minutes is None and seconds is None
    if found is None or empty or (time is not None and len(time) == 1):
        raise Throwable(
            "java.time.format.DateTimeParseException", "Text cannot be parsed to a Duration"
        )
    fraction = int((found[7] or "").ljust(9, "0")) // 1000
    duration = timedelta(
        days=int(days or 0),
        hours=int(hours or 0),
        minutes=int(minutes or 0),
        seconds=int(seconds or 0),
        microseconds=-fraction if (seconds or "").startswith("-") else fraction,
    )
    return -duration if found[1] == "-" else duration
