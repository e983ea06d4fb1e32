"""The marts: the tables that `coterie pipeline build` makes, their columns, and what they are made from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from coterie.vocabulary.columns import (
    CLIENT_ID,
    COMMIT_TIMESTAMP,
    COMMITTED_OFFSET,
    COORDINATOR,
    COORDINATOR_ID,
    GENERATION,
    GROUP_ID,
    HOST,
    LAG,
    LAST_COMMIT,
    LEADER_ID,
    LOG_END,
    LOG_START,
    MAX_LAG,
    MEMBER_COUNT,
    MEMBER_ID,
    METADATA,
    PARTITION,
    PROTOCOL,
    PROTOCOL_TYPE,
    STATE,
    SUBSCRIPTION,
    TOPIC,
    TOPICS,
    TOTAL_LAG,
    TYPE,
    Column,
    Table,
)

__all__ = ["MARTS"]

_MEMBERS: Final = "array<struct<member_id:string,instance_id:string,client_id:string,host:string>>"

_LAG: Final = Table(
    "lag",
    "How far each group is behind in each partition, in offsets and in time.",
    (
        GROUP_ID,
        TOPIC,
        PARTITION,
        COMMITTED_OFFSET,
        COMMIT_TIMESTAMP.here("When it was committed; null if only a snapshot saw it."),
        Column(
            "expire_timestamp", "timestamp", "When the offset goes, if its client asked for a time."
        ),
        LOG_START.here("First offset of the log at the newest sample."),
        LOG_END.here("End of the log at the newest sample; null if there is none."),
        Column("sampled_at", "timestamp", "When that sample was taken."),
        LAG.here("Offsets behind; 0 at least, null without a sample."),
        Column("lag_seconds", "double", "Age of the oldest unread record; 0 without lag."),
        Column("at_least", "boolean", "Whether the history is too short: it is older than that."),
        Column("data_loss", "boolean", "Whether records went before the group read them."),
        Column("lost_records", "bigint", "How many offsets: log_start - committed_offset."),
        Column("ahead_of_end", "boolean", "Whether the commit is beyond the sampled end."),
        Column("source", "string", "`log` or `snapshot`: where the commit was seen last."),
        Column("as_of", "timestamp", "The moment that this is about."),
    ),
    ("commits", "end_offsets", "offsets", "groups"),
)

_GROUPS_NOW: Final = Table(
    "groups_now",
    "Every group that there is, and its state.",
    (
        GROUP_ID,
        TYPE,
        STATE.here("State; from the log alone `Stable` or `Empty`."),
        PROTOCOL_TYPE.here("Kind of protocol; empty for a simple group."),
        PROTOCOL.here("Assignor in use; null if not known."),
        GENERATION,
        LEADER_ID,
        COORDINATOR_ID.here("Node id of the coordinator; null without a snapshot."),
        COORDINATOR.here("Its address, host:port; null without a snapshot."),
        MEMBER_COUNT,
        Column("empty_since", "timestamp", "Since when it has none, if so and if known."),
    ),
    ("group_events", "groups", "errors", "lag"),
)

_MEMBERS_NOW: Final = Table(
    "members_now",
    "Who is in which group, what they subscribe to and what they have.",
    (
        GROUP_ID,
        MEMBER_ID,
        CLIENT_ID,
        HOST,
        SUBSCRIPTION.here(
            "Topics that it subscribes to, by name or by a pattern whose matches the log tells."
        ),
        Column(
            "places",
            "array<struct<topic:string,partition:int>>",
            "Partitions that it has; tasks of streams groups have no topic.",
        ),
    ),
    ("group_events", "commits", "groups", "members", "assignments", "errors"),
)

_REBALANCES: Final = Table(
    "rebalances",
    "Every rebalance, with who came and went, what moved, and why.",
    (
        GROUP_ID,
        Column("group_type", "string", "`classic`, `consumer`, `share` or `streams`."),
        GENERATION,
        Column("previous_generation", "int", "The one recorded before; null if there is none."),
        Column("started_at", "timestamp", "Classic: when all had joined. Else: the new epoch."),
        Column("completed_at", "timestamp", "When the assignment was written, or all had it."),
        Column(
            "duration_seconds",
            "double",
            "Between the two; null for a static restart, and if no member came to the epoch.",
        ),
        MEMBER_COUNT.here("Number of members afterwards."),
        Column("joined", _MEMBERS, "Members that are new; null if not known."),
        Column("left", _MEMBERS, "Members that went; null if not known."),
        LEADER_ID,
        Column("leader_changed", "boolean", "Whether the leader has another member id now."),
        Column("partitions", "bigint", "Partitions assigned afterwards."),
        Column(
            "partitions_moved",
            "int",
            "Partitions that went from one member to another; null for share groups.",
        ),
        Column(
            "stickiness",
            "double",
            "Share of the partitions that stayed with their member; null for share groups.",
        ),
        Column(
            "cause",
            "string",
            "`member_churn`, `subscription_change`, `partition_count_change`, `static_restart`,"
            " `coordinator_move` or `unknown`.",
        ),
        Column("changes", "array<string>", "All causes of which there are signs."),
        Column("follow_up", "boolean", "Second step of one that came before; it has its cause."),
        Column("rebalanced", "boolean", "False for a static restart, which stops nobody."),
        Column("hidden_before", "int", "Generations in between that left no record."),
        Column("storm", "boolean", "Whether it is one of many within minutes."),
        Column("in_ten_minutes", "int", "Rebalances of the group in the ten minutes up to this."),
        Column("history_begins", "boolean", "Whether the log does not show what was before."),
        Column("log_partition", "int", "Partition of `__consumer_offsets` of its record."),
        Column("log_offset", "bigint", "Offset of its record."),
    ),
    ("group_events",),
)

_OFFSET_RESETS: Final = Table(
    "offset_resets",
    "Committed offsets that moved backwards, and who moved them.",
    (
        GROUP_ID,
        TOPIC,
        PARTITION,
        Column("time", "timestamp", "When the lower offset was written."),
        Column("from_offset", "bigint", "What was committed before."),
        Column("to_offset", "bigint", "What was committed then."),
        Column("moved_back", "bigint", "from_offset - to_offset."),
        Column("by", "string", "`member`, `administrator` (no members) or `unknown`."),
        MEMBER_ID.here("The member that had the partition; else null."),
        CLIENT_ID,
        HOST.here("Where it connected from."),
        METADATA.here("Free text of the commit."),
        Column("log_partition", "int", "Partition of `__consumer_offsets` of its record."),
        Column("log_offset", "bigint", "Offset of its record."),
    ),
    ("commits", "group_events"),
)

_COMMIT_RATES: Final = Table(
    "commit_rates",
    "How often groups commit, and how much they read, per topic and hour.",
    (
        GROUP_ID,
        TOPIC,
        Column("period_start", "timestamp", "When the period began; an hour each by default."),
        Column("period_seconds", "double", "How long it is; of the running one, so far."),
        Column("commits", "bigint", "Offsets committed, of all partitions together."),
        Column("partitions", "bigint", "Partitions with a commit."),
        Column("commits_per_second", "double", "commits / period_seconds."),
        Column("records", "bigint", "Offsets advanced since the period before; 0 after a reset."),
        Column("records_per_second", "double", "records / period_seconds; null in the first one."),
        Column("removals", "bigint", "Offsets removed: expired or deleted."),
    ),
    ("commits",),
)

_STALE_GROUPS: Final = Table(
    "stale_groups",
    "Groups without members that nobody has used for long.",
    (
        GROUP_ID,
        TYPE,
        STATE.here("State, which is `Empty` or `Dead`."),
        LAST_COMMIT,
        Column("last_member", "timestamp", "When its last member went; null if it never had one."),
        Column("idle_since", "timestamp", "The later of the two; null if neither is known."),
        Column("idle_seconds", "double", "How long ago that was."),
        Column("offsets", "bigint", "Committed offsets that it keeps."),
        TOPICS.here("Topics that they are about."),
        TOTAL_LAG.here("Its lag, where known."),
        Column("family", "string", "Pattern of its id, if that was made by chance; else null."),
        Column("family_size", "int", "How many idle groups have that pattern."),
        Column("expires_at", "timestamp", "When Kafka will drop its last offset, and it."),
        Column("as_of", "timestamp", "The moment that this is about."),
    ),
    ("commits", "group_events", "lag", "gaps", "groups_now"),
)

_LAG_HISTORY: Final = Table(
    "lag_history",
    "Curves of lag over time, of the groups that are furthest behind.",
    (
        GROUP_ID,
        TOPIC,
        Column("time", "timestamp", "End of the period; periods of fifteen minutes by default."),
        Column("partitions", "bigint", "Partitions that had an offset then."),
        LAG.here("Lag of all of them."),
        MAX_LAG,
        Column("max_lag_seconds", "double", "Largest lag of a partition in time."),
        Column("at_least", "boolean", "Whether the history is too short: it is more than that."),
    ),
    ("commits", "end_offsets", "offsets", "lag", "stale_groups"),
)

_HEALTH: Final = Table(
    "health",
    "Findings about groups, each with its evidence and what to do next.",
    (
        GROUP_ID,
        TOPIC.here("The topic; null if it is about the group."),
        PARTITION.here("The partition; null if it is about more than one."),
        Column("rule", "string", "Which rule found it; see below."),
        Column(
            "status",
            "string",
            "Of Burrow: `OK`, `WARN`, `ERR` for a group, null if it cannot be judged, also `STOP`, `STALL`,"
            " `REWIND` for a partition."
            " Of other rules: `OK` for `info`, `WARN` for `warning`, `ERR` for `critical`.",
        ),
        Column("severity", "string", "`ok`, `info`, `warning` or `critical`."),
        Column("evidence", "string", "The figures that it rests on."),
        Column("next_step", "string", "What to do."),
        Column("as_of", "timestamp", "The moment that this is about."),
    ),
    ("commits", "end_offsets", "offsets", "lag", "rebalances", "gaps", "groups_now", "members_now"),
)

_TOPIC_SUBSCRIBERS: Final = Table(
    "topic_subscribers",
    "Which groups have to do with which topics, to be read both ways.",
    (
        TOPIC,
        GROUP_ID,
        TYPE.here("Type of the group."),
        STATE.here("State of the group."),
        Column("subscribed_members", "bigint", "Members that subscribe to the topic."),
        Column("assigned_partitions", "bigint", "Partitions of it that members have."),
        Column("committed_partitions", "bigint", "Partitions of it with an offset of the group."),
        LAST_COMMIT.here("When the group last committed for it; null if unknown."),
        LAG.here("Lag of the group in the topic; null if not known."),
    ),
    ("group_events", "lag", "groups_now", "members_now"),
)

_GROUP_SUMMARY: Final = Table(
    "group_summary",
    "One row per group with the figures people ask for first.",
    (
        *_GROUPS_NOW.columns,
        TOPICS,
        Column("partitions", "bigint", "Partitions with committed offsets."),
        TOTAL_LAG,
        MAX_LAG,
        Column("max_lag_seconds", "double", "Largest lag of a partition in time."),
        Column("data_loss", "boolean", "Whether records went before they were read."),
        LAST_COMMIT,
        Column("idle_seconds", "double", "How long ago that was."),
        Column(
            "commits_per_second",
            "double",
            "In the last period of commit_rates; 0 if it is long over.",
        ),
        Column("last_rebalance", "timestamp", "When it last rebalanced; null if not known."),
        Column(
            "rebalances_24h", "bigint", "Rebalances in the last 24 hours; null without the log."
        ),
        Column("resets_24h", "bigint", "Offsets set back in the last 24 hours; likewise."),
        Column("status", "string", "Burrow's status: `OK`, `WARN` or `ERR`; null if not judged."),
        Column("findings", "bigint", "Findings of the mart health that are not just `ok`."),
        Column("family", "string", "Pattern of its id, if that was made by chance; else null."),
        Column("as_of", "timestamp", "The moment that this is about."),
    ),
    (
        "lag",
        "commits",
        "group_events",
        "groups_now",
        "rebalances",
        "offset_resets",
        "commit_rates",
        "health",
    ),
)

_ALL: Final = (
    _LAG,
    _GROUPS_NOW,
    _MEMBERS_NOW,
    _REBALANCES,
    _OFFSET_RESETS,
    _COMMIT_RATES,
    _STALE_GROUPS,
    _LAG_HISTORY,
    _HEALTH,
    _TOPIC_SUBSCRIBERS,
    _GROUP_SUMMARY,
)

MARTS: Final[Mapping[str, Table]] = MappingProxyType({each.name: each for each in _ALL})
