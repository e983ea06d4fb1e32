"""The group coordinator: what a broker knows of its groups, as a pure state machine.

One `CoordinatorShard` owns the groups of one partition of `__consumer_offsets`. A request goes in with
the time, the caller and a fresh member id if one is needed; records to write and answers come out. There
is no socket, file, clock or random number in this package: the server brings them all.

    outcome = shard.handle(request, context)      # or: for outcome in shard.tick(...)
    append(outcome.records)                       # one atomic batch
    for record in outcome.records:
        shard.replay(record.key, record.value)    # the only thing that changes durable state
    answer(outcome.response, outcome.released)    # once the batch is on disk
"""

from __future__ import annotations

from coterie.coordinator.config import GroupConfig
from coterie.coordinator.outcome import Outcome, Record, RequestContext, Topic, TopicView
from coterie.coordinator.shard import CoordinatorShard
from coterie.protocol.group_state import partition_for

__all__ = [
    "CoordinatorShard",
    "GroupConfig",
    "Outcome",
    "Record",
    "RequestContext",
    "Topic",
    "TopicView",
    "partition_for",
]
