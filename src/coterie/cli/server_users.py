"""Users of `coterie server`: from options, a file or the environment, and the settings they stand for."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import click

from coterie.errors import CoterieError
from coterie.security.secrets import Secret

__all__ = ["read_users", "secure"]

_PASSWORD: Final = "COTERIE_PASSWORD_"  # noqa: S105 - the name of a variable
_STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_ALL: Final = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"


def read_users(given: Iterable[str], file: Path | None) -> dict[str, Secret]:
    """Names and passwords. A file is better than an option, which every user of the machine can see."""
    found: dict[str, Secret] = {}
    if file is not None:
        for number, line in enumerate(_lines(file), 1):
            name, colon, password = line.partition(":")
            if not name or not colon or not password:
                raise CoterieError(f"{file}:{number} is not NAME:PASSWORD")
            found[name] = Secret(password)
    for each in given:
        name, colon, password = each.partition(":")
        if not colon:
            password = os.environ.get(_variable(name), "")
        if not name or not password:
            raise click.UsageError(
                f"--user takes NAME:PASSWORD, or NAME with the password in {_variable(name)}"
            )
        found[name] = Secret(password)
    return found


def _variable(name: str) -> str:
    return _PASSWORD + "".join(c if c.isalnum() else "_" for c in name).upper()


def _lines(file: Path) -> list[str]:
    try:
        mode = file.stat().st_mode
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CoterieError(f"{file} cannot be read: {error}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise CoterieError(f"{file} has passwords in it and others can read it; chmod 600 {file}")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def secure(
    properties: dict[str, str],
    sasl: str | None,
    users: Mapping[str, Secret],
    super_users: Iterable[str],
) -> None:
    """Put into the settings what the options mean."""
    if sasl is not None:
        properties["sasl.enabled.mechanisms"] = sasl
    elif users:
        properties.setdefault("sasl.enabled.mechanisms", _ALL)
    names = [each if ":" in each else f"User:{each}" for each in super_users]
    if names:
        known = [each for each in properties.get("super.users", "").split(";") if each]
        properties["super.users"] = ";".join([*known, *names])
        properties.setdefault("authorizer.class.name", _STANDARD_AUTHORIZER)
