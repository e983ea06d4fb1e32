"""AdminClient: everything in one object, for asyncio; `connect` gives the same to code that blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.client.acl_calls import AclCalls
from coterie.client.base import Properties
from coterie.client.connection import RequestLog
from coterie.client.offset_calls import OffsetCalls

if TYPE_CHECKING:
    from coterie.client.blocking import BlockingAdminClient

__all__ = ["AdminClient"]


class AdminClient(OffsetCalls, AclCalls):
    """Administers the groups of a cluster.

        async with AdminClient(bootstrap_servers="localhost:9092") as admin:
            groups = await admin.list_groups(states={"Stable"})

    Settings go by Java's names or librdkafka's, with dots in a dict or a `client.properties` file, with
    underscores as keyword arguments. A call ends by its deadline, `timeout` seconds, at the latest; what
    it could not learn by then is named in its result.
    """

    @staticmethod
    def connect(
        properties: Properties | None = None,
        *,
        on_request: RequestLog | None = None,
        **settings: object,
    ) -> BlockingAdminClient:
        """The same client for scripts and notebooks: its calls block, also where a loop is running."""
        from coterie.client.blocking import BlockingAdminClient  # noqa: PLC0415 - it needs this class

        return BlockingAdminClient(AdminClient(properties, on_request=on_request, **settings))
