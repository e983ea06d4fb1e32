"""The command line as joptsimple reads it, the option parser of Kafka's tools, in its ways and its words.

No abbreviations: Kafka switches them off. An option that needs a value takes the next word whatever it
looks like; one that may have a value takes the next word unless it begins with a dash. `-list` is `--list`,
`--group=` is an empty name, words that are no options are ignored, and so is everything behind `--`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from coterie.cli.consumer_groups.java import Throwable

__all__ = ["OPTIONS", "Options", "ParseError", "parse"]


class Option(NamedTuple):
    """An option: whether it takes a value, and the options one of which it needs beside it."""

    value: Literal["no", "required", "optional"] = "no"
    needs: tuple[str, ...] = ()


#: In the order in which Kafka's tool declares them, which is the order in which it complains.
OPTIONS: Final = {
    "help": Option(),
    "version": Option(),
    "bootstrap-server": Option("required"),
    "group": Option("required"),
    "topic": Option("required"),
    "all-topics": Option(),
    "list": Option(),
    "describe": Option(),
    "all-groups": Option(),
    "delete": Option(),
    "timeout": Option("required"),
    "command-config": Option("required"),
    "reset-offsets": Option(),
    "delete-offsets": Option(),
    "validate-regex": Option("required"),
    "dry-run": Option(),
    "execute": Option(),
    "export": Option(),
    "to-offset": Option("required"),
    "from-file": Option("required"),
    "to-datetime": Option("required"),
    "by-duration": Option("required"),
    "to-earliest": Option(),
    "to-latest": Option(),
    "to-current": Option(),
    "shift-by": Option("required"),
    "members": Option(needs=("describe",)),
    "verbose": Option(needs=("describe",)),
    "offsets": Option(needs=("describe",)),
    "state": Option("optional", needs=("describe", "list")),
    "type": Option("optional", needs=("list",)),
    # Ours; Kafka's tool does not know them.
    "strict-exit": Option(),
    "kip-181": Option(),
}


class ParseError(Throwable):
    """An exception of joptsimple."""

    def __init__(self, name: str, message: str, cause: Throwable | None = None) -> None:
        super().__init__(f"joptsimple.{name}Exception", message, cause)


class Options:
    """The options that were given, each with its values in their order."""

    def __init__(self) -> None:
        self._given: dict[str, list[str]] = {}

    def add(self, name: str, value: str | None = None) -> None:
        values = self._given.setdefault(name, [])
        if value is not None:
            values.append(value)

    def has(self, *names: str) -> bool:
        """Whether any of these was given."""
        return any(name in self._given for name in names)

    def values(self, name: str) -> list[str]:
        return self._given.get(name, [])

    def value(self, name: str) -> str | None:
        """The one value of an option; two are one too many."""
        found = self.values(name)
        if len(found) > 1:
            raise ParseError(
                "MultipleArgumentsForOption",
                f"Found multiple arguments for option {name}, but you asked for only one",
            )
        return found[0] if found else None

    def number(self, name: str, default: int | None = None) -> int | None:
        """The one value of an option, as Java's Long."""
        self.value(name)
        return next(iter(self.numbers(name)), default)

    def numbers(self, name: str) -> list[int]:
        return [_long(name, value) for value in self.values(name)]


def _long(option: str, text: str) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    number = int(text) if digits.isdecimal() else 1 << 63
    if -(1 << 63) <= number < 1 << 63:
        return number
    cause = Throwable("java.lang.NumberFormatException", f'For input string: "{text}"')
    raise ParseError(
        "OptionArgumentConversion",
        f"Cannot parse argument '{text}' of option {option}",
        Throwable("joptsimple.internal.ReflectionException", cause=cause),
    )


def parse(arguments: Sequence[str]) -> Options:
    """The options of a command line, or what joptsimple throws."""
    found = Options()
    words = list(reversed(arguments))
    while words:
        word = words.pop()
        if word == "--":
            break
        if word.startswith("--"):
            _handle(word[2:], words, found)
        elif _looks_like_an_option(word):
            name = word[1:].partition("=")[0]
            # No option is a single letter, so a bundle of them fails at its first.
            _handle(word[1:] if name in OPTIONS else word[1], words, found)
    _check_available(found)
    return found


def _handle(text: str, words: list[str], found: Options) -> None:
    name, equals, value = text.partition("=")
    option = OPTIONS.get(name)
    if option is None:
        raise ParseError("UnrecognizedOption", f"{name} is not a recognized option")
    if option.value == "no":
        found.add(name)
    elif equals:
        found.add(name, value)
    elif option.value == "required":
        if not words:
            raise ParseError("OptionMissingRequiredArgument", f"Option {name} requires an argument")
        found.add(name, words.pop())
    else:
        takes = bool(words) and not _looks_like_an_option(words[-1])
        found.add(name, words.pop() if takes else None)


def _looks_like_an_option(word: str) -> bool:
    return word.startswith("-") and word not in ("-", "--")


def _check_available(found: Options) -> None:
    if found.has("help", "version"):
        return
    lonely = [
        name
        for name, option in OPTIONS.items()
        if option.needs and found.has(name) and not found.has(*option.needs)
    ]
    if lonely:
        raise ParseError(
            "UnavailableOption",
            f"Option(s) [{', '.join(lonely)}] are unavailable given other options on the "
            "command line",
        )
