"""Java's properties files, as `--command-config` and the client read them."""

from __future__ import annotations

import pytest

from coterie.client.properties import parse_properties

JAAS = (
    'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" '
    'password="a\\"b=c:d";'
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a:b\nc d\n  e\t=\tf", {"a": "b", "c": "d", "e": "f"}),
        ("# no\n! neither\n\n   # nor this\na=#yes", {"a": "#yes"}),
        ("a=b=c:d", {"a": "b=c:d"}),
        (r"a\=b=c", {"a=b": "c"}),
        (r"a\:b\ c=d", {"a:b c": "d"}),
        ("a=b\\\n   c\\\n\td", {"a": "bcd"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        (r"a=\u00e4\t\n\q", {"a": "ä\t\nq"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("alone", {"alone": ""}),
        ("a=\n=b", {"a": "", "": "b"}),
        ("a=b\\", {"a": "b"}),
        ("a==b", {"a": "=b"}),
        ("# a\\\nb=c", {"b": "c"}),
    ],
)
def test_the_ways_of_java(text: str, found: dict[str, str]) -> None:
    assert parse_properties(text) == found


def test_jaas_over_several_lines() -> None:
    text = (
        "security.protocol=SASL_SSL\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        '    username="ann" \\\n'
        '    password="a\\\\"b=c:d";\n'
    )
    assert parse_properties(text) == {"security.protocol": "SASL_SSL", "sasl.jaas.config": JAAS}
