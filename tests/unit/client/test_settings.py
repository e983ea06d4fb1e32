"""Settings of the client: Java's names and librdkafka's, from a dict, a file or keyword arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.client import AdminClient
from coterie.client.settings import settings_of
from coterie.errors import InvalidSetting


def test_both_dialects_and_keyword_arguments() -> None:
    java = settings_of({"bootstrap.servers": "a:1,b:2", "request.timeout.ms": "5000"}, {})
    librdkafka = settings_of({"metadata.broker.list": "a:1,b:2", "socket.timeout.ms": 5000}, {})
    words = settings_of(None, {"bootstrap_servers": ["a:1", "b:2"], "request_timeout_ms": 5000})
    assert java == librdkafka == words
    assert java.addresses == [("a", 1), ("b", 2)]
    assert settings_of({"bootstrap.servers": "a:1"}, {"bootstrap_servers": "b:2"}).addresses == [
        ("b", 2)
    ]


def test_a_properties_file(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "# where\nbootstrap.servers=[::1]:9092\n! how long\n\ndefault.api.timeout.ms: 7000\n"
        "client.id = \\\ntester\n"
    )
    for given in (path, str(path)):
        settings = AdminClient(given).settings
        assert settings.addresses == [("::1", 9092)]
        assert settings.default_api_timeout_ms == 7000
        assert settings.client_id == "tester"
    assert settings_of(path, {"client_id": "x"}).client_id == "x"


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({}, "bootstrap.servers is missing: give host:port"),
        ({"bootstrap.servers": ""}, "bootstrap.servers is missing"),
        ({"bootstrap.servers": "localhost"}, "'localhost' is not host:port"),
        ({"bootstrap.servers": "a:1,:9"}, "':9' is not host:port"),
        ({"bootstrap.servers": "a:70000"}, "'a:70000' is not host:port"),
        ({"bootstrap.server": "a:1"}, "did you mean 'bootstrap.servers'"),
        ({"bootstrap.servers": "a:1", "request.timeout.ms": "soon"}, "takes a number"),
        ({"bootstrap.servers": "a:1", "retry.backoff.ms": -1}, "0 or more, not -1"),
        ({"bootstrap.servers": "a:1", "security.protocol": "TLS"}, "takes PLAINTEXT, SSL, SASL"),
    ],
)
def test_settings_that_do_not_fit(properties: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidSetting, match=says):
        AdminClient(properties)


def test_a_file_that_is_not_there_or_not_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="cannot be read"):
        AdminClient(tmp_path / "nowhere.properties")
    says = r"No such file.*; if these are brokers, say bootstrap_servers='one:9092,two:9092'"
    with pytest.raises(InvalidSetting, match=says):
        AdminClient("one:9092,two:9092")
    path = tmp_path / "broken"
    path.write_text("bootstrap.servers\n")
    # In Java's files a name alone has an empty value.
    with pytest.raises(InvalidSetting, match="is missing"):
        AdminClient(path)
