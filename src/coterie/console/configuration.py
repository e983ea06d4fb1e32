"""The configuration file, `~/.config/coterie/config.toml`: contexts, which are clusters by name.

    current = "staging"

    [contexts.staging]
    bootstrap.servers = "kafka.staging:9092"

    [contexts.prod]
    command-config = "/etc/kafka/client.properties"
    sasl.username = "ops"
    sasl.password = { env = "PROD_PASSWORD" }      # or { file = "..." }, or { keyring = "service/user" }

Settings are in Java's or librdkafka's spelling. Secrets are kept elsewhere and read when a connection needs
them; they are never printed.
"""

from __future__ import annotations

import contextlib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from coterie.console.directories import config_path
from coterie.errors import CoterieError, InvalidSetting

__all__ = ["Contexts", "context_names", "is_secret", "masked", "parse_value", "reveal"]

_PLACES: Final = ("env", "file", "keyring")
_SECRET: Final = re.compile(r"password|secret|jaas|token|ssl\.key\.pem|keystore\.key\b")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")


def is_secret(name: str) -> bool:
    """Whether the value of a setting must not be shown."""
    return _SECRET.search(name.replace("_", ".")) is not None


def masked(name: str, value: object) -> str:
    """A setting's value for display: of a secret, the place where it is kept."""
    if isinstance(value, Mapping):
        ((place, where),) = value.items()
        return f"from {place} {where}"
    return "(hidden)" if is_secret(name) else str(value)


def parse_value(name: str, text: str) -> object:
    """A value from the command line: `env:NAME`, `file:PATH` and `keyring:SERVICE/USER` are places."""
    place, colon, where = text.partition(":")
    if colon and place in _PLACES and is_secret(name):
        return {place: where}
    if is_secret(name):
        raise InvalidSetting(
            f"{name} is a secret, which is not stored in the file: give env:NAME, file:PATH or "
            "keyring:SERVICE/USER"
        )
    return text


def reveal(name: str, value: object) -> object:
    """The value itself, read from where it is kept."""
    if not isinstance(value, Mapping):
        return value
    ((place, where),) = value.items()
    if place == "env":
        found = os.environ.get(where)
        if found is None:
            raise InvalidSetting(f"{name}: the environment has no {where}; set it")
        return found
    if place == "file":
        try:
            return Path(where).expanduser().read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            cause = getattr(error, "strerror", None) or "it is not text"
            raise InvalidSetting(f"{name}: {where} cannot be read: {cause}") from None
    return _from_keyring(name, where)


def split_keyring(name: str, where: str) -> tuple[str, str]:
    service, slash, user = where.partition("/")
    if not slash or not service or not user:
        raise InvalidSetting(f"{name}: a place in the keyring is SERVICE/USER, not {where!r}")
    return service, user


def keyring() -> Any:
    """The keyring library, if it is installed."""
    try:
        import keyring as library
    except ImportError:
        raise InvalidSetting(
            "the system's keyring needs another package: pip install 'coterie[keyring]'"
        ) from None
    return library


def _from_keyring(name: str, where: str) -> str:
    service, user = split_keyring(name, where)
    library = keyring()
    try:
        found: str | None = library.get_password(service, user)
    except library.errors.KeyringError as error:
        raise InvalidSetting(f"{name}: the keyring does not open: {error}") from None
    if found is None:
        raise InvalidSetting(
            f"{name}: the keyring has nothing for {where}; put it there: keyring set {service} {user}"
        )
    return found


