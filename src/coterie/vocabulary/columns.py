"""What a column is, and the columns that several tables have: one name for one idea, everywhere.

Datasets, marts, results of the client, and the listings of `coterie` in every machine format use these names.
`group_events` alone has names of record fields where Kafka's differ (`client_host`).
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Column", "Table"]


class Column(NamedTuple):
    """A column: its name, its type in Spark's DDL, what it means, and whether null is ordinary in it."""

    name: str
    type: str
    meaning: str
    optional: bool = False

    def here(self, meaning: str | None = None, *, optional: bool = False) -> Column:
        """The same column in one table: with what it means there, or where it may be null."""
        return Column(self.name, self.type, meaning or self.meaning, optional)


class Table(NamedTuple):
    """A table with documented columns, and the tables that it is made from."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    needs: tuple[str, ...] = ()


# Groups

GROUP_ID = Column("group_id", "string", "The group.")
TYPE = Column("type", "string", "`classic`, `consumer`, `share` or `streams`.")
STATE = Column("state", "string", "State, as Kafka spells it: `Stable`, `Empty` and so on.")
PROTOCOL_TYPE = Column(
    "protocol_type", "string", "Kind of protocol, such as `consumer`; empty for a simple group."
)
PROTOCOL = Column("protocol", "string", "Protocol that the members agreed on.")
ASSIGNOR = Column("assignor", "string", "Assignor in use.")
COORDINATOR_ID = Column("coordinator_id", "int", "Node id of the coordinator.")
COORDINATOR = Column("coordinator", "string", "Address of the coordinator, host:port.")
GENERATION = Column("generation", "int", "Generation of a classic group; else the group's epoch.")
ASSIGNMENT_EPOCH = Column("assignment_epoch", "int", "Epoch of the target assignment.")
LEADER_ID = Column("leader_id", "string", "Member id of a classic group's leader (KIP-181).")
MEMBER_COUNT = Column("member_count", "int", "Number of members.")
AUTHORIZED_OPERATIONS = Column(
    "authorized_operations", "array<string>", "Operations on the group that the caller may do."
)
TOPICS = Column("topics", "array<string>", "Topics with committed offsets.")
LAST_COMMIT = Column("last_commit", "timestamp", "When it last committed; null if not known.")

# Members

MEMBER_ID = Column("member_id", "string", "The member.")
INSTANCE_ID = Column("instance_id", "string", "Instance id of a static member.")
CLIENT_ID = Column("client_id", "string", "Client id of the member.")
HOST = Column("host", "string", "Host that the member connects from.")
RACK_ID = Column("rack_id", "string", "Rack of the member.")
MEMBER_EPOCH = Column("member_epoch", "int", "Epoch of the member (KIP-848).")
SUBSCRIPTION = Column("subscription", "array<string>", "Topics that the member subscribes to.")
SUBSCRIPTION_REGEX = Column(
    "subscription_regex", "string", "Pattern of topics that the member subscribes to."
)
SUPPORTED_PROTOCOLS = Column(
    "supported_protocols", "array<string>", "Assignors that the member offers (KIP-181)."
)
ASSIGNMENT_COUNT = Column("assignment_count", "int", "Number of partitions that the member has.")

# Offsets

TOPIC = Column("topic", "string", "The topic.")
PARTITION = Column("partition", "int", "The topic's partition.")
COMMITTED_OFFSET = Column("committed_offset", "bigint", "Next offset that the group reads.")
LEADER_EPOCH = Column("leader_epoch", "int", "Leader epoch of the last record read.")
METADATA = Column("metadata", "string", "Text that was committed with the offset.")
COMMIT_TIMESTAMP = Column("commit_timestamp", "timestamp", "When the group committed.")
LOG_START = Column("log_start", "bigint", "First offset of the log.")
LOG_END = Column("log_end", "bigint", "Offset of the next record.")
LAG = Column("lag", "bigint", "log_end - committed_offset; 0 if the commit is past the log end.")
TOTAL_LAG = Column("total_lag", "bigint", "Lag of all partitions; null if none is known.")
MAX_LAG = Column("max_lag", "bigint", "Largest lag of a partition.")
ERROR = Column("error", "string", "Why a value is missing.")
