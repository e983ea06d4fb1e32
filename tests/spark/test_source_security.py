"""The data source over SASL_SSL: the settings of the client, and no secret in plans or errors."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from coterie.testing import EmbeddedCluster
from coterie.testing.certificates import Authority

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spark-security")


@pytest.fixture(scope="module")
def secured(directory: Path) -> Iterator[tuple[EmbeddedCluster, dict[str, str]]]:
    authority = Authority()
    keystore = authority.issue("127.0.0.1").write(directory).keystore
    trusted = authority.write_pkcs12(directory / "trust.p12", "store-hush")
    config = {"ssl.keystore.location": str(keystore)}
    users = {"alice": "alice-hush", "admin": "admin-hush"}
    with EmbeddedCluster(users=users, super_users=["User:admin"], config=config) as running:
        running.scene("empty_group", "orders", offset=3)
        yield (
            running,
            {
                "bootstrap.servers": running.bootstrap_servers,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": f'{SCRAM} required username="admin" password="admin-hush";',
                "ssl.truststore.location": str(trusted),
                "ssl.truststore.password": "store-hush",
            },
        )


def plans(frame: DataFrame) -> str:
    """All that Spark tells about a query: what `explain` prints, what its page shows."""
    execution = frame._jdf.queryExecution()
    return "\n".join([execution.toString(), execution.executedPlan().treeString(), repr(frame)])


def test_groups_over_sasl_ssl(
    spark: SparkSession,
    secured: tuple[EmbeddedCluster, dict[str, str]],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    _, options = secured
    with caplog.at_level(logging.DEBUG, "coterie"):
        frame = spark.read.format("coterie").options(**options).load("groups")
        assert [row.group_id for row in frame.collect()] == ["orders"]
        wrong = options | {"sasl.jaas.config": options["sasl.jaas.config"].replace("admin-", "x-")}
        with pytest.raises(PySparkException, match="SCRAM-SHA-512") as failed:
            spark.read.format("coterie").options(**wrong).load("groups").collect()
    out, err = capfd.readouterr()
    told = "\n".join([plans(frame), str(failed.value), out, err, caplog.text])
    assert "hush" not in told


def test_secrets_in_a_file(
    spark: SparkSession, secured: tuple[EmbeddedCluster, dict[str, str]], directory: Path
) -> None:
    _, options = secured
    path = directory / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
    frame = spark.read.format("coterie").option("client.properties", str(path)).load("offsets")
    assert {row.group_id for row in frame.collect()} == {"orders"}
    assert "hush" not in plans(frame)
