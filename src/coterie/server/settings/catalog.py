"""Settings of Apache Kafka 4.3.0: names, types, defaults, validation and documentation.

The facts are in kafka_settings.json, which tools/generate_kafka_settings.py reads from Kafka's jars. The file
is loaded when a setting is first needed. Messages are those of Kafka's ConfigDef.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

from coterie.errors import CoterieError

__all__ = ["Catalog", "InvalidValue", "Setting", "catalog"]

_WIRE_TYPES: Final = {
    "BOOLEAN": 1, "STRING": 2, "INT": 3, "SHORT": 4, "LONG": 5, "DOUBLE": 6, "LIST": 7, "CLASS": 8,
    "PASSWORD": 9,
}  # fmt: skip
_BITS: Final = {"SHORT": 15, "INT": 31, "LONG": 63}
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_FLOAT: Final = re.compile(
    r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)[fFdD]?"
)
_REPLICA: Final = re.compile(r"[0-9]+:[0-9]+")
_DURATION: Final = re.compile(
    r"by_duration:\+?P(?=.)([+]?\d+D)?(T(?=.)([+]?\d+H)?([+]?\d+M)?([+]?\d+(\.\d{0,9})?S)?)?",
    re.IGNORECASE,
)


class InvalidValue(CoterieError):
    """A value that Kafka's ConfigDef refuses, with its message."""


class Validator(msgspec.Struct, frozen=True):
    """The check of one setting beyond its type."""

    kind: str
    text: str
    min: str | None = None
    max: str | None = None
    values: tuple[str, ...] = ()
    empty: bool = False


class Setting(msgspec.Struct, frozen=True):
    """One setting. `synonyms` are names of broker settings with the factor of their unit."""

    type: str
    default: str | None = None
    documentation: str | None = None
    internal: bool = False
    validator: Validator | None = None
    update_mode: str = ""
    synonyms: tuple[tuple[str, int], ...] = ()

    @property
    def wire_type(self) -> int:
        return _WIRE_TYPES[self.type]

    @property
    def is_sensitive(self) -> bool:
        return self.type == "PASSWORD"

    @property
    def is_list(self) -> bool:
        return self.type == "LIST"

    def parse(self, name: str, text: str) -> str:
        """The value as Kafka prints it, or InvalidValue."""
        text = text.strip()
        match self.type:
            case "BOOLEAN":
                value = text.lower()
                if value not in {"true", "false"}:
                    _refuse(name, text, "Expected value to be either true or false")
            case "SHORT" | "INT" | "LONG":
                value = self._integer(name, text)
            case "DOUBLE":
                value = self._double(name, text)
            case "LIST":
                value = ",".join(self._items(text))
            case _:
                value = text
        if self.validator is not None:
            _check(self.validator, name, value)
        return value

    def _integer(self, name: str, text: str) -> str:
        limit = 1 << _BITS[self.type]
        if not _INTEGER.fullmatch(text) or not -limit <= int(text) < limit:
            _refuse(name, text, f"Not a number of type {self.type}")
        return str(int(text))

    def _double(self, name: str, text: str) -> str:
        if not _FLOAT.fullmatch(text):
            _refuse(name, text, f"Not a number of type {self.type}")
        number = repr(float(text.rstrip("fFdD")))
        for python, java in (("nan", "NaN"), ("inf", "Infinity"), ("e+", "E"), ("e-", "E-")):
            number = number.replace(python, java)
        return number

    def _items(self, text: str) -> list[str]:
        items = [each.strip() for each in text.split(",")] if text else []
        # Kafka drops repeated values with a warning where lists are checked (KIP-1161).
        checked = self.validator is not None and self.validator.kind == "ValidList"
        return list(dict.fromkeys(items)) if checked else items


def _refuse(name: str, value: str, why: str) -> None:
    raise InvalidValue(f"Invalid value {value} for configuration {name}: {why}")


def _check(validator: Validator, name: str, value: str) -> None:
    match validator.kind:
        case "Range":
            _check_range(validator, name, value)
        case "ValidString":
            if value not in validator.values:
                _refuse(name, value, f"String must be one of: {', '.join(validator.values)}")
        case "CaseInsensitiveValidString":
            if value.upper() not in {each.upper() for each in validator.values}:
                allowed = ", ".join(validator.values)
                _refuse(name, value, f"String must be one of (case insensitive): {allowed}")
        case "ValidList":
            _check_list(validator, name, value)
        case "NonEmptyString":
            if not value:
                _refuse(name, value, "String must be non-empty")
        case _:
            _check_special(validator, name, value)


def _check_range(validator: Validator, name: str, value: str) -> None:
    if validator.min is not None and float(value) < float(validator.min):
        _refuse(name, value, f"Value must be at least {validator.min}")
    if validator.max is not None and float(value) > float(validator.max):
        _refuse(name, value, f"Value must be no more than {validator.max}")


def _check_list(validator: Validator, name: str, value: str) -> None:
    if not value:
        if not validator.empty:
            allowed = (
                f"[{', '.join(validator.values)}]" if validator.values else "any non-empty value"
            )
            raise InvalidValue(
                f"Configuration '{name}' must not be empty. Valid values include: {allowed}"
            )
        return
    for item in value.split(","):
        if not item:
            raise InvalidValue(f"Configuration '{name}' values must not be empty.")
        if validator.values and item not in validator.values:
            _refuse(name, item, f"String must be one of: {', '.join(validator.values)}")


def _check_special(validator: Validator, name: str, value: str) -> None:
    if validator.text == "[1,...,9] or -1":
        if not (1 <= int(value) <= 9 or int(value) == -1):
            _refuse(name, value, "Value must be between 1 and 9 or equal to -1")
    elif validator.kind == "ThrottledReplicaListValidator":
        items = value.split(",") if value else []
        if items != ["*"] and not all(_REPLICA.fullmatch(each) for each in items):
            _refuse(
                name,
                f"[{', '.join(items)}]",
                f"{name} must be the literal '*' or a list of replicas in the following format: "
                f"{validator.text}",
            )
    elif (
        validator.text.startswith("[latest, earliest,")
        and value not in {"latest", "earliest"}
        and not _DURATION.fullmatch(value)
    ):
        _refuse(
            name,
            value,
            f"Invalid value `{value}` for configuration {name}. The value must be either "
            "'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
        )


class Catalog(msgspec.Struct, frozen=True):
    """All settings by name, for each kind of resource."""

    topic: dict[str, Setting]
    broker: dict[str, Setting]
    group: dict[str, Setting]
    #: Settings of replication quotas: they can be changed, and no file of a broker has them.
    only_dynamic: tuple[tuple[str, str], ...] = ()

    def setting(self, name: str) -> Setting | None:
        """A broker setting, or None; rates of replication quotas are numbers."""
        if name.startswith("coterie."):
            return Setting("STRING")
        dynamic = any(name == each for each, _ in self.only_dynamic)
        return self.broker.get(name) or (Setting("LONG") if dynamic else None)

    def update_mode(self, name: str) -> str:
        """`per-broker`, `cluster-wide` or `read-only`; empty for a name that Kafka does not have."""
        known = self.broker.get(name)
        return known.update_mode if known is not None else dict(self.only_dynamic).get(name, "")


@cache
def catalog() -> Catalog:
    """The settings of Kafka 4.3.0."""
    data = files("coterie.server.settings").joinpath("kafka_settings.json").read_bytes()
    return msgspec.json.decode(data, type=Catalog)
