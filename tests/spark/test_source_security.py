"""The data source over SASL_SSL: the settings of the client, and no secret in anything that Spark shows."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from coterie.cli.pipeline import command
from coterie.spark.pipeline.frames import read_table
from coterie.spark.pipeline.store import TableStore
from coterie.testing import EmbeddedCluster
from coterie.testing.certificates import Authority
from tests.spark.spark_shows import watched

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


def test_the_pipeline_over_sasl_ssl(
    spark: SparkSession, secured: tuple[EmbeddedCluster, dict[str, str]], tmp_path: Path
) -> None:
    """The settings are those of every command, and stay in their file."""
    _, options = secured
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
    out = tmp_path / "out"
    for step in ("snapshot", "ingest"):
        said = CliRunner().invoke(command, [step, "--command-config", str(path), "--out", str(out)])
        assert said.exit_code == 0, said.output
        assert "hush" not in said.output
    store = TableStore(out)
    for table in ("groups", "commits"):
        assert {row.group_id for row in read_table(spark, store, table).collect()} == {"orders"}
    written = b"".join(each.read_bytes() for each in out.rglob("*") if each.is_file())
    assert b"hush" not in written


def by_password(options: dict[str, str], key: str) -> dict[str, str]:
    """The same settings with the secrets one by one, in librdkafka's words, and a private key as text."""
    plain = {name: value for name, value in options.items() if name != "sasl.jaas.config"}
    return plain | {"sasl.username": "admin", "sasl.password": "admin-hush", "ssl.key.pem": key}


def in_sql(options: dict[str, str]) -> str:
    """As a user of SQL gives them."""
    escaped = {
        name: value.replace("\\", "\\\\").replace("'", "\\'") for name, value in options.items()
    }
    return ", ".join(f"'{name}' '{value}'" for name, value in escaped.items())


def test_spark_shows_no_secret(
    spark: SparkSession, secured: tuple[EmbeddedCluster, dict[str, str]], tmp_path: Path
) -> None:
    """Pages, REST API, plans, event log, driver's log, progress and checkpoint, after every way to read."""
    _, jaas = secured
    certificate = Authority().issue("admin")
    key = certificate.key_pem()
    options = by_password(jaas, key) | {"ssl.certificate.pem": certificate.certificate_pem}
    wrong = options | {"sasl.password": "wrong-hush"}
    kept = tmp_path / "kept"
    kept.mkdir()
    with watched(spark, kept) as shows:
        spark.sparkContext.setJobDescription("a canary")
        spark.sql(
            f"CREATE TEMPORARY VIEW jaas USING coterie OPTIONS (path 'groups', {in_sql(jaas)})"
        )
        spark.sql(
            f"CREATE TEMPORARY VIEW keys USING coterie OPTIONS (path 'groups', {in_sql(options)})"
        )
        frames = [
            spark.read.format("coterie").options(**options).load("groups"),
            spark.table("jaas").where("state = 'Empty'"),
            spark.sql("SELECT * FROM keys"),
        ]
        for frame in frames:
            assert [row.group_id for row in frame.collect()] == ["orders"]
        with pytest.raises(PySparkException, match="SCRAM-SHA-512") as failed:
            spark.read.format("coterie").options(**wrong).load("groups").collect()
        stream = (
            spark.readStream.format("coterie")
            .options(**options)
            .load("commits")
            .writeStream.format("memory")
            .queryName("secured_commits")
            .option("checkpointLocation", str(kept / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert stream.awaitTermination(120)
        assert spark.table("secured_commits").count()
        shows.keep("plans.txt", "\n".join(map(plans, frames)))
        shows.keep(
            "told.txt", f"{failed.value} {failed.traceback} {stream.lastProgress} {stream.status}"
        )
        shows.keep_pages(str(stream.runId))
        spark.sparkContext.setJobDescription("")
    for view in ("jaas", "keys", "secured_commits"):
        spark.catalog.dropTempView(view)
    shown = {
        each.name: each.read_text()
        for each in kept.rglob("*")
        if each.is_file() and each.suffix != ".crc"
    }
    secrets = ["hush", *key.splitlines()[1:-1]]
    assert [name for name, text in shown.items() if any(each in text for each in secrets)] == []
    # The look was at the right things.
    for name, text in (
        ("events_1_events", "a canary"),
        ("driver.log", "Starting job"),
        ("plans.txt", "Scan"),
    ):
        assert text in shown[name]
    pages = [text for name, text in shown.items() if name.startswith("page-")]
    for text in ("a canary", "CreateTempViewUsing", "(redacted)", "secured_commits"):
        assert any(text in page for page in pages), text
