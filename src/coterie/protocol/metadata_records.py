"""The records of `__cluster_metadata`: users, ACLs, settings, quotas, features and delegation tokens.

These are Kafka's metadata records, so that Kafka's own tools can read the log. They have no key; a value
starts with the version of this frame, the record's type and the record's version, all as unsigned varints.
The embedded cluster stores these types and no others. Called by the server.
"""

from __future__ import annotations

from typing import Final, get_args

from coterie.errors import ProtocolError
from coterie.protocol.codec import decode, encode
from coterie.protocol.schema import RecordValue, Struct, field
from coterie.protocol.types import Float64, Int8, Int16, Int32, Int64, Uuid
from coterie.protocol.versioned import Undecoded
from coterie.protocol.wire import Malformed, uvarint, write_uvarint

__all__ = [
    "AccessControlEntryRecord",
    "ClientQuotaEntity",
    "ClientQuotaRecord",
    "ConfigRecord",
    "DelegationTokenRecord",
    "FeatureLevelRecord",
    "MetadataRecord",
    "RemoveAccessControlEntryRecord",
    "RemoveDelegationTokenRecord",
    "RemoveUserScramCredentialRecord",
    "UserScramCredentialRecord",
    "decode_metadata_record",
    "encode_metadata_record",
]

_FRAME_VERSION: Final = 1


class ConfigRecord(RecordValue, key=4, versions="0", flexible="0+"):
    """One setting of a broker, of all brokers or of a group."""

    resource_type: Int8 = field("0+", "Type: 4 broker, 32 group.", default=0)
    resource_name: str = field("0+", "Broker id or group id; empty for all brokers.", default="")
    name: str = field("0+", "Name of the setting.", default="")
    value: str | None = field("0+", "Value; null removes it.", default="", nullable="0+")


class DelegationTokenRecord(RecordValue, key=10, versions="0", flexible="0+"):
    """A delegation token, without its HMAC."""

    owner: str = field("0+", "Principal that owns the token.", default="")
    requester: str = field("0+", "Principal that requested the token.", default="")
    renewers: tuple[str, ...] = field("0+", "Principals that may renew the token.", default=())
    issue_timestamp: Int64 = field("0+", "Time of issue, epoch milliseconds.", default=0)
    max_timestamp: Int64 = field("0+", "Time after which it cannot be renewed.", default=0)
    expiration_timestamp: Int64 = field("0+", "Time of expiry, epoch milliseconds.", default=0)
    token_id: str = field("0+", "Id of the token.", default="")


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


class FeatureLevelRecord(RecordValue, key=12, versions="0", flexible="0+"):
    """The finalized level of a feature."""

    name: str = field("0+", "Name of the feature.", default="")
    feature_level: Int16 = field("0+", "Finalized level; 0 if there is none.", default=0)


class ClientQuotaEntity(Struct):
    """One part of the entity that a quota is for."""

    entity_type: str = field("0+", "Type of the entity: user, client-id or ip.", default="")
    entity_name: str | None = field(
        "0+", "Name of the entity; null for the default.", default="", nullable="0+"
    )


class ClientQuotaRecord(RecordValue, key=14, versions="0", flexible="0+"):
    """One client quota."""

    entity: tuple[ClientQuotaEntity, ...] = field("0+", "The parts of the entity.", default=())
    key: str = field("0+", "Name of the quota.", default="")
    value: Float64 = field("0+", "Value of the quota.", default=0.0)
    remove: bool = field("0+", "True removes the quota.", default=False)


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


class RemoveDelegationTokenRecord(RecordValue, key=26, versions="0", flexible="0+"):
    """A delegation token is removed."""

    token_id: str = field("0+", "Id of the token.", default="")


MetadataRecord = (
    ConfigRecord
    | DelegationTokenRecord
    | UserScramCredentialRecord
    | FeatureLevelRecord
    | ClientQuotaRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | RemoveUserScramCredentialRecord
    | RemoveDelegationTokenRecord
)

_TYPES: Final[dict[int, type[MetadataRecord]]] = {
    each.__key__: each for each in get_args(MetadataRecord)
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
