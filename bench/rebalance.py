"""A rebalance of so many members, timed: all rejoin at once, each over a connection of its own.

The time is from the first JoinGroup to the last answer to a SyncGroup. Both requests of every member are
encoded beforehand: the next generation's number and who leads are known, since members come and go only
here. Answers are decoded after the clock has stopped, and a round that did not go as foreseen is an error.
"""

from __future__ import annotations

import selectors
import socket
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final, Self, TypeVar

from bench.harness import must_equal
from bench.scene import JOIN_VERSION, SYNC_VERSION, TOPIC, await_ok, join_request
from bench.servers import Server
from coterie.error_codes import ErrorCode
from coterie.protocol.api import ApiKey
from coterie.protocol.frames import FrameBuffer, decode_response, encode_request
from coterie.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from coterie.protocol.messages.groups import DeleteGroupsRequest, DeleteGroupsResponse
from coterie.protocol.messages.membership import (
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from coterie.protocol.schema import Request, Response
from coterie.protocol.versioned import encode_versioned
from tests.kit.wire_client import WireClient

__all__ = ["Members", "decoded", "encoded", "p50_of_rebalances"]

R = TypeVar("R", bound=Response)

_SECONDS: Final = 60.0
_ASSIGNMENT: Final = b"\x00\x01" * 30


def p50_of_rebalances(server: Server, group: str, members: int, rounds: int) -> float:
    """Milliseconds: form a group, rebalance it so many times, and leave nothing of it behind."""
    with Members(server, group, members) as all_of_them:
        all_of_them.form()
        figure = statistics.median(all_of_them.rebalance() for _ in range(rounds))
        all_of_them.leave()
    return figure


@dataclass
class _Member:
    link: socket.socket
    number: int
    member_id: str = ""
    joined: JoinGroupResponse = field(default_factory=JoinGroupResponse)
    frames: FrameBuffer = field(default_factory=FrameBuffer)
    answers: list[bytes] = field(default_factory=list)
    sync: bytes = b""

    def send(self, request: Request, version: int) -> None:
        self.link.sendall(encoded(request, version))


class Members:
    """The members of one group, on connections that stay open."""

    def __init__(self, server: Server, group: str, count: int) -> None:
        self._server = server
        self._group = group
        self._round = 0
        self._selector = selectors.DefaultSelector()
        self._members: list[_Member] = []
        for number in range(count):
            link = socket.create_connection(server.address, timeout=_SECONDS)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            member = _Member(link, number)
            self._members.append(member)
            self._selector.register(link, selectors.EVENT_READ, member)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        for member in self._members:
            member.link.close()

    def form(self) -> None:
        """All into one generation. Until then members join anew, whenever one was made without some."""
        for member in self._members:
            member.send(self._join(member), JOIN_VERSION)
        too_small: set[int] = set()
        idle: list[_Member] = []

        def heard(member: _Member, answer: bytes) -> None:
            joined = member.joined = decoded(JoinGroupResponse, JOIN_VERSION, answer)
            member.member_id = joined.member_id
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                member.send(self._join(member), JOIN_VERSION)
                return
            must_equal("an answer to a first JoinGroup", 0, joined.error_code)
            idle.append(member)
            if joined.leader == joined.member_id and len(joined.members) < len(self._members):
                too_small.add(joined.generation_id)
            for each in [each for each in idle if each.joined.generation_id in too_small]:
                idle.remove(each)
                each.send(self._join(each), JOIN_VERSION)

        self._listen(heard, lambda: len(idle) == len(self._members))
        self._encode_syncs(self._members[0].joined.generation_id)
        for member in self._members:
            member.link.sendall(member.sync)
        self._hear(len(self._members), _keep)
        for member in self._members:
            must_equal("a first SyncGroup", 0, _sync_error(member.answers.pop()))

    def rebalance(self) -> float:
        """One round, in milliseconds."""
        self._round += 1
        generation = self._members[0].joined.generation_id + 1
        leader = self._members[0].joined.leader
        self._encode_syncs(generation)
        joins = [encoded(self._join(member), JOIN_VERSION) for member in self._members]

        def heard(member: _Member, answer: bytes) -> None:
            member.answers.append(answer)
            if len(member.answers) == 1:
                member.link.sendall(member.sync)

        begin = perf_counter()
        for member, join in zip(self._members, joins, strict=True):
            member.link.sendall(join)
        self._hear(2 * len(self._members), heard)
        took = perf_counter() - begin
        for member in self._members:
            joined, synced = member.answers
            member.answers = []
            member.joined = decoded(JoinGroupResponse, JOIN_VERSION, joined)
            found = (member.joined.error_code, member.joined.generation_id, member.joined.leader)
            must_equal("an answer to JoinGroup", (0, generation, leader), found)
            must_equal("an answer to SyncGroup", 0, _sync_error(synced))
        return took * 1e3

    def leave(self) -> None:
        """All of them at once; then the group is deleted."""
        gone = tuple(MemberIdentity(member_id=each.member_id) for each in self._members)
        with WireClient(*self._server.address, "bench") as client:
            client.ask(LeaveGroupRequest(group_id=self._group, members=gone), LeaveGroupResponse)
            delete = DeleteGroupsRequest(groups_names=(self._group,))
            await_ok(lambda: client.ask(delete, DeleteGroupsResponse).results[0].error_code)

    def _join(self, member: _Member) -> Request:
        """With metadata that no other round has, since an unchanged follower causes no rebalance."""
        news = f"{self._round:06}-{member.number:06}".encode()
        subscription = ConsumerProtocolSubscription(topics=(TOPIC,), user_data=news)
        return join_request(self._group, member.member_id, encode_versioned(subscription, 1))

    def _encode_syncs(self, generation: int) -> None:
        leader = self._members[0].joined.leader
        everybody = tuple(
            SyncGroupRequestAssignment(member_id=each.member_id, assignment=_ASSIGNMENT)
            for each in self._members
        )
        for member in self._members:
            request = SyncGroupRequest(
                group_id=self._group,
                generation_id=generation,
                member_id=member.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=everybody if member.member_id == leader else (),
            )
            member.sync = encoded(request, SYNC_VERSION)

    def _hear(self, answers: int, heard: Callable[[_Member, bytes], None]) -> None:
        """So many answers, from whomever."""
        left = answers

        def count(member: _Member, answer: bytes) -> None:
            nonlocal left
            left -= 1
            heard(member, answer)

        self._listen(count, lambda: not left)

    def _listen(self, heard: Callable[[_Member, bytes], None], done: Callable[[], bool]) -> None:
        deadline = perf_counter() + _SECONDS
        while not done():
            for key, _ in self._selector.select(1.0):
                member: _Member = key.data
                data = member.link.recv(1 << 18)
                if not data:
                    raise ConnectionError(f"{self._server.name} closed a member's connection")
                for answer in member.frames.feed(data):
                    heard(member, answer)
            if perf_counter() > deadline:
                raise TimeoutError(f"{self._server.name} did not rebalance in {_SECONDS:.0f} s")


def _keep(member: _Member, answer: bytes) -> None:
    member.answers.append(answer)


def encoded(request: Request, version: int) -> bytes:
    """A request as it goes over the wire."""
    return encode_request(request, version, correlation_id=1, client_id="bench")


def decoded(kind: type[R], version: int, answer: bytes) -> R:
    """A frame as the response that it must be."""
    _, response = decode_response(ApiKey(kind.__key__), version, answer)
    if not isinstance(response, kind):
        raise TypeError(f"{type(response).__name__} instead of {kind.__name__}")
    return response


def _sync_error(answer: bytes) -> int:
    return decoded(SyncGroupResponse, SYNC_VERSION, answer).error_code
