"""JAAS strings, names from certificates, and secrets that do not show."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.errors import InvalidSetting
from coterie.security.jaas import parse_jaas
from coterie.security.principals import (
    NoMatchingRule,
    PrincipalMapper,
    distinguished_name,
)
from coterie.security.scram import ScramMechanism, new_credential
from coterie.security.secrets import Secret
from tests.kit.secret_watch import MARKER, leaks, leaky_files

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (
            f'{PLAIN} required username="alice" password="p w";',
            {"username": "alice", "password": "p w"},
        ),
        (f"{PLAIN} required username=alice password=pw ;", {"username": "alice", "password": "pw"}),
        (
            f'{PLAIN} Required\n username=\'a\' \\n=x\npassword="q\\"\\\\;";'.replace(
                "\\n=x\n", ""
            ),
            {"username": "a", "password": 'q"\\;'},
        ),
        (f"{PLAIN} required;", {}),
    ],
)
def test_jaas(text: str, options: dict[str, str]) -> None:
    entry = parse_jaas(text)
    assert entry.module == PLAIN
    assert entry.name == "PlainLoginModule"
    assert entry.options == options
    assert "alice" not in repr(entry)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        f"{PLAIN};",
        f"{PLAIN} required",
        f"{PLAIN} maybe;",
        f"{PLAIN} required; more;",
        f'{PLAIN} required password="hush;',
        f"{PLAIN} required = hush;",
    ],
)
def test_jaas_that_cannot_be_read_is_not_shown(text: str) -> None:
    with pytest.raises(InvalidSetting) as failed:
        parse_jaas(text)
    assert "hush" not in str(failed.value)


def test_a_subject_as_java_writes_it() -> None:
    certificate = {
        "subject": (
            (("countryName", "DE"),),
            (("organizationName", "Acme, Inc."),),
            (("organizationalUnitName", "Data"), ("localityName", " x")),
            (("commonName", "alice"),),
            (("emailAddress", "a@b"),),
        )
    }
    assert distinguished_name(certificate) == (
        "1.2.840.113549.1.9.1=#1603614062,CN=alice,OU=Data+L=\\ x,O=Acme\\, Inc.,C=DE"
    )


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", "CN=Alice,OU=Data,O=Org"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/", "Alice@Data"),
        ("RULE:^CN=(.*?),.*$/$1/L", "alice"),
        ("RULE:^CN=(.*?),.*$/$1/U", "ALICE"),
        ("RULE:^OU=(.*)$/$1/, RULE:^CN=(.*?),OU.*$/$1/", "Alice"),
        ("RULE:^UID=(.*)$/$1/,DEFAULT", "CN=Alice,OU=Data,O=Org"),
        ("RULE:^CN=(.*?),.*$/$12/", "Alice2"),
        ("RULE:^CN=(.*?),.*$/x$7/", "x$7"),
        ("RULE:^CN=(.*?),.*$/a\\/$1/", "a/Alice"),
    ],
)
def test_mapping_rules(rules: str, name: str) -> None:
    assert PrincipalMapper(rules).name_of("CN=Alice,OU=Data,O=Org") == name


def test_no_rule_applies() -> None:
    with pytest.raises(NoMatchingRule):
        PrincipalMapper("RULE:^UID=(.*)$/$1/").name_of("CN=Alice")


@pytest.mark.parametrize("rules", ["nonsense", "RULE:a/b", "RULE:(/x/", "DEFAULT,bad"])
def test_rules_that_are_none(rules: str) -> None:
    with pytest.raises(InvalidSetting, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapper(rules)


def test_secrets_do_not_show() -> None:
    secret = Secret("hush")
    assert "hush" not in f"{secret} {secret!r} {secret:>9} {[secret]}"
    assert secret == Secret("hush")
    assert secret != Secret("other")
    assert secret != "hush"
    assert len({secret, Secret("hush")}) == 1
    assert not Secret("")
    assert secret.reveal() == "hush"
    credential = new_credential(ScramMechanism.SHA_256, "hush")
    assert repr(credential) == "ScramCredential([hidden])"
    assert credential.verifies(ScramMechanism.SHA_256, "hush")
    assert not credential.verifies(ScramMechanism.SHA_256, "other")


def test_the_watch_over_secrets_sees_them() -> None:
    """Every test of the suite is watched: what it prints and logs may not have a password in it."""
    sections = [
        ("Captured stdout setup", f"pass{MARKER}"),
        ("Captured stdout call", "nothing"),
        ("Captured log call", f"INFO pass{MARKER}"),
    ]
    assert leaks(sections, "call") == ["Captured log call"]
    assert leaks(sections, "setup") == ["Captured stdout setup"]
    assert leaks(sections, "teardown") == []


def test_the_watch_over_secrets_sees_files(tmp_path: Path) -> None:
    """Once all tests are done, what programs wrote for people is searched, the pipeline's pages among it."""
    (tmp_path / "report").mkdir()
    page, settings = tmp_path / "report" / "report.html", tmp_path / "client.properties"
    settings.write_text(f"sasl.password=mine{MARKER}")
    assert leaky_files(tmp_path) == []
    page.write_text(f"<p>mine{MARKER}</p>")
    assert leaky_files(tmp_path) == [str(page)]
    page.write_text("<p>-----BEGIN PRIVATE KEY" + "-----</p>")
    assert leaky_files(tmp_path) == [str(page)]
    page.unlink()  # the watch is on
