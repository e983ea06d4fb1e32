"""What the Java tool throws, as far as it can be seen: class, message and cause.

Scripts look for the names of Java exceptions in what the tool prints, so ours has them, too. Stack frames
are left out: they name lines of programs that do not run here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

__all__ = ["Throwable", "api_exception", "class_of", "execution", "runtime", "timeout"]

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
