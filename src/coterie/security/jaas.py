"""JAAS strings, as in Kafka's `sasl.jaas.config`: which login, and with what options.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";

The module is a name here, never a class to load (CVE-2023-25194).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from coterie.errors import InvalidSetting

__all__ = ["JaasEntry", "parse_jaas"]

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_PART: Final = re.compile(
    r"""\s*(?:
        (?P<key>[A-Za-z0-9_.$-]+)\s*=\s*(?:"(?P<double>(?:\\.|[^"\\])*)"|'(?P<single>(?:\\.|[^'\\])*)'
                                        |(?P<bare>[^\s;"']+))
      | (?P<word>[A-Za-z0-9_.$-]+)
      | (?P<end>;)
    )""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """One login module. Options may be secrets, so they are not printed."""

    module: str
    options: dict[str, str] = field(repr=False)

    @property
    def name(self) -> str:
        """The class without its package: PlainLoginModule."""
        return self.module.rpartition(".")[2]


def parse_jaas(text: str, setting: str = "sasl.jaas.config") -> JaasEntry:
    """The entry in a JAAS string. Errors say what is wrong and show nothing of the values."""
    words: list[str] = []
    options: dict[str, str] = {}
    at, ended = 0, False
    stripped = text.strip()
    while at < len(stripped):
        match = _PART.match(stripped, at)
        if match is None or ended:
            raise _bad(setting, "there is something that is neither a word nor name=value")
        at = match.end()
        if match["end"]:
            ended = True
        elif match["word"]:
            words.append(match["word"])
        else:
            options[match["key"]] = _value(match)
    if not ended:
        raise _bad(setting, "it must end with a semicolon")
    module, flag = [*words, "", ""][:2]
    if words != [module, flag] or flag.lower() not in _FLAGS:
        raise _bad(setting, "it begins with a login module and `required`")
    return JaasEntry(module, options)


def _value(match: re.Match[str]) -> str:
    quoted = match["double"] if match["double"] is not None else match["single"]
    if quoted is None:
        return match["bare"]
    return re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)


def _bad(setting: str, why: str) -> InvalidSetting:
    return InvalidSetting(
        f'{setting} cannot be read: {why}; write it as `Module required username="u" password="p";`'
    )
