"""Every exception that Coterie raises on purpose, in one tree.

    CoterieError
    ├── ProtocolError           bytes that break Kafka's protocol, or that we refuse to believe
    │   └── RecordBatchError    the same, for record batches (checksum, codec, record layout)
    ├── InvalidMessage          a message whose own values do not fit its fields
    ├── UnsupportedVersion      a message that cannot be said in the asked-for version
    │   └── NoBatchedFindCoordinators   many coordinators at once, from a broker older than KIP-699
    ├── InvalidSetting          a setting that does not exist or does not fit
    ├── InvalidArgument         an argument that cannot be meant; also a ValueError
    ├── BrokerUnreachable       no connection, or one that ended before the answer
    ├── AuthenticationFailed    TLS or SASL: one side does not believe the other
    ├── DeadlineExceeded        no answer in time; names the last cause
    ├── KafkaError              an error code in an answer, with the thing it is about
    │   ├── NonEmptyGroup, GroupIdNotFound, InvalidGroupId, GroupAuthorizationFailed
    │   └── GroupSubscribedToTopic, TopicAuthorizationFailed, UnknownTopicOrPartition
    └── PartialAnswer           an answer that is not whole, unwrapped; says what is missing

What a peer did wrong is a ProtocolError; what the caller asked for and cannot have is the rest. Error
codes that a broker sends are data, not exceptions: see coterie.error_codes.
"""

from __future__ import annotations

from coterie.error_codes import ErrorCode

__all__ = [
    "AuthenticationFailed",
    "BrokerUnreachable",
    "CoterieError",
    "DeadlineExceeded",
    "GroupAuthorizationFailed",
    "GroupIdNotFound",
    "GroupSubscribedToTopic",
    "InvalidArgument",
    "InvalidGroupId",
    "InvalidMessage",
    "InvalidSetting",
    "KafkaError",
    "NoBatchedFindCoordinators",
    "NonEmptyGroup",
    "PartialAnswer",
    "ProtocolError",
    "RecordBatchError",
    "TopicAuthorizationFailed",
    "UnknownTopicOrPartition",
    "UnsupportedVersion",
    "kafka_error",
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

    #: Where a broker is too old: the highest version that it serves, and the lowest that would do.
    served: int | None = None
    needed: int | None = None


class NoBatchedFindCoordinators(UnsupportedVersion):
    """The broker cannot look up many coordinators at once; they must be looked up one by one (KIP-699)."""


class InvalidSetting(CoterieError):
    """A setting that does not exist or does not fit; names it and what it takes."""


class InvalidArgument(CoterieError, ValueError):
    """An argument of a call that cannot be meant; says what to give instead."""


class BrokerUnreachable(CoterieError):
    """There is no connection to a broker, or it ended before the answer came."""


class AuthenticationFailed(CoterieError):
    """The broker refused the credentials, or is not who it should be. Trying again does not help."""


class DeadlineExceeded(CoterieError):
    """There was no answer in time; the text names the last cause and how often it was tried."""


class KafkaError(CoterieError):
    """An error code that a broker answered, and what it is about (a group, a partition)."""

    def __init__(self, code: ErrorCode, subject: str = "", message: str | None = None) -> None:
        self.code = code
        self.subject = subject
        #: The broker's words, or Kafka's for this code.
        self.text = text = message or code.message
        super().__init__(f"{subject}: {text} ({code.name})" if subject else f"{text} ({code.name})")


class NonEmptyGroup(KafkaError):
    """The group has members, so it stays."""


class GroupIdNotFound(KafkaError):
    """There is no such group."""


class InvalidGroupId(KafkaError):
    """The id cannot be a group's."""


class GroupAuthorizationFailed(KafkaError):
    """The caller may not do this to the group."""


class GroupSubscribedToTopic(KafkaError):
    """A member subscribes to the topic, so its offsets stay."""


class TopicAuthorizationFailed(KafkaError):
    """The caller may not do this with the topic."""


class UnknownTopicOrPartition(KafkaError):
    """There is no such topic or partition."""


_BY_CODE = {
    ErrorCode.NON_EMPTY_GROUP: NonEmptyGroup,
    ErrorCode.GROUP_ID_NOT_FOUND: GroupIdNotFound,
    ErrorCode.INVALID_GROUP_ID: InvalidGroupId,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: GroupAuthorizationFailed,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: GroupSubscribedToTopic,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: TopicAuthorizationFailed,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopicOrPartition,
}


def kafka_error(code: int, subject: str = "", message: str | None = None) -> KafkaError:
    """The exception for an error code."""
    known = ErrorCode.of(code)
    return _BY_CODE.get(known, KafkaError)(known, subject, message)


class PartialAnswer(CoterieError):
    """An answer that is not whole was asked to be; says what is missing, and why."""
