"""Who a connection is: the principal, and its name out of a certificate (`ssl.principal.mapping.rules`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from coterie.errors import CoterieError, InvalidSetting

__all__ = ["ANONYMOUS", "NoMatchingRule", "PrincipalMapper", "distinguished_name", "user"]

#: Whoever has not said who they are, as Kafka calls them.
ANONYMOUS: Final = "User:ANONYMOUS"

_SETTING: Final = "ssl.principal.mapping.rules"
_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?:,|$)"
)

#: Attributes that RFC 2253 has a short name for, as OpenSSL calls them.
_SHORT: Final = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}


class NoMatchingRule(CoterieError):
    """No rule gives a name to the subject of a certificate."""


def user(name: str) -> str:
    """The principal of a user's name."""
    return f"User:{name}"


def distinguished_name(certificate: Mapping[str, Any]) -> str:
    """The subject of a peer's certificate as Java writes it (RFC 2253): `CN=me,OU=Unit,O=Org,C=DE`."""
    return ",".join(
        "+".join(_attribute(name, value) for name, value in relative)
        for relative in reversed(certificate.get("subject", ()))
    )


def _attribute(name: str, value: str) -> str:
    if name == "emailAddress":
        # Without a short name in RFC 2253: its number, and the value as DER.
        data = value.encode()
        return f"1.2.840.113549.1.9.1=#16{len(data):02x}{data.hex()}"
    escaped = re.sub(r'([,+"\\<>;])', r"\\\1", value)
    escaped = re.sub(r"^([# ])", r"\\\1", escaped)
    escaped = re.sub(r"(?<!\\) $", r"\\ ", escaped)
    return f"{_SHORT.get(name, name)}={escaped}"


class PrincipalMapper:
    """Kafka's rules: `RULE:pattern/replacement/[LU]`, the first that fits; `DEFAULT` is the whole name."""

    def __init__(self, rules: str = "DEFAULT") -> None:
        self._rules: list[tuple[re.Pattern[str] | None, str, str]] = []
        at = 0
        while at < len(rules.strip()):
            match = _RULE.match(rules.strip(), at)
            if match is None:
                raise InvalidSetting(
                    f"{_SETTING}: {rules[at:]!r} is not RULE:pattern/replacement/[LU] or DEFAULT"
                )
            at = match.end()
            self._rules.append(_rule(match))

    def name_of(self, subject: str) -> str:
        for pattern, replacement, case in self._rules:
            if pattern is None:
                return subject
            match = pattern.fullmatch(subject)
            if match is not None:
                name = _fill(replacement, match)
                return {"L": name.lower(), "U": name.upper()}.get(case, name)
        raise NoMatchingRule(f"no rule of {_SETTING} applies to {subject!r}")

    def principal(self, certificate: Mapping[str, Any]) -> str:
        return user(self.name_of(distinguished_name(certificate)))


def _rule(match: re.Match[str]) -> tuple[re.Pattern[str] | None, str, str]:
    if match["default"]:
        return None, "", ""
    try:
        pattern = re.compile(match["pattern"])
    except re.error as error:
        raise InvalidSetting(f"{_SETTING}: {match['pattern']!r} is no pattern: {error}") from None
    return pattern, match["replacement"], match["case"]


def _fill(replacement: str, match: re.Match[str]) -> str:
    """Java's replacement text: `$1` is a group; a number that no group has is read as a shorter one."""

    def group(found: re.Match[str]) -> str:
        if found["escaped"]:
            return str(found["escaped"])
        digits = found["digits"]
        for end in _downward(len(digits)):
            if int(digits[:end]) <= (match.re.groups or 0):
                return (match[int(digits[:end])] or "") + digits[end:]
        return str(found[0])

    return re.sub(r"\$(?P<digits>\d+)|\\(?P<escaped>.)", group, replacement)


def _downward(count: int) -> Iterable[int]:
    return range(count, 0, -1)
