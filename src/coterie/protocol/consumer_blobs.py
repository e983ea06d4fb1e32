"""What classic consumers tell each other through the group: subscriptions and assignments.

The coordinator carries these bytes without looking; tools look. Other kinds of clients (Connect, or
anything that joins a group) put bytes of their own there, so failing to read them is ordinary.
"""

from __future__ import annotations

from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from coterie.protocol.versioned import Undecoded, decode_versioned

__all__ = ["decode_assignment", "decode_subscription"]


def decode_subscription(data: bytes) -> ConsumerProtocolSubscription | Undecoded:
    """A member's subscription. As in Kafka, a version from the future is read as the newest we know."""
    return decode_versioned(ConsumerProtocolSubscription, data, newer=True)


def decode_assignment(data: bytes) -> ConsumerProtocolAssignment | Undecoded:
    """A member's assignment; no bytes at all is what a member without partitions may be given."""
    if not data:
        return ConsumerProtocolAssignment()
    return decode_versioned(ConsumerProtocolAssignment, data, newer=True)
