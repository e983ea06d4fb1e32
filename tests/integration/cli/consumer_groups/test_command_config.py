"""`--command-config`: files of Java's, for clients of every kind, and secrets that are not told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.testing import EmbeddedCluster
from tests.kit.cli_replay import our_tool

PASSWORD = "hunter2"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
FAILED = "\nError: Executing consumer group command failed due to "
NOT_CREATED = f"{FAILED}Failed to create new KafkaAdminClient\n"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(1, users={"ann": PASSWORD}, super_users=["User:ann"]) as cluster:
        yield cluster


def listed(cluster: EmbeddedCluster, path: Path, text: str) -> tuple[str, str]:
    """What `--list` says with these settings."""
    path.write_bytes(text.encode("latin-1"))
    server = ["--bootstrap-server", cluster.bootstrap_servers, "--timeout", "5000"]
    said = our_tool([*server, "--list", "--command-config", str(path)])
    assert said.exit == 0
    assert PASSWORD not in said.stdout + said.stderr
    return said.stdout, said.stderr


def test_jaas_over_lines_beside_the_settings_of_a_consumer(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    text = (
        "# Füße\n"
        "security.protocol : SASL_PLAINTEXT\n"
        "sasl.mechanism=PLAIN\n"
        f"sasl.jaas.config={LOGIN} \\\n"
        f'    username="ann" \\\n    password="{PASSWORD}";\n'
        "group.id=mine\nkey.deserializer=org.example.None\nbootstrap.servers=elsewhere:1\n"
    )
    assert listed(cluster, tmp_path / "client.properties", text) == ("", "")


@pytest.mark.parametrize(
    "jaas", [f'{LOGIN} username="ann" password="{PASSWORD}"', f'{LOGIN} password="{PASSWORD};', "x"]
)
def test_jaas_that_cannot_be_read(cluster: EmbeddedCluster, tmp_path: Path, jaas: str) -> None:
    text = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={jaas}\n"
    out, err = listed(cluster, tmp_path / "client.properties", text)
    assert out == NOT_CREATED
    assert "Caused by: org.apache.kafka.common.config.ConfigException: sasl.jaas.config" in err


def test_a_key_store_that_is_not_there(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    text = (
        f"security.protocol=SSL\nssl.keystore.location={tmp_path}/none.p12\n"
        f"ssl.keystore.password={PASSWORD}\n"
    )
    out, err = listed(cluster, tmp_path / "client.properties", text)
    assert out == NOT_CREATED
    assert "none.p12 cannot be read" in err


def test_a_wrong_password_is_told_at_once(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    text = (
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={LOGIN} username="bob" password="{PASSWORD}";\n'
    )
    out, err = listed(cluster, tmp_path / "client.properties", text)
    assert out.endswith("KafkaException: Failed to find brokers to send ListGroups\n")
    assert err.splitlines()[-1] == (
        "Caused by: org.apache.kafka.common.errors.SaslAuthenticationException: "
        "Authentication failed: Invalid username or password"
    )
