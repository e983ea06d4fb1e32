"""AdminClient: all calls in one object, for asyncio; `connect` gives the same to code that blocks."""

from __future__ import annotations

from coterie.client.blocking import BlockingAdminClient
from coterie.client.calls import AdminCalls
from coterie.client.connection import RequestLog
from coterie.client.settings import Properties

__all__ = ["AdminClient"]


class AdminClient(AdminCalls):
    """Administers the groups of a cluster.

        async with AdminClient(bootstrap_servers="localhost:9092") as admin:
            groups = await admin.list_groups(states={"Stable"})

    Settings have Java's names or librdkafka's, with dots in a dict or a `client.properties` file, with
    underscores as keyword arguments. A call ends by its deadline, `timeout` seconds, at the latest; its
    result names what is missing. The client connects with the first call; `close` or the end of the block
    closes its connections.
    """

    @staticmethod
    def connect(
        properties: Properties | None = None,
        *,
        on_request: RequestLog | None = None,
        **settings: object,
    ) -> BlockingAdminClient:
        """The same client for scripts and notebooks: its calls block, also where a loop is running."""
        return BlockingAdminClient(AdminClient(properties, on_request=on_request, **settings))
