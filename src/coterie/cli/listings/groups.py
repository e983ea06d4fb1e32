"""Listings of groups, of their members, and of groups in full."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from coterie.cli.listings.common import (
    COORDINATOR,
    GROUP,
    PROTOCOL_TYPE,
    STATE,
    TYPE,
    lag_of,
    lag_style,
)
from coterie.cli.listings.offsets import LAG, lag_rows
from coterie.cli.selection import GroupRow
from coterie.console.output import Column, Listing, Need, timestamp

if TYPE_CHECKING:
    from coterie.client.results import Member, TopicPartition

__all__ = ["DESCRIPTIONS", "GROUPS", "MEMBERS", "MemberRow", "member_rows"]

GROUPS: Final[Listing[GroupRow]] = Listing(
    "groups",
    "Groups, one per row.",
    (
        GROUP,
        STATE,
        TYPE,
        COORDINATOR,
        PROTOCOL_TYPE,
        Column(
            "members",
            "integer",
            "How many members it has.",
            lambda each: None if each.description is None else len(each.description.members),
            show="asked",
            nullable=True,
            needs=Need.DESCRIPTION,
        ),
        Column(
            "lag",
            "integer",
            "How many records it is behind, in all partitions together; null if none tells.",
            lag_of,
            show="asked",
            nullable=True,
            style=lag_style,
            needs=Need.LAG,
        ),
        Column(
            "topics",
            "list",
            "What it has committed in, or reads.",
            lambda each: each.topics,
            show="asked",
            needs=Need.TOPICS,
        ),
        Column(
            "last_commit_at",
            "time",
            "When it last committed; null if the log knows of no commit.",
            lambda each: timestamp(each.last_commit),
            show="asked",
            nullable=True,
            needs=Need.COMMITS,
        ),
    ),
    sort=("group",),
)


# -- members ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MemberRow:
    """A member of a group."""

    group: str
    member: Member


def member_rows(row: GroupRow, topics: set[str] | None = None) -> Iterator[MemberRow]:
    """The members; with topics, those that read one of them."""
    for member in row.description.members if row.description is not None else ():
        reads = set(member.subscription or ()) | {each.topic for each in member.assignment or ()}
        if not topics or reads & topics:
            yield MemberRow(row.group, member)


def _partitions(found: tuple[TopicPartition, ...] | None) -> list[str] | None:
    return None if found is None else [str(each) for each in found]


def _strategy(row: MemberRow) -> list[str] | None:
    return None if row.member.supported_protocols is None else list(row.member.supported_protocols)


def _subscription(row: MemberRow) -> list[str] | None:
    member = row.member
    if member.subscription_regex:
        return [*(member.subscription or ()), f"/{member.subscription_regex}/"]
    return None if member.subscription is None else list(member.subscription)


MEMBERS: Final[Listing[MemberRow]] = Listing(
    "members",
    "Members of groups, one per row.",
    (
        GROUP,
        Column("member", "string", "The member's id.", lambda each: each.member.member_id),
        Column("client_id", "string", "The client's name.", lambda each: each.member.client_id),
        Column("host", "string", "Where it connects from.", lambda each: each.member.host),
        Column(
            "instance_id",
            "string",
            "The instance id of a static member.",
            lambda each: each.member.group_instance_id,
            show="wide",
            nullable=True,
        ),
        Column(
            "rack",
            "string",
            "Its rack, if it says.",
            lambda each: each.member.rack,
            show="wide",
            nullable=True,
        ),
        Column(
            "epoch",
            "integer",
            "The member's epoch (KIP-848).",
            lambda each: each.member.epoch,
            show="wide",
            nullable=True,
        ),
        Column(
            "assignment_strategy",
            "list",
            "The assignors that it offers (KIP-181); null if the broker does not tell.",
            _strategy,
            nullable=True,
        ),
        Column(
            "subscription",
            "list",
            "The topics that it subscribes to; a pattern is between slashes.",
            _subscription,
            nullable=True,
        ),
        Column(
            "partitions",
            "integer",
            "How many partitions it has.",
            lambda each: None if each.member.assignment is None else len(each.member.assignment),
            nullable=True,
        ),
        Column(
            "assignment",
            "list",
            "Its partitions.",
            lambda each: _partitions(each.member.assignment),
            nullable=True,
        ),
        Column(
            "target_assignment",
            "list",
            "The partitions that it shall have (KIP-848).",
            lambda each: _partitions(each.member.target_assignment),
            show="wide",
            nullable=True,
        ),
        Column(
            "tasks",
            "list",
            "Tasks by role (streams).",
            lambda each: None if each.member.tasks is None else list(each.member.tasks),
            show="wide",
            nullable=True,
        ),
        Column(
            "undecoded",
            "string",
            "Why subscription or assignment could not be read.",
            lambda each: each.member.undecoded,
            show="wide",
            nullable=True,
        ),
    ),
    sort=("group", "client_id", "member"),
)


# -- descriptions -----------------------------------------------------------------------------------------


def _told(name: str) -> Any:
    return lambda row: getattr(row.description, name, None)


def _operations(row: GroupRow) -> list[str] | None:
    found = row.description.authorized_operations if row.description is not None else None
    return None if found is None else list(found)


DESCRIPTIONS: Final[Listing[GroupRow]] = Listing(
    "descriptions",
    "Groups in full, with their members and partitions.",
    (
        GROUP,
        STATE,
        TYPE,
        COORDINATOR,
        PROTOCOL_TYPE,
        Column(
            "generation",
            "integer",
            "The generation of a classic group (KIP-181), or the epoch of another.",
            lambda row: (
                _told("generation")(row)
                if _told("generation")(row) is not None
                else _told("epoch")(row)
            ),
            nullable=True,
        ),
        Column(
            "assignment_epoch",
            "integer",
            "The epoch of the target assignment (KIP-848).",
            _told("assignment_epoch"),
            show="wide",
            nullable=True,
        ),
        Column(
            "leader",
            "string",
            "The member that assigns partitions in a classic group (KIP-181).",
            _told("leader"),
            nullable=True,
        ),
        Column(
            "assignment_strategy",
            "string",
            "The assignor in use.",
            _told("assignor"),
            nullable=True,
        ),
        Column(
            "subscription",
            "list",
            "The topics that its members subscribe to, all together.",
            lambda row: sorted(
                {each for one in member_rows(row) for each in _subscription(one) or ()}
            ),
        ),
        Column(
            "members_count",
            "integer",
            "How many members it has.",
            lambda row: len(row.description.members) if row.description is not None else 0,
        ),
        Column(
            "lag",
            "integer",
            "How many records it is behind, in all partitions together; null if none tells.",
            lag_of,
            nullable=True,
            style=lag_style,
        ),
        Column(
            "authorized_operations",
            "list",
            "What you may do to it; null if the broker does not tell.",
            _operations,
            show="wide",
            nullable=True,
        ),
        Column(
            "not_read",
            "string",
            "Why a deep description does not know more.",
            _told("not_read"),
            show="wide",
            nullable=True,
        ),
        Column("members", "rows", "Its members.", member_rows, of=MEMBERS),
        Column("partitions", "rows", "Its partitions.", lag_rows, of=LAG),
    ),
    sort=("group",),
)
