"""Contexts: clusters by name, in `~/.config/coterie/config.toml`, with secrets kept elsewhere.

    current = "staging"

    [contexts.staging]
    bootstrap.servers = "kafka.staging:9092"

    [contexts.prod]
    command-config = "/etc/kafka/client.properties"
    sasl.username = "ops"
    sasl.password = { env = "PROD_PASSWORD" }      # or { file = "..." }, or { keyring = "service/user" }

Settings are in Java's or librdkafka's spelling. A secret is read when a connection needs it, and no other
time; nothing here prints one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from coterie.errors import CoterieError, InvalidSetting

__all__ = ["Contexts", "config_path", "context_names", "is_secret", "parse_value", "reveal", "told"]

_PLACES: Final = ("env", "file", "keyring")
_SECRET: Final = re.compile(r"password|secret|jaas|token|ssl\.key\.pem|keystore\.key\b")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")


def config_path() -> Path:
    """COTERIE_CONFIG, or config.toml below XDG_CONFIG_HOME."""
    if chosen := os.environ.get("COTERIE_CONFIG"):
        return Path(chosen)
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "coterie" / "config.toml"


def is_secret(name: str) -> bool:
    """Whether the setting's value is nobody's business."""
    return _SECRET.search(name.replace("_", ".")) is not None


def told(name: str, value: object) -> str:
    """A setting's value as it may be shown: where a secret is kept, but not what it is."""
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
            f"{name} is a secret, and stays out of the file: give env:NAME, file:PATH or "
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
        import keyring as library  # noqa: PLC0415 - an extra, and slow to load
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
    """The configuration file: read as a whole, changed line by line, so that comments stay."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or config_path()
        try:
            self._text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            self._text = ""
        except (OSError, UnicodeDecodeError) as error:
            raise CoterieError(f"{self.path} cannot be read: {error}") from None
        self._parse()

    def _parse(self) -> None:
        try:
            document = tomllib.loads(self._text)
        except tomllib.TOMLDecodeError as error:
            raise CoterieError(f"{self.path}: {error}") from None
        contexts = document.get("contexts", {})
        if not isinstance(contexts, dict) or not all(
            isinstance(each, dict) for each in contexts.values()
        ):
            raise CoterieError(f"{self.path}: contexts are tables: [contexts.NAME]")
        self.current: str | None = document.get("current")
        self.items = {name: dict(_flat(each)) for name, each in contexts.items()}

    def get(self, name: str) -> dict[str, object]:
        """The settings of a context; secrets are still places."""
        if name not in self.items:
            known = ", ".join(sorted(self.items)) or "none"
            raise CoterieError(f"there is no context {name!r} in {self.path}; there are: {known}")
        return self.items[name]

    # -- changes --------------------------------------------------------------------------------------

    def use(self, name: str) -> None:
        self.get(name)
        line = f"current = {json.dumps(name)}\n"
        head, header, rest = self._split(r"^\[")
        head, count = re.subn(r"^current\s*=.*\n?", line, head, count=1, flags=re.MULTILINE)
        self._save((head if count else line + head) + header + rest)

    def put(self, name: str, settings: Mapping[str, object]) -> None:
        """Set some settings of a context; a new context is made."""
        if not _NAME.fullmatch(name):
            raise CoterieError(f"a context is named with letters, digits, - and _, not {name!r}")
        lines = {key: f"{key} = {_toml(value)}\n" for key, value in settings.items()}
        if name not in self.items:
            gap = "\n" if self._text else ""
            current = "" if self.current or self._text else f"current = {json.dumps(name)}\n\n"
            self._save(f"{current}{self._text}{gap}[contexts.{name}]\n{''.join(lines.values())}")
            return
        before, block, after = self._block(name)
        for key, line in lines.items():
            pattern = rf"^{re.escape(key)}\s*=.*\n?"
            found = re.search(pattern, block, re.MULTILINE)
            start, end = found.span() if found else (len(block.rstrip("\n")) + 1,) * 2
            block = block[:start] + line + block[end:]
        self._save(before + block + after)

    def remove(self, name: str) -> None:
        self.get(name)
        before, _, after = self._block(name)
        if self.current == name:
            before = re.sub(r"^current\s*=.*\n?", "", before, count=1, flags=re.MULTILINE)
        self._save(before + after)

    def _split(self, pattern: str) -> tuple[str, str, str]:
        found = re.search(pattern, self._text, re.MULTILINE)
        if found is None:
            return self._text, "", ""
        return self._text[: found.start()], found.group(), self._text[found.end() :]

    def _block(self, name: str) -> tuple[str, str, str]:
        """The text before a context's table, the table, and the text behind it."""
        before, header, rest = self._split(rf'^\[contexts\."?{re.escape(name)}"?\].*\n?')
        if not header:
            raise CoterieError(f"{self.path}: context {name!r} is not a table of its own; edit it")
        following = re.search(r"^\[", rest, re.MULTILINE)
        end = len(rest) if following is None else following.start()
        return before, header + rest[:end], rest[end:]

    def _save(self, text: str) -> None:
        from coterie.plans.documents import save_bytes  # noqa: PLC0415 - only for changes

        self._text = text
        self._parse()
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Whoever edits it by hand may have put a password into it.
        save_bytes(self.path, text.encode(), private=True)


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """TOML reads `a.b = 1` as a table in a table; settings have dots in their names."""
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and not (len(value) == 1 and set(value) <= set(_PLACES)):
            yield from _flat(value, f"{name}.")
        else:
            yield name, value


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        ((place, where),) = value.items()
        return f"{{ {place} = {json.dumps(where)} }}"
    return json.dumps(str(value))


def context_names(incomplete: str) -> list[str]:
    """Contexts of the configuration file."""
    with contextlib.suppress(CoterieError):
        return [each for each in sorted(Contexts().items) if each.startswith(incomplete)]
    return []
