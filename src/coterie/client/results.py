"""What the admin client answers: frozen values that print well and say what is missing.

An answer that is not whole is still an answer. `complete` says whether it is whole, `errors` and
`broker_errors` say what is missing and why, and `unwrap()` insists.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import msgspec

from coterie.errors import CoterieError, PartialAnswer
from coterie.protocol.group_state import GroupState, GroupType

__all__ = [
    "BrokerFailure",
    "GroupDescription",
    "GroupLag",
    "GroupListing",
    "GroupOffsets",
    "Member",
    "PartitionLag",
    "PartitionOffset",
    "Result",
    "TopicPartition",
]

T = TypeVar("T")


class TopicPartition(msgspec.Struct, frozen=True, order=True):
    """A topic's partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class BrokerFailure(msgspec.Struct, frozen=True):
    """A broker that did not answer, and why."""

    node_id: int
    address: str
    cause: str

    def __str__(self) -> str:
        return f"broker {self.node_id} ({self.address}): {self.cause}"


class Result(Generic[T]):
    """Items by key, errors by key, and the brokers that failed."""

    __slots__ = ("broker_errors", "errors", "items")

    def __init__(
        self,
        items: dict[str, T],
        errors: dict[str, CoterieError] | None = None,
        broker_errors: tuple[BrokerFailure, ...] = (),
    ) -> None:
        self.items = items
        self.errors = errors or {}
        self.broker_errors = broker_errors

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return not self.errors and not self.broker_errors

    def unwrap(self) -> dict[str, T]:
        """The items, if nothing is missing; else one exception that names all that is."""
        if self.complete:
            return self.items
        if len(self.errors) == 1 and not self.broker_errors:
            raise next(iter(self.errors.values()))
        missing = [str(each) for each in self.broker_errors]
        missing += [str(error) for error in self.errors.values()]
        raise PartialAnswer("the answer is not complete: " + "; ".join(missing))

    def __iter__(self) -> Iterator[T]:
        return iter(self.items.values())

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, key: str) -> T:
        if key in self.errors:
            raise self.errors[key]
        return self.items[key]

    def __contains__(self, key: object) -> bool:
        return key in self.items

    def __repr__(self) -> str:
        missing = len(self.errors) + len(self.broker_errors)
        return f"<{len(self.items)} items, {'complete' if self.complete else f'{missing} errors'}>"

    def to_dicts(self) -> list[dict[str, Any]]:
        """The items as plain dicts."""
        return [msgspec.to_builtins(item) for item in self.items.values()]

    def to_json(self) -> bytes:
        return msgspec.json.encode(list(self.items.values()))


class GroupListing(msgspec.Struct, frozen=True):
    """A group as a list shows it. What a broker is too old to tell is None, not invented."""

    group_id: str
    protocol_type: str
    state: GroupState | None
    type: GroupType | None
    coordinator: int


class Member(msgspec.Struct, frozen=True):
    """A member of a group. What is not known is None."""

    member_id: str
    client_id: str
    host: str
    group_instance_id: str | None = None
    rack: str | None = None
    epoch: int | None = None
    subscription: tuple[str, ...] | None = None
    subscription_regex: str | None = None
    supported_protocols: tuple[str, ...] | None = None
    assignment: tuple[TopicPartition, ...] | None = None
    target_assignment: tuple[TopicPartition, ...] | None = None
    #: Why subscription or assignment could not be read, with the bytes as they are.
    undecoded: str | None = None
    metadata: bytes = b""
    raw_assignment: bytes = b""


class GroupDescription(msgspec.Struct, frozen=True):
    """A group in full, whatever protocol it runs. `sources` says where KIP-181's fields came from."""

    group_id: str
    type: GroupType
    state: GroupState
    protocol_type: str
    coordinator: int
    members: tuple[Member, ...] = ()
    protocol: str | None = None
    assignor: str | None = None
    generation: int | None = None
    epoch: int | None = None
    assignment_epoch: int | None = None
    leader: str | None = None
    authorized_operations: tuple[int, ...] | None = None
    sources: dict[str, str] = {}


class PartitionOffset(msgspec.Struct, frozen=True):
    """A committed offset."""

    offset: int
    leader_epoch: int | None
    metadata: str


class GroupOffsets(msgspec.Struct, frozen=True):
    """What a group has committed, and what could not be told."""

    group_id: str
    offsets: dict[TopicPartition, PartitionOffset]
    errors: dict[TopicPartition, str] = {}


class PartitionLag(msgspec.Struct, frozen=True):
    """How far a group is behind in one partition; None where there is nothing to tell it from."""

    partition: TopicPartition
    committed: int | None
    log_start: int | None
    log_end: int | None
    lag: int | None
    member_id: str | None = None
    error: str | None = None


class GroupLag(msgspec.Struct, frozen=True):
    """How far a group is behind, partition by partition."""

    group_id: str
    state: GroupState
    partitions: tuple[PartitionLag, ...]

    @property
    def total(self) -> int:
        return sum(each.lag or 0 for each in self.partitions)
