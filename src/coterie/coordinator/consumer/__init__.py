"""Consumer groups of KIP-848: the server assigns, and each member is led to its part of it step by step.

    heartbeat ── member changed? ──> group epoch + 1 ──> target assignment ──> reconciliation of this member

`group` is what the log says of a group, `heartbeat` answers members, `fencing` takes them out, `classic`
and `migration` are for members of the older protocol in the same group. The rest are the pure parts:
`assignors`, `target`, `reconciliation`, `subscriptions`. Called by coterie.coordinator.shard.
"""