class Contexts:
    """The contexts of the configuration file. Changes keep comments and all other content."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or config_path()
        try:
            self._text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            self._text = ""
        except (OSError, UnicodeDecodeError) as error:
            raise CoterieError(f"{self.path} cannot be read: {error}") from None
        self.current, self.items = self._parsed(self._text)

    def _parsed(self, text: str) -> tuple[str | None, dict[str, dict[str, object]]]:
        """The name of the current context, and the settings of all."""
        try:
            # Commands that only read do not wait for tomlkit to load.
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise CoterieError(f"{self.path}: {error}") from None
        contexts = document.get("contexts", {})
        if not isinstance(contexts, dict) or not all(
            isinstance(each, dict) for each in contexts.values()
        ):
            raise CoterieError(f"{self.path}: contexts are tables: [contexts.NAME]")
        current = document.get("current")
        if not isinstance(current, str | None):
            raise CoterieError(f"{self.path}: current is the name of a context, not {current!r}")
        return current, {name: dict(_flat(each)) for name, each in contexts.items()}

    def get(self, name: str) -> dict[str, object]:
        """The settings of a context; secrets are still places."""
        if name not in self.items:
            known = ", ".join(sorted(self.items)) or "none"
            raise CoterieError(f"there is no context {name!r} in {self.path}; there are: {known}")
        return self.items[name]

    # -- changes --------------------------------------------------------------------------------------

    def use(self, name: str) -> None:
        """Make a context the current one."""
        self.get(name)
        document = self._document()
        document["current"] = name
        self._save(document, name, self.items)

    def put(self, name: str, settings: Mapping[str, object]) -> None:
        """Set some settings of a context; a new context is made."""
        if not _NAME.fullmatch(name):
            raise CoterieError(f"a context is named with letters, digits, - and _, not {name!r}")
        import tomlkit

        document, current = self._document(), self.current
        if not self._text:
            document["current"] = current = name
        contexts = document.setdefault("contexts", tomlkit.table(is_super_table=True))
        context = contexts.setdefault(name, tomlkit.table())
        for key, value in settings.items():
            try:
                _set(context, key, value)
            except TypeError:
                raise CoterieError(
                    f"{self.path}: cannot set {key} of context {name!r}: another setting is in its"
                    " place; edit the file"
                ) from None
        changed = {key: value for key, value in self.items.items() if key != name}
        self._save(document, current, {**changed, name: {**self.items.get(name, {}), **settings}})

    def remove(self, name: str) -> None:
        """Remove a context, with all of its tables."""
        self.get(name)
        document = self._document()
        del document["contexts"][name]
        if self.current == name:
            del document["current"]
        left = {key: value for key, value in self.items.items() if key != name}
        self._save(document, None if self.current == name else self.current, left)

    def _document(self) -> Any:
        import tomlkit

        return tomlkit.parse(self._text)

    def _save(
        self, document: Any, current: str | None, items: Mapping[str, dict[str, object]]
    ) -> None:
        """Write the document, after checking that it reads as intended: TOML has many ways to nest tables."""
        from coterie.plans.documents import save_bytes

        text = document.as_string()
        try:
            is_intended = self._parsed(text) == (current, items)
        except CoterieError:
            is_intended = False
        if not is_intended:
            raise CoterieError(f"{self.path} cannot be changed automatically: edit it")
        self._text, self.current, self.items = text, current, dict(items)
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # It may contain a password that was written by hand.
        save_bytes(self.path, text.encode(), private=True)


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Settings by name: TOML reads `a.b = 1` as a table in a table."""
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and not (len(value) == 1 and set(value) <= set(_PLACES)):
            yield from _flat(value, f"{name}.")
        elif isinstance(value, list):
            yield name, ",".join(map(str, value))
        else:
            yield name, str(value).lower() if isinstance(value, bool) else value


def _set(table: Any, name: str, value: object) -> None:
    """Set `a.b.c` in place, or add it to the innermost table that exists."""
    import tomlkit

    if isinstance(value, Mapping):
        item: Any = tomlkit.inline_table()
        item.update(value)
    else:
        item = tomlkit.item(str(value))
    rest = [name] if name in table else name.split(".")
    while len(rest) > 1 and rest[0] in table:
        table = table[rest.pop(0)]
        if not isinstance(table, Mapping):
            raise TypeError
    if len(rest) > 1 and hasattr(table, "append"):
        table.append(tomlkit.key(rest), item)
    else:
        table[".".join(rest)] = item


def context_names(incomplete: str) -> list[str]:
    """Names of contexts, for completion."""
    with contextlib.suppress(CoterieError):
        return [each for each in sorted(Contexts().items) if each.startswith(incomplete)]
    return []
