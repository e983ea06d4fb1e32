"""The target cluster of a command: settings from options, files, the environment and contexts.

The first of these that has a setting wins: `-X`, `--bootstrap-server` and `--timeout`, `--command-config`,
the environment, the context. The current context is ignored when another address is given without naming it:
its secrets are for its own cluster.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
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
    """The target cluster, as the options of a command name it."""

    bootstrap: str | None = None
    context: str | None = None
    file: str | None = None
    overrides: tuple[str, ...] = ()
    timeout: float | None = None

    @classmethod
    def current(cls) -> Target:
        """The target of the command that runs, from the options before and after its name."""
        return cls(**click.get_current_context().meta.get("coterie.target", {}))

    def spelled(self) -> tuple[list[str], list[str]]:
        """Options that name the same cluster in another command, and the secrets that are not among them."""
        from coterie.console.configuration import is_secret

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

    @property
    def options(self) -> list[str]:
        """The options that name a cluster or set something, as far as they were given."""
        given = {
            "--bootstrap-server": self.bootstrap,
            "--context": self.context,
            "--command-config": self.file,
            "-X": self.overrides,
            "--timeout": self.timeout,
        }
        return [option for option, value in given.items() if value not in (None, ())]

    def properties(self, *, otherwise: str = "") -> dict[str, object]:
        """Settings for AdminClient. `otherwise` is what the command takes instead of a cluster."""
        file = self.file or os.environ.get("COTERIE_COMMAND_CONFIG")
        layers = [_environment(), _read(Path(file)) if file else {}, self._given()]
        elsewhere = file or any("bootstrap.servers" in each for each in layers)
        layers.insert(0, self._context(elsewhere=bool(elsewhere)))
        found: dict[str, object] = {}
        for layer in layers:
            for name, value in layer.items():
                # A setting has several names, and the client takes the last one.
                found.pop(name, None)
                found[name] = value
        if "bootstrap.servers" not in found:
            raise click.UsageError(
                f"no cluster is named: give --bootstrap-server HOST:PORT{otherwise}, set "
                "COTERIE_BOOTSTRAP_SERVERS, or make a context (coterie context set --help)"
            )
        return found

    def _given(self) -> dict[str, object]:
        """Settings from the options."""
        found: dict[str, object] = {}
        if self.bootstrap:
            found["bootstrap.servers"] = self.bootstrap
        if self.timeout is not None:
            found["default.api.timeout.ms"] = max(1, round(self.timeout * 1000))
        for each in self.overrides:
            name, equals, value = each.partition("=")
            if not equals:
                raise click.UsageError(f"-X takes NAME=VALUE, and {name!r} has no value")
            found[_java_name(name.strip())] = value
        return found

    def _context(self, *, elsewhere: bool) -> dict[str, object]:
        """The settings of a context; `elsewhere` says whether an address is given without it."""
        from coterie.console.configuration import Contexts, reveal

        named = self.context or os.environ.get("COTERIE_CONTEXT")
        if not named and elsewhere:
            return {}
        contexts = Contexts()
        name = named or contexts.current
        if not name:
            return {}
        settings = dict(contexts.get(name))
        file = settings.pop("command-config", None)
        found = {} if file is None else _read(Path(str(file)).expanduser())
        return found | {_java_name(key): reveal(key, value) for key, value in settings.items()}

    def run(self, work: Callable[[AdminClient], Awaitable[T]], *, quiet: bool = False) -> T:
        """Run `work` with a client of the cluster, with a progress bar unless `quiet` is set."""
        from coterie.client.admin import AdminClient

        properties = self.properties()

        async def connected() -> T:
            async with AdminClient(properties) as admin:
                if quiet:
                    return await work(admin)
                with Progress("Asking the cluster"):
                    return await work(admin)

        return asyncio.run(connected())


def _java_name(name: str) -> str:
    """The name of the setting by which a cluster is known; other names stay as they are written."""
    aliases = ("bootstrap.servers", "metadata.broker.list")
    return "bootstrap.servers" if name.replace("_", ".") in aliases else name


def _environment() -> dict[str, object]:
    """COTERIE_BOOTSTRAP_SERVERS is bootstrap.servers, COTERIE_SASL_PASSWORD is sasl.password."""
    given = {
        name.removeprefix(_PREFIX).lower().replace("_", "."): value
        for name, value in os.environ.items()
        if name.startswith(_PREFIX) and value
    }
    return _known(given)


def _read(path: Path) -> dict[str, object]:
    """The settings of a client in a Java properties file, which may have those of producers and consumers."""
    from coterie.client.settings import read_properties

    return _known(read_properties(path))


def _known(given: Mapping[str, object]) -> dict[str, object]:
    from coterie.client.settings import ClientSettings

    return {_java_name(name): value for name, value in given.items() if ClientSettings.knows(name)}
