"""The records of `__cluster_metadata`: what a cluster remembers of its users and their rights.

Kafka's metadata records, so that Kafka's own tools can read the log. They have no key; a value begins with
the version of this frame, the record's type and the record's version, all as unsigned varints. Of Kafka's
types these are the ones that the embedded cluster keeps in its log. Called by the server.
"""

from __future__ import annotations

from typing import Final

from coterie.errors import ProtocolError
from coterie.protocol.codec import decode, encode
from coterie.protocol.schema import RecordValue, field
from coterie.protocol.types import Int8, Int32, Uuid
from coterie.protocol.versioned import Undecoded
from coterie.protocol.wire import Malformed, uvarint, write_uvarint

__all__ = [
    "AccessControlEntryRecord",
    "MetadataRecord",
    "RemoveAccessControlEntryRecord",
    "RemoveUserScramCredentialRecord",
    "UserScramCredentialRecord",
    "decode_metadata_record",
    "encode_metadata_record",
]

_FRAME_VERSION: Final = 1


class UserScramCredentialRecord(RecordValue, key=11, versions="0", flexible="0+"):
    """What is kept of a user's password, for one mechanism."""

    name: str = field("0+", "Name of the user.", default="")
    mechanism: Int8 = field("0+", "Number of the SCRAM mechanism.", default=0)
    salt: bytes = field("0+", "Random salt.", default=b"")
    stored_key: bytes = field("0+", "Key that proves the client to the server.", default=b"")
    server_key: bytes = field("0+", "Key that proves the server to the client.", default=b"")
    iterations: Int32 = field("0+", "Iterations of the hash.", default=0)

    def __repr__(self) -> str:
        return f"UserScramCredentialRecord({self.name!r}, {self.mechanism}, [hidden])"


class AccessControlEntryRecord(RecordValue, key=18, versions="0", flexible="0+"):
    """An ACL."""

    id: Uuid = field("0+", "Id of the ACL.", default=Uuid.ZERO)
    resource_type: Int8 = field("0+", "Kind of resource.", default=0)
    resource_name: str = field("0+", "Name of the resource.", default="")
    pattern_type: Int8 = field("0+", "How the name is read.", default=0)
    principal: str = field("0+", "Whom it is about.", default="")
    host: str = field("0+", "From where.", default="")
    operation: Int8 = field("0+", "What they want to do.", default=0)
    permission_type: Int8 = field("0+", "Whether it allows or denies.", default=0)


class RemoveAccessControlEntryRecord(RecordValue, key=19, versions="0", flexible="0+"):
    """An ACL is gone."""

    id: Uuid = field("0+", "Id of the ACL.", default=Uuid.ZERO)


class RemoveUserScramCredentialRecord(RecordValue, key=22, versions="0", flexible="0+"):
    """A user's credential for one mechanism is gone."""

    name: str = field("0+", "Name of the user.", default="")
    mechanism: Int8 = field("0+", "Number of the SCRAM mechanism.", default=0)


MetadataRecord = (
    UserScramCredentialRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | RemoveUserScramCredentialRecord
)

_TYPES: Final[dict[int, type[MetadataRecord]]] = {
    each.__key__: each
    for each in (
        UserScramCredentialRecord,
        AccessControlEntryRecord,
        RemoveAccessControlEntryRecord,
        RemoveUserScramCredentialRecord,
    )
}
_FRAMES: Final = {
    cls: b"".join(map(write_uvarint, (_FRAME_VERSION, number, 0))) for number, cls in _TYPES.items()
}


def encode_metadata_record(record: MetadataRecord) -> bytes:
    """The value of a record: the frame, then the message."""
    return encode(record, 0, before=_FRAMES[type(record)])


def decode_metadata_record(data: bytes) -> MetadataRecord | Undecoded:
    """What the value of a record says."""
    try:
        frame, at = uvarint(data, 0)
        number, at = uvarint(data, at)
        version, at = uvarint(data, at)
    except (IndexError, Malformed):
        return Undecoded(data, "the record has no frame")
    if frame != _FRAME_VERSION:
        return Undecoded(data, f"frame version {frame} is not known")
    known = _TYPES.get(number)
    if known is None or version not in known.__versions__:
        return Undecoded(data, f"record type {number} version {version} is not known")
    try:
        return decode(known, data, version, offset=at)
    except ProtocolError as error:
        return Undecoded(data, str(error))
