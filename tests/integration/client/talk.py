"""How tests of the admin client talk: a loop that must end clean, and a broker that obeys a script."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Self, TypeVar

from coterie.client import AdminClient
from coterie.protocol.api import ApiKey
from coterie.protocol.frames import FrameBuffer, decode_request, encode_response
from coterie.protocol.messages.cluster import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from coterie.protocol.messages.session import ApiVersion, ApiVersionsResponse
from coterie.protocol.schema import Request, Response
from coterie.testing import EmbeddedCluster

__all__ = ["ScriptedBroker", "counted", "played", "run"]

T = TypeVar("T")

#: Gives an answer, raw bytes to write instead of one, or None to say nothing; raises to hang up.
Handler = Callable[[Any], Response | bytes | None]


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; nothing may be left under way afterwards."""

    async def watched() -> T:
        result = await work
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left
        return result

    return asyncio.run(watched())


def played(
    cluster: EmbeddedCluster, scene: Callable[[AdminClient], Awaitable[T]], **settings: Any
) -> T:
    """Let a client of this cluster play a scene."""

    async def play() -> T:
        async with AdminClient(bootstrap_servers=cluster.bootstrap_servers, **settings) as admin:
            return await scene(admin)

    return run(play())


def counted(admin: AdminClient, before: Counter[str]) -> dict[str, int]:
    """Requests since then, without the greetings of new connections."""
    now = admin.requests - before
    return {api: times for api, times in now.items() if api != "ApiVersions"}


class ScriptedBroker:
    """One broker that answers each API as it is told; it coordinates every group."""

    def __init__(self, node_id: int = 1, **handlers: Handler) -> None:
        self.node_id = node_id
        self.handlers: dict[str, Handler] = {
            "ApiVersions": self.api_versions,
            "Metadata": self.metadata,
            "FindCoordinator": self.find_coordinator,
            **handlers,
        }
        self.peers: list[ScriptedBroker] = [self]
        self.versions: dict[str, int] = {}
        #: Topics and how many partitions each has; this broker leads them all.
        self.topics: dict[str, int] = {}
        self.seen: list[Request] = []
        self.port = 0
        self.connections = 0
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.close()
        await asyncio.sleep(0.01)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def asked(self, api: str) -> int:
        return sum(type(each).__name__ == f"{api}Request" for each in self.seen)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self.connections += 1
        frames = FrameBuffer()
        while data := await reader.read(65536):
            for frame in frames.feed(data):
                api, header, request = decode_request(frame)
                self.seen.append(request)
                try:
                    answer = self.handlers[api.api_name](request)
                except ConnectionError:
                    writer.close()
                    return
                if isinstance(answer, Response):
                    answer = encode_response(
                        answer,
                        header.request_api_version,
                        correlation_id=header.correlation_id,
                    )
                if answer:
                    writer.write(answer)
        writer.close()

    def api_versions(self, _: Request) -> Response:
        keys = tuple(
            ApiVersion(
                api, api.versions.lowest, self.versions.get(api.api_name, api.versions.highest)
            )
            for api in ApiKey
            if api.api_name in self.handlers
        )
        return ApiVersionsResponse(api_keys=keys)

    def metadata(self, _: Request) -> Response:
        brokers = tuple(
            MetadataResponseBroker(each.node_id, "127.0.0.1", each.port) for each in self.peers
        )
        topics = tuple(
            MetadataResponseTopic(
                name=name,
                partitions=tuple(
                    MetadataResponsePartition(partition_index=index, leader_id=self.node_id)
                    for index in range(count)
                ),
            )
            for name, count in self.topics.items()
        )
        return MetadataResponse(brokers=brokers, controller_id=self.node_id, topics=topics)

    def find_coordinator(self, request: FindCoordinatorRequest) -> Response:
        return FindCoordinatorResponse(
            coordinators=tuple(
                Coordinator(key, self.node_id, "127.0.0.1", self.port)
                for key in request.coordinator_keys
            )
        )
