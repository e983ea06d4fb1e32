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
from coterie.console.output import Column, Listing, Need, declared, timestamp
from coterie.vocabulary.columns import (
    ASSIGNMENT_COUNT,
    ASSIGNMENT_EPOCH,
    ASSIGNOR,
    AUTHORIZED_OPERATIONS,
    CLIENT_ID,
    GENERATION,
    HOST,
    INSTANCE_ID,
    LAST_COMMIT,
    LEADER_ID,
    MEMBER_COUNT,
    MEMBER_EPOCH,
    MEMBER_ID,
    RACK_ID,
    SUBSCRIPTION,
    SUPPORTED_PROTOCOLS,
    TOPICS,
    TOTAL_LAG,
)

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
        declared(
            MEMBER_COUNT,
            lambda each: None if each.description is None else len(each.description.members),
            show="asked",
            nullable=True,
            needs=Need.DESCRIPTION,
            heading="MEMBERS",
        ),
        declared(
            TOTAL_LAG,
            lag_of,
            show="asked",
            nullable=True,
            style=lag_style,
            needs=Need.LAG,
            heading="LAG",
        ),
        declared(
            TOPICS.here("Topics with committed offsets, and topics that members read."),
            lambda each: each.topics,
            show="asked",
            needs=Need.TOPICS,
        ),
        declared(
            LAST_COMMIT.here("When it last committed; null if the log has no commit."),
            lambda each: timestamp(each.last_commit),
            show="asked",
            nullable=True,
            needs=Need.COMMITS,
            heading="LAST-COMMIT-AT",
        ),
    ),
    sort=("group_id",),
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
        declared(MEMBER_ID, lambda each: each.member.member_id, heading="MEMBER"),
        declared(CLIENT_ID, lambda each: each.member.client_id),
        declared(HOST, lambda each: each.member.host),
        declared(INSTANCE_ID, lambda each: each.member.instance_id, show="wide", nullable=True),
        declared(
            RACK_ID, lambda each: each.member.rack_id, show="wide", nullable=True, heading="RACK"
        ),
        declared(
            MEMBER_EPOCH,
            lambda each: each.member.member_epoch,
            show="wide",
            nullable=True,
            heading="EPOCH",
        ),
        declared(SUPPORTED_PROTOCOLS, _strategy, nullable=True, heading="ASSIGNMENT-STRATEGY"),
        declared(
            SUBSCRIPTION.here(
                "Topics that the member subscribes to; a pattern is between slashes."
            ),
            _subscription,
            nullable=True,
        ),
        declared(
            ASSIGNMENT_COUNT,
            lambda each: None if each.member.assignment is None else len(each.member.assignment),
            nullable=True,
            heading="PARTITIONS",
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
    sort=("group_id", "client_id", "member_id"),
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
        declared(
            GENERATION,
            lambda row: (
                _told("generation")(row)
                if _told("generation")(row) is not None
                else _told("epoch")(row)
            ),
            nullable=True,
        ),
        declared(ASSIGNMENT_EPOCH, _told("assignment_epoch"), show="wide", nullable=True),
        declared(LEADER_ID, _told("leader_id"), nullable=True, heading="LEADER"),
        declared(ASSIGNOR, _told("assignor"), nullable=True, heading="ASSIGNMENT-STRATEGY"),
        declared(
            SUBSCRIPTION.here("Topics that the members subscribe to."),
            lambda row: sorted(
                {each for one in member_rows(row) for each in _subscription(one) or ()}
            ),
        ),
        declared(
            MEMBER_COUNT,
            lambda row: len(row.description.members) if row.description is not None else 0,
            heading="MEMBERS-COUNT",
        ),
        declared(TOTAL_LAG, lag_of, nullable=True, style=lag_style, heading="LAG"),
        declared(AUTHORIZED_OPERATIONS, _operations, show="wide", nullable=True),
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
    sort=("group_id",),
)
