"""The admin client as the tool uses it: settings from the command line, time, and failures in Java's words.

Kafka's tool waits for a cluster that is not there yet until its time is up, and so do we: scripts that start
a broker rely on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import time
from collections.abc import Iterable, Mapping
from typing import Final

from coterie.addresses import parse_address
from coterie.cli.consumer_groups.java import (
    Throwable,
    api_exception,
    class_of,
    execution,
    runtime,
    timeout,
)
from coterie.cli.consumer_groups.options import Options
from coterie.cli.consumer_groups.output import Output
from coterie.client import AdminClient, GroupListing, Node
from coterie.client.settings import ClientSettings
from coterie.error_codes import ErrorCode
from coterie.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    CoterieError,
    DeadlineExceeded,
    InvalidArgument,
    InvalidSetting,
    KafkaError,
    UnsupportedVersion,
)

__all__ = ["NO_NODE", "NotCreated", "Session", "code_in", "create_admin"]

#: Kafka's reconnect.backoff.ms and reconnect.backoff.max.ms, as its admin client has them.
_RECONNECT_SECONDS: Final = 0.05
_RECONNECT_MOST_SECONDS: Final = 1.0
#: Less than this is no time for an answer.
_SHORTEST_TRY_SECONDS: Final = 0.01
_KAFKA_EXCEPTION: Final = "org.apache.kafka.common.KafkaException"
_CONFIG_EXCEPTION: Final = "org.apache.kafka.common.config.ConfigException"
_NO_SERVERS: Final = "You must set either bootstrap.servers or bootstrap.controllers"
_HIGHEST_PORT: Final = 65535
NO_NODE: Final = "Timed out waiting for a node assignment. Call: "
#: The groups of this tool: those of consumers, and those that only commit offsets.
_CONSUMER_PROTOCOLS: Final = ("", "consumer")
#: What Kafka's client asks again for, when it lists groups, until its time is up.
_UNTIL_TIMEOUT: Final = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE")


def create_admin(bootstrap: str, properties: Mapping[str, str]) -> AdminClient:
    """The admin client, or what Kafka says about settings that it cannot be made from."""
    settings: dict[str, object] = {
        # What is not for an admin client is none of its business: the file may be a consumer's.
        name: value
        for name, value in properties.items()
        if ClientSettings.knows(name)
    }
    servers = bootstrap.split(",")
    if bootstrap and not all(each.strip() for each in servers):
        text = "Configuration 'bootstrap.servers' values must not be empty."
        raise Throwable(_CONFIG_EXCEPTION, text)
    try:
        return AdminClient({**settings, "bootstrap.servers": bootstrap})
    except InvalidSetting as error:
        text = str(error)
        if "bootstrap.servers" in text:
            text = _bad_address(servers)
        raise NotCreated(text) from None


def _bad_address(servers: list[str]) -> str:
    for each in servers:
        host, _, port = each.strip().rpartition(":")
        if not host or not port.isdigit():
            what = "Invalid url in bootstrap.servers" if each.strip() else ""
            return f"{what}: {each.strip()}" if what else _NO_SERVERS
        if int(port) > _HIGHEST_PORT:
            return f"Invalid port in bootstrap.servers: {each.strip()}"
    return f"Invalid url in bootstrap.servers: {','.join(servers)}"


class NotCreated(Throwable):
    """There is no client, so there is no call that could have failed."""

    def __init__(self, reason: str) -> None:
        cause = Throwable(_CONFIG_EXCEPTION, reason)
        super().__init__(_KAFKA_EXCEPTION, "Failed to create new KafkaAdminClient", cause)


class Session:
    """One run of the tool."""

    def __init__(self, admin: AdminClient, out: Output, timeout_ms: int) -> None:
        self.admin = admin
        self.out = out
        self._seconds = max(0, timeout_ms) / 1000
        self._nodes: dict[int, Node] = {}

    # -- time -----------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """How long a call may take."""
        return max(self._seconds, 0.001)

    async def open(self, name: str) -> None:
        """Find the brokers; `name` is the call that Kafka's client would be busy with."""
        end = time.monotonic() + self._seconds
        tries = 0
        while (left := end - time.monotonic()) > _SHORTEST_TRY_SECONDS:
            try:
                nodes = await self.admin.brokers(timeout=left)
            except BrokerUnreachable:
                if end - time.monotonic() < _SHORTEST_TRY_SECONDS:
                    # Not refused, but out of time.
                    break
                await self._complain(tries)
                tries += 1
                wait = min(_RECONNECT_MOST_SECONDS, _RECONNECT_SECONDS * 2**tries)
                wait *= random.uniform(0.8, 1.2)  # noqa: S311 - jitter, not a secret
                await asyncio.sleep(max(0.0, min(wait, end - time.monotonic())))
            except DeadlineExceeded:
                break
            except InvalidSetting as error:
                # Such as a key store that cannot be read, which is found out with the first connection.
                raise NotCreated(str(error)) from None
            except CoterieError as error:
                raise _without_brokers(name, self.translate(error)) from None
            else:
                self._nodes = {node.node_id: node for node in nodes}
                if time.monotonic() < end:
                    return
        raise _without_brokers(name, timeout(NO_NODE + name))

    async def _complain(self, tries: int) -> None:
        addresses = self.admin.settings.addresses
        if tries == 0:
            await self._check_names(addresses)
        for host, port in addresses:
            self.out.log(
                "WARN",
                f"[AdminClient clientId=adminclient-1] Connection to node -1 (/{host}:{port}) could "
                "not be established. Node may not be available.",
                "org.apache.kafka.clients.NetworkClient",
            )

    async def _check_names(self, addresses: list[tuple[str, int]]) -> None:
        """A host that has no address is a mistake in the command line, not a broker that is down."""
        known = 0
        for host, port in addresses:
            with contextlib.suppress(socket.gaierror):
                await asyncio.get_running_loop().getaddrinfo(host, port)
                known += 1
                continue
            self.out.log(
                "WARN",
                f"Couldn't resolve server {host}:{port} from bootstrap.servers as DNS resolution "
                f"failed for {host}",
                "org.apache.kafka.clients.ClientUtils",
            )
        if not known:
            raise NotCreated("No resolvable bootstrap urls given in bootstrap.servers")

    async def node(self, node_id: int) -> Node:
        if node_id not in self._nodes:
            await self.open("describeConsumerGroups(api=FIND_COORDINATOR)")
        return self._nodes.get(node_id, Node(node_id, "", -1))

    # -- groups ---------------------------------------------------------------------------------------

    async def list_groups(
        self, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[GroupListing]:
        """The consumer groups of the cluster; a list that is not whole is an error, as in Kafka."""
        wanted = list(types)
        if not self._nodes:
            await self.open("findAllBrokers")
        try:
            result = await self.admin.list_groups(
                states=list(states) or None,
                types=wanted or None,
                protocol_types=_CONSUMER_PROTOCOLS,
                timeout=self.seconds,
            )
        except UnsupportedVersion as error:
            if "Classic" in wanted and not list(states):
                # Before KIP-848 all groups were classic: Kafka's client drops the filter then.
                return await self.list_groups()
            text = self._too_old(error, wanted)
            raise execution(api_exception("UNSUPPORTED_VERSION", text)) from None
        except CoterieError as error:
            raise execution(self.translate(error)) from None
        for failure in result.broker_errors:
            node = Node(failure.node_id, *_split(failure.address))
            raise execution(_listing_failed(node, failure.cause))
        for trouble in result.errors.values():
            raise execution(self.translate(trouble))
        return sorted(result.items.values(), key=lambda group: group.group_id)

    async def list_all(self) -> list[GroupListing]:
        """All consumer groups; here the tool wraps what went wrong once more."""
        try:
            return await self.list_groups()
        except NotCreated:
            raise
        except Throwable as error:
            raise runtime(error) from None

    async def selected(self, options: Options) -> list[str]:
        """The groups that the command line means: those it names, or all."""
        if not options.has("all-groups"):
            return list(dict.fromkeys(options.values("group")))
        return [group.group_id for group in await self.list_all()]

    def _too_old(self, error: UnsupportedVersion, types: list[str]) -> str:
        node = next((each for each in self._nodes.values() if each.address in str(error)), None)
        by = "states" if error.needed == 4 else "type"  # noqa: PLR2004 - KIP-518 came with v4
        text = (
            f"The broker only supports ListGroups v{error.served}, but we need v{error.needed} or "
            f"newer to request groups by {by}."
        )
        if by == "type":
            text += f" Requested group types: [{', '.join(types)}]."
        return f"Error listing groups on {_java_node(node)}: {text}" if node else text

    # -- failures -------------------------------------------------------------------------------------

    def translate(self, error: CoterieError) -> Throwable:
        """An error of the client as Kafka's client would throw it."""
        if isinstance(error, KafkaError):
            return api_exception(error.code.name, error.text)
        if isinstance(error, AuthenticationFailed):
            return api_exception("SASL_AUTHENTICATION_FAILED", _refused(str(error)))
        if isinstance(error, UnsupportedVersion):
            return Throwable(class_of("UNSUPPORTED_VERSION"), str(error))
        if isinstance(error, (DeadlineExceeded, BrokerUnreachable)):
            return timeout(str(error))
        if isinstance(error, InvalidArgument):
            return api_exception("INVALID_GROUP_ID", str(error))
        return Throwable(_KAFKA_EXCEPTION, str(error))

    async def failure(self, group: str, error: CoterieError) -> Throwable:
        """A group's error. Where its coordinator may not even be looked up, Kafka says so."""
        denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
        if isinstance(error, KafkaError) and error.code is denied:
            found = await self.admin.find_coordinators([group], timeout=self.seconds)
            if group in found.errors:
                key = f"CoordinatorKey(idValue='{group}', type=GROUP)"
                text = (
                    f"FindCoordinator request for groupId `{key}` failed due to "
                    "authorization failure"
                )
                return api_exception(denied.name, text)
        return self.translate(error)


def _without_brokers(name: str, cause: Throwable) -> Throwable:
    """Why a call found no broker to ask."""
    if name != "findAllBrokers":
        return cause
    return execution(
        Throwable(_KAFKA_EXCEPTION, "Failed to find brokers to send ListGroups", cause)
    )


def _refused(text: str) -> str:
    """The broker's words, if it had any, out of our sentence."""
    _, found, words = text.partition("Authentication failed")
    return f"{found}{words.partition(';')[0]}" if found else text


def _listing_failed(node: Node, cause: str) -> Throwable:
    """A broker without a list. An error code has its own class, and no words but these; the rest is time."""
    text = f"Error listing groups on {_java_node(node)}"
    name = cause.rpartition(" (")[2].removesuffix(")")
    if name not in ErrorCode.__members__ or name in _UNTIL_TIMEOUT:
        return timeout(f"{text}: {cause}")
    return api_exception(name, text)


def _java_node(node: Node) -> str:
    return f"{node.address} (id: {node.node_id} rack: null isFenced: false)"


def _split(address: str) -> tuple[str, int]:
    return parse_address(address) or (address, -1)


def code_in(text: str) -> ErrorCode:
    """The error code that a partition's error names at its end, in parentheses."""
    name = text.rpartition("(")[2].removesuffix(")")
    return ErrorCode.__members__.get(name, ErrorCode.UNKNOWN_SERVER_ERROR)
