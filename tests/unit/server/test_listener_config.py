"""Listener settings: which addresses each broker gets, and one line for each mistake."""

from __future__ import annotations

import pytest

from coterie.addresses import address_text, java_address, parse_address
from coterie.errors import CoterieError
from coterie.server.connections.listeners import Listeners
from coterie.server.settings.config import ServerConfig
from coterie.server.settings.listeners import SecurityProtocol


def addresses(**settings: str) -> list[list[tuple[str, str]]]:
    """What each broker listens on and advertises; underscores in setting names are dots."""
    properties = {name.replace("_", "."): value for name, value in settings.items()}
    config = ServerConfig.from_properties(properties)
    node_ids = range(1, 3)
    listeners = Listeners(config, node_ids, "127.0.0.1", dict.fromkeys(node_ids, 0))
    return [
        [(str(each.listen), str(each.advertised)) for each in listeners._endpoints[node_id]]
        for node_id in node_ids
    ]


def test_ports_count_up_from_the_first_broker() -> None:
    assert addresses(listeners="PLAINTEXT://localhost:9092") == [
        [("PLAINTEXT://localhost:9092", "PLAINTEXT://localhost:9092")],
        [("PLAINTEXT://localhost:9093", "PLAINTEXT://localhost:9093")],
    ]


def test_a_host_with_the_brokers_id_keeps_the_port() -> None:
    found = addresses(
        listeners="PLAINTEXT://0.0.0.0:9092", advertised_listeners="PLAINTEXT://kafka-{id}:9092"
    )
    assert [broker[0][1] for broker in found] == [
        "PLAINTEXT://kafka-1:9092",
        "PLAINTEXT://kafka-2:9092",
    ]


def test_a_broker_may_have_an_advertised_address_of_its_own() -> None:
    found = addresses(
        listeners="PLAINTEXT://[::1]:0",
        advertised_listeners="PLAINTEXT://proxy:1000",
        **{"coterie.broker.2.advertised.listeners": "PLAINTEXT://[fe80::1]:7"},
    )
    assert [broker[0] for broker in found] == [
        ("PLAINTEXT://[::1]:0", "PLAINTEXT://proxy:1000"),
        ("PLAINTEXT://[::1]:0", "PLAINTEXT://[fe80::1]:7"),
    ]


def test_settings_of_a_listener_replace_the_common_ones() -> None:
    config = ServerConfig.from_properties(
        {
            "listeners": "ONE://h:1,two://h:10,SSL://h:20",
            "listener.security.protocol.map": "ONE:SASL_PLAINTEXT, TWO:SASL_SSL ,SSL:SSL",
            "inter.broker.listener.name": "ONE",
            "sasl.enabled.mechanisms": "PLAIN",
            "ssl.keystore.location": "common.pem",
            "listener.name.two.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.two.ssl.keystore.location": "two.pem",
            "listener.name.ssl.ssl.client.auth": "required",
        }
    )
    one, two, three = config.listeners.specs(config.security)
    assert [each.protocol for each in (one, two, three)] == [
        SecurityProtocol.SASL_PLAINTEXT,
        SecurityProtocol.SASL_SSL,
        SecurityProtocol.SSL,
    ]
    assert (one.security.mechanisms, two.security.mechanisms) == (("PLAIN",), ("SCRAM-SHA-512",))
    assert two.security.keystore_location == "two.pem"
    assert (two.security.client_auth, three.security.client_auth) == ("none", "required")
    assert three.security.keystore_location == "common.pem"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"listeners": "localhost:9092"}, "listeners: 'localhost:9092' is not NAME://HOST:PORT"),
        ({"listeners": "SSL://h:99999"}, "'SSL://h:99999' is not NAME://HOST:PORT"),
        ({"listeners": "PLAINTEXT://x::1"}, "is not NAME://HOST:PORT"),
        (
            {"listeners": "PLAINTEXT://a:1,plaintext://b:9"},
            "listeners names the listener PLAINTEXT twice",
        ),
        (
            {"listeners": "MINE://h:1"},
            "No security protocol defined for listener MINE; add it to listener.security.protocol.map",
        ),
        (
            {"listeners": "MINE://h:1", "listener.security.protocol.map": "MINE:TLS"},
            "takes NAME:PROTOCOL with the protocols PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not 'M",
        ),
        (
            {"listeners": "PLAINTEXT://h:1", "advertised.listeners": "OUT://h:1"},
            "advertised.listeners names the listener OUT, and listeners has PLAINTEXT",
        ),
        (
            {"inter.broker.listener.name": "INSIDE"},
            "inter.broker.listener.name names the listener INSIDE, and listeners has PLAINTEXT",
        ),
        (
            {"listener.name.out.ssl.client.auth": "none"},
            "listener.name.out names the listener OUT, and listeners has PLAINTEXT",
        ),
        (
            {"listener.name.plaintext.super.users": "User:x"},
            "there is no setting 'listener.name.plaintext.super.users'",
        ),
        (
            {"listeners": "SSL://h:1"},
            "set ssl.keystore.location, or listener.name.ssl.ssl.keystore.location for this listener",
        ),
        ({"listeners": "SASL_PLAINTEXT://h:1"}, "set sasl.enabled.mechanisms"),
        ({"listeners": "PLAINTEXT://h:65535"}, "65535 is the last"),
        (
            {"listeners": "B://h:1,A://h:2", "listener.security.protocol.map": "A:SSL,B:PLAINTEXT",
             "ssl.keystore.location": "x"},
            "listeners has h:2 twice",
        ),
        (
            {"listeners": "PLAINTEXT://0.0.0.0:1"},
            "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable",
        ),
        (
            {"coterie.broker.3.advertised.listeners": "PLAINTEXT://h:1"},
            "coterie.broker.3.advertised.listeners: there is no broker 3",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(settings: dict[str, str], says: str) -> None:
    with pytest.raises(CoterieError) as caught:
        addresses(**settings)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", ("localhost", 9092)),
        ("[::1]:9092", ("::1", 9092)),
        ("::1:9092", ("::1", 9092)),
        (":0", ("", 0)),
        ("::1", None),
        ("[::1]", None),
        ("[host]:1", None),
        ("host", None),
        ("host:", None),
        ("host:٣", None),
        ("host:65536", None),
    ],
)
def test_addresses_are_read(text: str, address: tuple[str, int] | None) -> None:
    assert parse_address(text) == address


def test_addresses_are_written() -> None:
    assert address_text("::1", 9092) == "[::1]:9092"
    assert address_text("host", 9092) == "host:9092"


@pytest.mark.parametrize(
    ("address", "java"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
    ],
)
def test_hosts_are_spelled_as_java_does(address: str, java: str) -> None:
    assert java_address(address) == java
