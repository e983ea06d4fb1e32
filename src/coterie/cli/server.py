"""`coterie server`: the embedded cluster as a process."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import resource
import signal
import sys
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from coterie.cli.server_users import read_users, secure
from coterie.console.directories import state_directory
from coterie.errors import CoterieError
from coterie.server.cluster import Cluster
from coterie.server.settings.config import ServerConfig
from coterie.storage.data_directory import repair as repair_directory

__all__ = ["command"]

_LAST_PORT: Final = 65535


@click.command("server")
@click.option("--brokers", default=1, show_default=True, help="Number of brokers.")
@click.option(
    "--first-broker-id", default=1, show_default=True, help="Id of the first broker; others follow."
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on, advertised as given.",
)
@click.option(
    "--port", default=9092, show_default=True, help="Port of the first broker; others follow."
)
@click.option(
    "--listener",
    "listeners",
    multiple=True,
    metavar="NAME://HOST:PORT",
    help="A listener of each broker, instead of --host and --port. {id} in HOST is the broker's id; "
    "without it PORT is the first broker's, and others follow it. Setting: listeners.",
)
@click.option(
    "--advertised",
    multiple=True,
    metavar="NAME://HOST:PORT",
    help="The address of a listener that clients are given, if it differs. Setting: advertised.listeners.",
)
@click.option("--data-dir", type=click.Path(path_type=Path), help="Data directory.")
@click.option("--memory", is_flag=True, help="Keep all data in memory only.")
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="Settings, in a file like server.properties.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the server."
)
@click.option(
    "--sasl", metavar="MECHANISMS", help="SASL mechanisms: PLAIN,SCRAM-SHA-256,SCRAM-SHA-512."
)
@click.option(
    "--user",
    "users",
    multiple=True,
    metavar="NAME:PASSWORD",
    help="A user who may log in. For NAME alone the password is in COTERIE_PASSWORD_NAME.",
)
@click.option(
    "--users-file",
    type=click.Path(path_type=Path),
    help="A file with lines of NAME:PASSWORD, which only its owner may read.",
)
@click.option(
    "--super-user",
    "super_users",
    multiple=True,
    metavar="NAME",
    help="A user to whom ACLs do not apply. Turns ACLs on.",
)
@click.option(
    "--once-ready",
    type=click.Path(path_type=Path),
    help="Write the bootstrap address to this file when the cluster is ready.",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@click.option(
    "--repair", is_flag=True, help="Truncate damaged logs where the damage begins, then exit."
)
def command(
    brokers: int,
    first_broker_id: int,
    host: str,
    port: int,
    listeners: tuple[str, ...],
    advertised: tuple[str, ...],
    data_dir: Path | None,
    memory: bool,
    config_file: Path | None,
    settings: tuple[str, ...],
    sasl: str | None,
    users: tuple[str, ...],
    users_file: Path | None,
    super_users: tuple[str, ...],
    once_ready: Path | None,
    log_format: str,
    repair: bool,
) -> None:
    """Run a Kafka-protocol cluster in this process.

    Settings have Kafka's names. The default data directory is in the user's state directory. SIGTERM and
    Ctrl-C flush all data, answer open requests, and end with exit code 0.
    """
    if memory and data_dir is not None:
        raise click.UsageError("--memory and --data-dir exclude each other")
    _check_ports(port, brokers)
    _log(log_format)
    root = None if memory else data_dir or state_directory("cluster")
    if repair:
        _repair(root)
        return
    properties = _properties(config_file, settings)
    _add_listeners(properties, listeners, advertised)
    people = read_users(users, users_file)
    secure(properties, sasl, people, super_users)
    config = ServerConfig.from_properties(properties)
    _raise_file_limit()
    ports = range(port, port + brokers) if port else ()
    cluster = Cluster(
        brokers=brokers,
        first_broker_id=first_broker_id,
        root=root,
        config=config,
        host=host,
        ports=ports,
        users=people,
    )
    sys.exit(asyncio.run(_serve(cluster, root, once_ready)))


def _check_ports(port: int, brokers: int) -> None:
    """The first broker has the port, the others those behind it."""
    if not 0 <= port <= _LAST_PORT:
        raise click.UsageError(f"--port is 1 to {_LAST_PORT}, or 0 for any, and not {port}")
    last = port + brokers - 1
    if port and last > _LAST_PORT:
        raise click.UsageError(
            f"{brokers} brokers from --port {port} on would need ports up to {last}, "
            f"and {_LAST_PORT} is the last"
        )


def _add_listeners(
    properties: dict[str, str], listeners: tuple[str, ...], advertised: tuple[str, ...]
) -> None:
    """Put the options into the settings that they are short for."""
    for name, given in (("listeners", listeners), ("advertised.listeners", advertised)):
        if given:
            properties[name] = ",".join(given)
    source = click.get_current_context().get_parameter_source
    for option in ("host", "port"):
        if "listeners" in properties and source(option) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{option} and listeners exclude each other")


async def _serve(cluster: Cluster, root: Path | None, once_ready: Path | None) -> int:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_tell)
    asked_to_stop = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, asked_to_stop.set)
    # A load makes a million objects that stay: looking for garbage among them again and again would stop
    # everything for a tenth of a second each time, and finds none.
    gc.disable()
    try:
        await cluster.start()
    except OSError as error:
        raise CoterieError(f"{error.strerror or error}; choose another --port") from None
    kept = "in memory" if root is None else f"in {root}"
    click.echo(
        f"coterie is ready: {cluster.bootstrap_servers} ({len(cluster.brokers)} brokers, {kept})"
    )
    for name in list(cluster.listeners)[1:]:
        click.echo(f"listener {name}: {cluster.bootstrap_servers_of(name)}")
    sys.stdout.flush()
    if once_ready is not None:
        _announce(once_ready, cluster.bootstrap_servers)
    loading = asyncio.ensure_future(_settle(cluster))
    waits = [asyncio.ensure_future(event.wait()) for event in (asked_to_stop, cluster.broken)]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for task in (*waits, loading):
        task.cancel()
    if cluster.storage_error is not None:
        click.echo(f"Error: {cluster.storage_error}", err=True)
        return 1
    await cluster.stop()
    return 0


def _tell(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What goes wrong in the loop itself; of a connection that cannot be accepted, in one line."""
    error = context.get("exception")
    if isinstance(error, OSError) and "accept" in context.get("message", ""):
        logging.getLogger("coterie.server").error(
            "cannot accept connections: %s; they wait, and are tried again in a second. "
            "Close some, or raise the limit of open files (ulimit -n)",
            error.strerror,
        )
    else:
        loop.default_exception_handler(context)


