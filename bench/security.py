"""What security costs: authorizing a long list, and whether logins hold up the server's event loop.

Ours alone, beside the figures that we want to keep to. The list is filtered in this process, by the rule that
the server runs, with an authorizer that has not been asked before. Logins come from a process of their own;
whether the loop was held up is seen by a client that asks again and again meanwhile: the longest it waited is
the figure, and on a machine with other work that is too much rather than too little.
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any, Final, cast

from bench.harness import Disagreement, Measurement, Round
from coterie.client import AdminClient
from coterie.protocol.api import ApiKey
from coterie.protocol.messages.groups import ListedGroup, ListGroupsResponse
from coterie.protocol.messages.session import ApiVersionsRequest, ApiVersionsResponse
from coterie.security.acls import (
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from coterie.security.authorizer import Authorizer
from coterie.security.scram import ScramClient, ScramMechanism
from coterie.security.secrets import Secret
from coterie.server.security.access import ACCESS
from coterie.server.security.guard import Guard
from coterie.testing.certificates import Authority
from tests.kit.wire_client import WireClient

__all__ = ["measurements"]

LIST_MS: Final = 30.0
BLOCKED_MS: Final = 50.0

_USER, _PASSWORD = "bench", "only-for-the-bench"


def measurements(*, tiny: bool = False) -> Iterator[Measurement]:
    size = 100 if tiny else 10_000
    yield _beside_goal(f"authorize_list_of_{size}_by_{size}_acls", partial(_list, size), LIST_MS)
    with tempfile.TemporaryDirectory() as directory:
        yield from _logins(Path(directory), 3 if tiny else 100)


def _beside_goal(
    name: str, ours: Round, limit: float, *, max_rounds: int | None = None
) -> Measurement:
    return Measurement(
        name=f"security.{name}",
        ours=ours,
        peers={"goal": lambda: limit},
        goal=1.0,
        agree=lambda: None,
        max_rounds=max_rounds,
    )


# -- authorizing ------------------------------------------------------------------------------------------


def _list(size: int) -> float:
    """What the authorizer adds to a ListGroups whose caller may see every second group."""
    acls = [
        AclBinding(
            ResourceType.GROUP,
            f"team-{number:05}-" if number % 4 else f"team-{number:05}-app",
            PatternType.PREFIXED if number % 4 else PatternType.LITERAL,
            "User:bench",
            "*",
            Operation.READ,
            Permission.DENY if number % 10 == 0 else Permission.ALLOW,
        )
        for number in range(0, 2 * size, 2)
    ]
    authorizer = Authorizer(acls)
    groups = tuple(ListedGroup(f"team-{number:05}-app") for number in range(size))
    response = ListGroupsResponse(groups=groups)
    security = SimpleNamespace(authorizer=authorizer, audit=None)
    broker = cast("Any", SimpleNamespace(cluster=SimpleNamespace(security=security)))
    connection = SimpleNamespace(principal="User:bench", address="127.0.0.1")
    call = cast("Any", SimpleNamespace(connection=connection))
    guard = Guard(broker, call, ACCESS[ApiKey.LIST_GROUPS])
    began = perf_counter()
    seen = cast("ListGroupsResponse", guard.finish(response))
    took = (perf_counter() - began) * 1e3
    if not 0.3 * size < len(seen.groups) < 0.5 * size:
        raise Disagreement(f"{len(seen.groups)} of {size} groups were let through")
    return took


# -- logins -----------------------------------------------------------------------------------------------


def _logins(home: Path, count: int) -> Iterator[Measurement]:
    authority = Authority()
    trusted = authority.write(home / "authority.pem")
    keystore = authority.issue("127.0.0.1").write(home).keystore
    argv = [sys.executable, "-c", "from coterie.cli.main import main; main()", "server", "--memory"]
    argv += ["--port", "0", "--sasl", "PLAIN,SCRAM-SHA-512", "--user", f"{_USER}:{_PASSWORD}"]
    argv += ["--set", f"ssl.keystore.location={keystore}"]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().split()[3]
        for mechanism in ("SCRAM-SHA-512", "PLAIN"):
            name = f"{mechanism.lower().replace('-', '_')}_over_tls_blocks_the_loop"
            work = partial(_blocked, address, trusted, mechanism, count)
            yield _beside_goal(name, work, BLOCKED_MS, max_rounds=8)
    finally:
        server.terminate()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()


def _blocked(address: str, trusted: Path, mechanism: str, count: int) -> float:
    """The longest that somebody who is logged in waits while others log in."""
    host, port = address.split(":")
    context = ssl.create_default_context(cafile=str(trusted))
    longest = 0.0
    with WireClient(host, int(port), tls=context) as client:
        client.authenticate(ScramClient(ScramMechanism.SHA_512, _USER, Secret(_PASSWORD)))
        argv = [
            sys.executable,
            "-m",
            "bench.security",
            address,
            str(trusted),
            mechanism,
            str(count),
        ]
        others = subprocess.Popen(argv)
        while others.poll() is None:
            began = perf_counter()
            client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
            longest = max(longest, perf_counter() - began)
        if others.returncode:
            raise Disagreement("the logins failed")
    return longest * 1e3


async def _log_in(address: str, trusted: str, mechanism: str, count: str) -> None:
    settings = {
        "bootstrap.servers": address,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.username": _USER,
        "sasl.password": _PASSWORD,
        "ssl.ca.location": trusted,
    }
    for _ in range(int(count)):
        async with AdminClient(settings) as admin:
            await admin.brokers()


if __name__ == "__main__":
    asyncio.run(_log_in(*sys.argv[1:5]))
