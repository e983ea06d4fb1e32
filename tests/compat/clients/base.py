"""What a scenario may ask of a client library, in the same words for all of them.

Each library has a class of its own beside this file; what a library cannot do is not in its `can`, and a
scenario that needs it is not run. Errors come back as Kafka's names, since every library has its own
classes for them.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, NamedTuple, Self

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.cluster import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.kit.wire_client import WireClient

__all__ = [
    "HEARTBEAT_MS",
    "SESSION_MS",
    "Client",
    "Description",
    "GroupConsumer",
    "Read",
    "Refused",
    "Transactions",
    "error_name",
    "leaders",
    "until",
]

#: A rebalance is heard of with a heartbeat; Kafka's 3 s would make every scenario wait for it.
HEARTBEAT_MS = 200
#: No member is to be given up because the machine is slow.
SESSION_MS = 30_000
_DEADLINE_S = 60.0


class Refused(Exception):
    """A commit that was not taken, say because the group rebalances; poll, and try again."""


class Read(NamedTuple):
    """One record, as a consumer gave it."""

    topic: str
    partition: int
    offset: int
    value: bytes


@dataclass(frozen=True)
class Description:
    """A group, as far as all libraries tell of it."""

    state: str
    protocol: str
    members: int
    #: How many partitions each member has, and the instance ids of static members.
    assigned: tuple[int, ...] = ()
    instances: tuple[str, ...] = ()
    error: str = "NONE"


def error_name(code: int) -> str:
    return ErrorCode.of(code).name


def until(condition: Callable[[], object], what: str, seconds: float = _DEADLINE_S) -> None:
    """Call until it is true; the condition itself waits a little, as a poll does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"


def leaders(broker: WireClient, topic: str) -> list[int]:
    """The leaders of a topic's partitions, as far as a broker knows them; Apache Kafka's learn it in turn."""
    asked = MetadataRequest(topics=(MetadataRequestTopic(name=topic),))
    (answer,) = broker.ask(asked, MetadataResponse).topics
    found = [
        each.leader_id for each in sorted(answer.partitions, key=lambda each: each.partition_index)
    ]
    return [] if -1 in found else found


class GroupConsumer(ABC):
    """One member of a group. It reads from the earliest record and commits only when told."""

    @abstractmethod
    def poll(self, seconds: float = 0.05) -> list[Read]: ...

    @abstractmethod
    def assignment(self) -> set[tuple[str, int]]: ...

    @abstractmethod
    def commit(self) -> None:
        """Commit what has been read, and wait for the answer; or Refused."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Transactions(ABC):
    """A transactional producer, initialized."""

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, topic: str, values: Iterable[bytes]) -> None:
        """To partition 0; delivered when this returns."""

    @abstractmethod
    def send_offsets(
        self, consumer: GroupConsumer, offsets: Mapping[tuple[str, int], int]
    ) -> None: ...

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class Client(ABC):
    """A library, pointed at one cluster."""

    name: ClassVar[str]
    #: Of: static, cooperative, states, alter_offsets, delete_offsets, delete_groups, transactions.
    can: ClassVar[frozenset[str]]
    compressions: ClassVar[tuple[str, ...]]

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def create_topic(self, topic: str, partitions: int) -> str:
        """Create it, and wait until every broker knows it; the name of the error, or NONE."""
        outcome = self._create_topic(topic, partitions)
        if outcome == "NONE":
            for address in self.bootstrap.split(","):
                host, _, port = address.rpartition(":")
                with WireClient(host, int(port)) as broker:
                    until(lambda: leaders(broker, topic), f"{topic} at {address}")
        return outcome

    @abstractmethod
    def _create_topic(self, topic: str, partitions: int) -> str: ...

    @abstractmethod
    def produce(
        self,
        topic: str,
        values: Sequence[bytes],
        partitions: int,
        *,
        compression: str = "none",
        idempotent: bool = False,
    ) -> dict[int, int]:
        """Send the values to the partitions in turn; the highest acknowledged offset of each."""

    @abstractmethod
    def consumer(
        self,
        group: str,
        *topics: str,
        instance: str | None = None,
        cooperative: bool = False,
        committed_only: bool = False,
    ) -> GroupConsumer: ...

    @abstractmethod
    def list_groups(self, *states: str) -> dict[str, str]:
        """State by group id; the state is empty where the library does not tell it."""

    @abstractmethod
    def describe(self, group: str) -> Description: ...

    @abstractmethod
    def offsets(self, group: str) -> dict[tuple[str, int], int]: ...

    def alter_offset(self, group: str, topic: str, partition: int, offset: int) -> str:
        raise NotImplementedError

    def delete_offset(self, group: str, topic: str, partition: int) -> str:
        raise NotImplementedError

    def delete_group(self, group: str) -> str:
        raise NotImplementedError

    def transactions(self, transactional_id: str) -> Transactions:
        raise NotImplementedError
