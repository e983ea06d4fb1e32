"""A rebalance of a consumer group (KIP-848) of so many members, timed: one joins, and later leaves.

The time is from the newcomer's first heartbeat until every member has reached the new epoch and the
newcomer has its share, and the same again for its leaving. Each member has a connection of its own and
sends its next heartbeat as soon as it has an answer, until it is settled; waiting for the next interval
would measure the interval. Members do as the protocol asks: what they are told to give up they give up, and
say so.
"""

from __future__ import annotations

import selectors
import socket
import statistics
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final, Self

from bench.harness import must_equal
from bench.rebalance import decoded, encoded
from bench.scene import await_ok
from bench.servers import Server
from coterie.protocol.frames import FrameBuffer
from coterie.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from coterie.protocol.messages.groups import DeleteGroupsRequest, DeleteGroupsResponse
from coterie.protocol.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.kit.wire_client import WireClient

__all__ = ["p50_of_consumer_rebalances"]

_SECONDS: Final = 60.0
_VERSION: Final = 1
_TOPIC_EXISTS: Final = 36
#: Partitions for each member, about.
_SHARE: Final = 3


def p50_of_consumer_rebalances(server: Server, group: str, members: int, rounds: int) -> float:
    """Milliseconds: form a group, let one more join and leave so many times, and clean up."""
    topic = f"shared-by-{members}"
    with WireClient(*server.address, "bench") as client:
        _make_topic(client, topic, members * _SHARE)
        await_ok(lambda: _find(client, group))
        with _Members(server, group, topic, members) as all_of_them:
            all_of_them.form()
            figure = statistics.median(all_of_them.rebalance() for _ in range(rounds))
            all_of_them.leave()
        delete = DeleteGroupsRequest(groups_names=(group,))
        await_ok(lambda: client.ask(delete, DeleteGroupsResponse).results[0].error_code)
    return figure


def _make_topic(client: WireClient, topic: str, partitions: int) -> None:
    request = CreateTopicsRequest(topics=(CreatableTopic(topic, partitions, 1),))
    error = client.ask(request, CreateTopicsResponse).topics[0].error_code
    if error != _TOPIC_EXISTS:
        must_equal("the answer to CreateTopics", 0, error)


def _find(client: WireClient, group: str) -> int:
    request = FindCoordinatorRequest(coordinator_keys=(group,))
    return client.ask(request, FindCoordinatorResponse).coordinators[0].error_code


@dataclass
class _Member:
    link: socket.socket
    member_id: str
    frames: FrameBuffer = field(default_factory=FrameBuffer)
    epoch: int = 0
    owned: tuple[TopicPartitions, ...] = ()
    #: Whether what it owns has changed since it last said so.
    news: bool = False

    @property
    def size(self) -> int:
        return sum([len(each.partitions) for each in self.owned])

    def heard(self, answer: bytes) -> None:
        told = decoded(ConsumerGroupHeartbeatResponse, _VERSION, answer)
        must_equal("the answer to a heartbeat", 0, told.error_code)
        self.epoch = told.member_epoch
        self.news = False
        if told.assignment is not None:
            self.news = told.assignment.topic_partitions != self.owned
            self.owned = told.assignment.topic_partitions


class _Members:
    """The members of one group, and one seat for a newcomer."""

    def __init__(self, server: Server, group: str, topic: str, count: int) -> None:
        self._server = server
        self._group = group
        self._topic = topic
        self._selector = selectors.DefaultSelector()
        self._members: list[_Member] = []
        for number in range(count + 1):
            link = socket.create_connection(server.address, timeout=_SECONDS)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            member = _Member(link, f"member-{number:04}")
            self._members.append(member)
            self._selector.register(link, selectors.EVENT_READ, member)
        self._newcomer = self._members.pop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        for member in (*self._members, self._newcomer):
            member.link.close()

    def form(self) -> None:
        """All join; then heartbeats until each has its share."""
        for member in self._members:
            self._beat(member)
            self._settle([member], 0, least=0)
        self._until_settled(self._members, least=_SHARE)

    def rebalance(self) -> float:
        """One joins and leaves again, in milliseconds for both."""
        newcomer, everybody = self._newcomer, [*self._members, self._newcomer]
        newcomer.epoch, newcomer.owned, newcomer.news = 0, (), False
        goal = self._members[0].epoch + 1
        begin = perf_counter()
        for member in everybody[::-1]:
            self._beat(member)
        self._settle(everybody, goal, least=_SHARE - 1)
        newcomer.epoch = -1
        self._beat(newcomer)
        self._wait_for(newcomer)
        for member in self._members:
            self._beat(member)
        self._settle(self._members, goal + 1, least=_SHARE)
        took = perf_counter() - begin
        must_equal("the epochs of the members", {goal + 1}, {each.epoch for each in self._members})
        return took * 1e3

    def leave(self) -> None:
        for member in self._members:
            member.epoch = -1
            self._beat(member)
            self._wait_for(member)

    def _until_settled(self, members: list[_Member], least: int) -> None:
        """All have the highest epoch there is."""
        while True:
            goal = max(each.epoch for each in members)
            for member in members:
                self._beat(member)
            self._settle(members, goal, least=least)
            if {each.epoch for each in members} == {goal}:
                return

    def _beat(self, member: _Member) -> None:
        first = member.epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=member.member_id,
            member_epoch=member.epoch,
            rebalance_timeout_ms=300_000 if first else -1,
            subscribed_topic_names=(self._topic,) if first else None,
            topic_partitions=() if first else member.owned if member.news else None,
        )
        member.link.sendall(encoded(request, _VERSION))

    def _settle(self, members: list[_Member], goal: int, *, least: int) -> None:
        """Each has sent a heartbeat; those that have not reached the goal by it send more."""
        waiting = {member.member_id for member in members}
        deadline = perf_counter() + _SECONDS
        while waiting:
            for key, _ in self._selector.select(1.0):
                member: _Member = key.data
                for answer in member.frames.feed(self._receive(member)):
                    member.heard(answer)
                    if member.epoch >= goal and not member.news and member.size >= least:
                        waiting.discard(member.member_id)
                    else:
                        self._beat(member)
            if perf_counter() > deadline:
                raise TimeoutError(f"{self._server.name} did not rebalance in {_SECONDS:.0f} s")

    def _wait_for(self, member: _Member) -> None:
        while not (answers := member.frames.feed(self._receive(member))):
            pass
        must_equal("one answer", 1, len(answers))
        told = decoded(ConsumerGroupHeartbeatResponse, _VERSION, answers[0])
        must_equal("the answer to leaving", (0, -1), (told.error_code, told.member_epoch))

    def _receive(self, member: _Member) -> bytes:
        data = member.link.recv(1 << 16)
        if not data:
            raise ConnectionError(f"{self._server.name} closed a member's connection")
        return data
