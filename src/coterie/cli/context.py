"""`coterie context`: clusters by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import click

from coterie.console.configuration import (
    Contexts,
    is_secret,
    keyring,
    masked,
    parse_value,
    split_keyring,
)
from coterie.console.options import complete_contexts, listed
from coterie.console.output import Column, Format, Listing
from coterie.console.terminal import note

__all__ = ["CONTEXTS", "SETTINGS", "command"]


@dataclass(frozen=True)
class ContextRow:
    """A context."""

    name: str
    current: bool
    servers: str | None


CONTEXTS: Final[Listing[ContextRow]] = Listing(
    "contexts",
    "Contexts of the configuration file, one per row.",
    (
        Column("context", "string", "Its name.", lambda each: each.name),
        Column(
            "current",
            "boolean",
            "Whether it is the current context.",
            lambda each: each.current,
        ),
        Column(
            "bootstrap_servers",
            "string",
            "Its brokers; null if they are in its command-config.",
            lambda each: each.servers,
            nullable=True,
        ),
    ),
    sort=("context",),
)


@dataclass(frozen=True)
class SettingRow:
    """A setting of a context, as it may be shown."""

    name: str
    value: str


SETTINGS: Final[Listing[SettingRow]] = Listing(
    "settings",
    "Settings of a context, one per row; secrets are not shown.",
    (
        Column("setting", "string", "Its name.", lambda each: each.name),
        Column("value", "string", "Its value, or where a secret is kept.", lambda each: each.value),
    ),
    sort=("setting",),
)

_context = click.argument("name", metavar="CONTEXT", shell_complete=complete_contexts)


@click.group("context")
def command() -> None:
    """Clusters by name, in ~/.config/coterie/config.toml (XDG_CONFIG_HOME, COTERIE_CONFIG)."""


@command.command("list")
@listed(CONTEXTS)
def list_contexts(form: Format) -> None:
    """List contexts."""
    contexts = Contexts()
    rows = []
    for name, settings in contexts.items.items():
        servers = settings.get("bootstrap.servers") or settings.get("bootstrap_servers")
        shown = None if servers is None else str(servers)
        rows.append(ContextRow(name, name == contexts.current, shown))
    CONTEXTS.write(rows, form)


@command.command("show")
@_context
@listed(SETTINGS)
def show(name: str, form: Format) -> None:
    """Show the settings of a context, without secrets."""
    rows = [SettingRow(key, masked(key, value)) for key, value in Contexts().get(name).items()]
    SETTINGS.write(rows, form)


@command.command("use")
@_context
def use(name: str) -> None:
    """Make a context the current one."""
    contexts = Contexts()
    contexts.use(name)
    note(f"{name} is now the current context, in {contexts.path}")


@command.command("set")
@_context
@click.argument("settings", nargs=-1, required=True, metavar="NAME=VALUE...")
def put(name: str, settings: tuple[str, ...]) -> None:
    """Create a context, or change some of its settings, in Java's or librdkafka's spelling.

    A secret is given as the place where it is kept: env:NAME, file:PATH or keyring:SERVICE/USER. For example:

        coterie context set prod bootstrap.servers=kafka:9093 sasl.password=env:PROD_PASSWORD
    """
    found = {}
    for each in settings:
        key, equals, value = each.partition("=")
        if not equals or not key.strip():
            # The text may be a secret that was typed at the wrong place.
            raise click.UsageError("settings are given as NAME=VALUE")
        found[key.strip()] = parse_value(key.strip(), value)
    contexts = Contexts()
    contexts.put(name, found)
    note(f"{name} is in {contexts.path}")


@command.command("secret")
@_context
@click.argument("setting", default="sasl.password")
def secret(name: str, setting: str) -> None:
    """Prompt for a secret, store it in the system's keyring, and set the context to read it there."""
    if not is_secret(setting):
        raise click.UsageError(f"{setting} is not a secret; use `coterie context set`")
    contexts = Contexts()
    contexts.get(name)
    where = f"coterie-{name}/{setting}"
    library = keyring()
    value = click.prompt(setting, hide_input=True, err=True)
    library.set_password(*split_keyring(setting, where), value)
    contexts.put(name, {setting: {"keyring": where}})
    note(f"{setting} of {name} is in the keyring, under {where}")


@command.command("delete")
@_context
def delete(name: str) -> None:
    """Delete a context."""
    contexts = Contexts()
    contexts.remove(name)
    note(f"{name} is no longer in {contexts.path}")