async def _settle(cluster: Cluster) -> None:
    """Once all groups are loaded: collect garbage again, but never look at what the load made."""
    await cluster.settled()
    gc.freeze()
    gc.enable()


def _raise_file_limit() -> None:
    """Every log with data and every connection is a file; the usual soft limit of 1024 is soon reached."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _announce(path: Path, address: str) -> None:
    path.write_text(f"{address}\n", encoding="utf-8")


def _properties(path: Path | None, settings: tuple[str, ...]) -> dict[str, str]:
    """Settings from a file and from --set, which wins."""
    lines: list[tuple[str, str]] = []
    if path is not None:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CoterieError(f"{path} cannot be read: {error}") from None
        lines = [(f"{path}:{n}", line.strip()) for n, line in enumerate(text.splitlines(), 1)]
    lines += [("--set", each) for each in settings]
    found: dict[str, str] = {}
    for place, line in lines:
        if not line or line[0] in "#!":
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise CoterieError(f"{place}: {line!r} is not NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


def _repair(root: Path | None) -> None:
    if root is None:
        raise click.UsageError("--repair needs a data directory")
    for directory in sorted(root.glob("broker-*")):
        for line in repair_directory(directory):
            click.echo(str(line))


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def _log(style: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    plain = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(_JsonLines() if style == "json" else plain)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
