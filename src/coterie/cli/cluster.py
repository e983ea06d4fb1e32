"""`coterie cluster`: the brokers, and what each of them has to do with groups."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from coterie.cli.selection import Missing
from coterie.console.options import connected, listed
from coterie.console.output import Column, Format, Listing
from coterie.console.target import Target

if TYPE_CHECKING:
    from coterie.client.admin import AdminClient
    from coterie.client.network import Node

__all__ = ["BROKERS", "command"]


@dataclass(frozen=True)
class BrokerRow:
    """A broker and its share of the work."""

    node: Node
    cluster_id: str | None
    groups: int | None
    leads: int


BROKERS: Final[Listing[BrokerRow]] = Listing(
    "brokers",
    "Brokers, one per row.",
    (
        Column("broker", "integer", "Its id.", lambda each: each.node.node_id),
        Column("host", "string", "Its host, as it tells clients.", lambda each: each.node.host),
        Column("port", "integer", "Its port.", lambda each: each.node.port),
        Column(
            "groups",
            "integer",
            "How many groups it coordinates; null if it did not answer.",
            lambda each: each.groups,
            nullable=True,
        ),
        Column("leads", "integer", "How many partitions it leads.", lambda each: each.leads),
        Column(
            "cluster_id", "string", "The cluster's id.", lambda each: each.cluster_id, nullable=True
        ),
    ),
    sort=("broker",),
)


@click.command("cluster")
@connected
@listed(BROKERS)
def command(form: Format) -> int:
    """List brokers, with the number of groups that each of them coordinates."""
    missing = Missing()

    async def ask(admin: AdminClient) -> list[BrokerRow]:
        nodes = await admin.brokers()
        topics = await admin.describe_topics()
        groups = await admin.list_groups()
        missing.add(groups)
        coordinated = Counter(each.coordinator_id for each in groups)
        leads = Counter(one.leader for each in topics for one in each.partitions)
        silent = {each.node_id for each in groups.broker_errors}
        return [
            BrokerRow(
                node,
                admin.cluster_id,
                None if node.node_id in silent else coordinated[node.node_id],
                leads[node.node_id],
            )
            for node in nodes
        ]

    rows = Target.current().run(ask)
    BROKERS.write(rows, form)
    return missing.report(any_found=bool(rows))
