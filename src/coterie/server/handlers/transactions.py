"""Transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from coterie.protocol.schema import Response

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.calls import Call

__all__ = ["init_producer_id"]


def init_producer_id(broker: Broker, call: Call, request: InitProducerIdRequest) -> Response | None:
    """InitProducerId 0-5."""
    return InitProducerIdResponse(producer_id=broker.cluster.metadata.take_producer_id())
