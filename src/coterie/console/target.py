"""The way to the cluster: what options, environment, files and contexts say, put together.

The first that says something wins: `-X`, `--bootstrap-server`, `--command-config`, the environment, the
context. A context that nobody named is left aside as soon as another address is given: its secrets are for
its own cluster.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from coterie.console.progress import Progress

if TYPE_CHECKING:
    from coterie.client.admin import AdminClient

__all__ = ["Target"]

T = TypeVar("T")

_PREFIX: Final = "COTERIE_"


@dataclass(frozen=True)
class Target:
    """Which cluster is meant."""

    bootstrap: str | None = None
    context: str | None = None
    file: str | None = None
    overrides: tuple[str, ...] = ()
    timeout: float | None = None

    @classmethod
    def current(cls) -> Target:
        """What the options of this command said."""
        return cls(**click.get_current_context().meta.get("coterie.target", {}))

    def spelled(self) -> tuple[list[str], list[str]]:
        """Options that name the same cluster in another command, and the secrets that are not among them."""
        from coterie.console.contexts import is_secret  # noqa: PLC0415 - TOML takes time to load

        named = (
            ("--context", self.context),
            ("--command-config", self.file),
            ("-b", self.bootstrap),
        )
        words = [word for option, value in named if value for word in (option, value)]
        secrets = []
        for each in self.overrides:
            name = each.partition("=")[0].strip()
            if is_secret(name):
                secrets.append(name)
            else:
                words += ["-X", each]
        return words, secrets

    def properties(self) -> dict[str, object]:
        """Settings for AdminClient."""
        environment = _environment()
        found = self._context(environment) | environment
        if file := self.file or os.environ.get("COTERIE_COMMAND_CONFIG"):
            found |= _read(Path(file))
        if self.bootstrap:
            found["bootstrap.servers"] = self.bootstrap
        if self.timeout is not None:
            found["default.api.timeout.ms"] = max(1, round(self.timeout * 1000))
        for each in self.overrides:
            name, equals, value = each.partition("=")
            if not equals:
                raise click.UsageError(f"-X takes NAME=VALUE, and {name!r} has no value")
            found[name.strip()] = value
        if not {"bootstrap.servers", "metadata.broker.list", "bootstrap_servers"} & set(found):
            raise click.UsageError(
                "no cluster is named: give --bootstrap-server HOST:PORT, set "
                "COTERIE_BOOTSTRAP_SERVERS, or make a context (coterie context set --help)"
            )
        return found

    def _context(self, environment: dict[str, object]) -> dict[str, object]:
        from coterie.console.contexts import Contexts, reveal  # noqa: PLC0415 - TOML takes time to load

        named = self.context or os.environ.get("COTERIE_CONTEXT")
        elsewhere = self.bootstrap or self.file or os.environ.get("COTERIE_COMMAND_CONFIG")
        if not named and (elsewhere or "bootstrap.servers" in environment):
            return {}
        contexts = Contexts()
        name = named or contexts.current
        if not name:
            return {}
        settings = dict(contexts.get(name))
        file = settings.pop("command-config", None)
        found = {} if file is None else _read(Path(str(file)).expanduser())
        return found | {key: reveal(key, value) for key, value in settings.items()}

    def run(self, work: Callable[[AdminClient], Awaitable[T]], *, quiet: bool = False) -> T:
        """Do something with a client of the cluster; what takes long shows so, unless it is to be quiet."""
        from coterie.client.admin import AdminClient  # noqa: PLC0415 - help and mistakes need none

        properties = self.properties()

        async def connected() -> T:
            async with AdminClient(properties) as admin:
                if quiet:
                    return await work(admin)
                async with Progress("Asking the cluster"):
                    return await work(admin)

        return asyncio.run(connected())


def _environment() -> dict[str, object]:
    """COTERIE_BOOTSTRAP_SERVERS is bootstrap.servers, COTERIE_SASL_PASSWORD is sasl.password."""
    from coterie.client.settings import ClientSettings  # noqa: PLC0415

    given = {
        name.removeprefix(_PREFIX).lower().replace("_", "."): value
        for name, value in os.environ.items()
        if name.startswith(_PREFIX) and value
    }
    return {name: value for name, value in given.items() if ClientSettings.knows(name)}


def _read(path: Path) -> dict[str, object]:
    """What a file says to us; a Java client's file may have settings of producers and consumers, too."""
    from coterie.client.settings import ClientSettings, read_properties  # noqa: PLC0415

    found = read_properties(path)
    return {name: value for name, value in found.items() if ClientSettings.knows(name)}
