"""`coterie acls`, `kafka-acls`, and the security options of `coterie server`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.client import AdminClient
from coterie.testing import EmbeddedCluster
from tests.unit.cli.conftest import COTERIE, Tool, environment, runner

KAFKA_ACLS = [sys.executable, "-c", "from coterie.cli.kafka_acls import main; main()"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    users = {"admin": "admin-hush", "alice": "alice-hush"}
    with EmbeddedCluster(users=users, super_users=["User:admin"]) as running:
        yield running


@pytest.fixture(scope="module")
def config(cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "admin.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="admin" password="admin-hush";\n'
    )
    return path


@pytest.fixture
def tool(cluster: EmbeddedCluster, tmp_path: Path) -> Tool:
    return runner(tmp_path, cluster.bootstrap_servers)


def test_add_list_and_remove(tool: Tool, config: Path) -> None:
    access = ("--command-config", str(config))
    added = tool(
        "acls", "add", "--resource", "group", "--name", "billing-", "--prefix", "--principal",
        "User:alice", "--operation", "describe", "--operation", "Delete", *access,
    )  # fmt: skip
    assert added.returncode == 0, added.stderr
    listed = tool("acls", "list", "--principal", "User:alice", "--format", "json", *access)
    rows = json.loads(listed.stdout)
    assert [(row["operation"], row["pattern"], row["name"]) for row in rows] == [
        ("Delete", "Prefixed", "billing-"),
        ("Describe", "Prefixed", "billing-"),
    ]
    shown = tool("acls", "remove", "--principal", "User:alice", "--operation", "delete", *access)
    assert "Nothing was removed" in shown.stderr
    gone = tool(
        "acls", "remove", "--principal", "User:alice", "--operation", "delete", "--execute", *access
    )
    assert gone.returncode == 0, gone.stderr
    left = tool("acls", "list", "--format", "json", *access)
    assert [row["operation"] for row in json.loads(left.stdout)] == ["Describe"]
    assert tool("acls", "remove", "--execute", *access).returncode == 2
    tool("acls", "remove", "--principal", "User:alice", "--execute", *access)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["add", "--resource", "group", "--operation", "Read"], "give --resource"),
        (["add", "--resource", "group", "--name", "x", "--principal", "alice"], "give --resource"),
        (
            [
                "add",
                "--resource",
                "group",
                "--name",
                "x",
                "--principal",
                "a",
                "--operation",
                "Read",
            ],
            "Could not parse principal",
        ),
        (["list", "--operation", "Fly"], "there is no operation 'Fly'"),
    ],
)
def test_wrong_usage(tool: Tool, arguments: list[str], says: str) -> None:
    done = tool("acls", *arguments)
    assert done.returncode == 2
    assert says in done.stderr


def test_somebody_without_rights(tool: Tool) -> None:
    given = [
        "-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN",
        "-X", "sasl.username=alice", "-X", "sasl.password=alice-hush",
    ]  # fmt: skip
    done = tool("acls", "list", *given)
    assert done.returncode == 1
    assert "CLUSTER_AUTHORIZATION_FAILED" in done.stderr
    wrong = tool("acls", "list", *given[:-1], "sasl.password=wrong-hush")
    assert wrong.returncode == 1
    assert "Invalid username or password" in wrong.stderr
    assert "hush" not in done.stderr + wrong.stderr + wrong.stdout


def kafka_acls(
    cluster: EmbeddedCluster, config: Path, *arguments: str, typed: str = ""
) -> subprocess.CompletedProcess[str]:
    access = ["--bootstrap-server", cluster.bootstrap_servers, "--command-config", str(config)]
    return subprocess.run(
        [*KAFKA_ACLS, *access, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        input=typed,
    )


def test_kafka_acls(cluster: EmbeddedCluster, config: Path) -> None:
    added = kafka_acls(
        cluster, config, "--add", "--allow-principal", "User:bob", "--consumer", "--topic", "orders",
        "--group", "billing",
    )  # fmt: skip
    assert added.returncode == 0, added
    assert (
        "Adding ACLs for resource `ResourcePattern(resourceType=GROUP, name=billing, "
        "patternType=LITERAL)`: \n \t(principal=User:bob, host=*, operation=READ, "
        "permissionType=ALLOW) \n" in added.stdout
    )
    listed = kafka_acls(cluster, config, "--list", "--principal", "User:bob")
    assert listed.stdout.startswith("ACLs for principal `User:bob`\nCurrent ACLs for resource ")
    assert listed.stdout.count("(principal=User:bob") == 3
    kept = kafka_acls(cluster, config, "--remove", "--group", "billing", typed="n\n")
    assert "Are you sure you want to delete all ACLs for resource filter" in kept.stdout
    assert "billing" in kafka_acls(cluster, config, "--list", "--group", "billing").stdout
    for resource in (("--group", "billing"), ("--topic", "orders")):
        assert kafka_acls(cluster, config, "--remove", "--force", *resource).returncode == 0
    assert kafka_acls(cluster, config, "--list").stdout == ""
    for wrong in (["--add"], ["--list", "--add"], ["--add", "--topic", "x", "--operation", "Fly"]):
        assert kafka_acls(cluster, config, *wrong).returncode == 1


def test_users_by_the_admin_client(cluster: EmbeddedCluster, config: Path) -> None:
    with AdminClient.connect(config, bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.alter_users({"carol": "carol-hush"}).unwrap()
        known = admin.describe_users().unwrap()
        assert known["carol"].mechanisms == {"SCRAM-SHA-512": 4096}
        assert set(known["admin"].mechanisms) == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
        admin.alter_users(remove=["carol"]).unwrap()
        assert "carol" in admin.describe_users(["carol"]).errors
        assert "hush" not in repr(admin) + repr(admin._admin.settings)


def test_the_server_takes_users_from_everywhere(tmp_path: Path) -> None:
    """From an option, a file and the environment; with a super user there are ACLs."""
    users = tmp_path / "users"
    users.write_text("# people\nalice:alice-hush\n")
    users.chmod(0o600)
    command = [COTERIE, "server", "--port", "0", "--memory", "--sasl", "PLAIN,SCRAM-SHA-256"]
    command += ["--users-file", str(users), "--user", "bob:bob-hush", "--user", "admin"]
    command += ["--super-user", "admin"]
    more = environment(tmp_path, COTERIE_PASSWORD_ADMIN="admin-hush")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=more
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[3]
        for name in ("alice", "bob", "admin"):
            settings = {
                "bootstrap.servers": address,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": name,
                "sasl.password": f"{name}-hush",
            }
            with AdminClient.connect(settings) as admin:
                created = admin.create_topics({f"topic-of-{name}": 1})
                assert created.complete is (name == "admin")
        process.terminate()
        output, errors = process.communicate(timeout=10)
    assert '"event": "refused"' in errors
    assert '"event": "changed"' in errors
    assert "hush" not in output + errors


def test_users_that_the_server_does_not_take(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("alice:alice-hush\n")
    users.chmod(0o644)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [COTERIE, "server", "--memory", "--port", "0", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)

    assert "chmod 600" in run("--users-file", str(users)).stderr
    assert "COTERIE_PASSWORD_NOBODY" in run("--user", "nobody").stderr
    assert "there is no user" in run("--sasl", "PLAIN").stderr
    assert "takes PLAIN, SCRAM" in run("--sasl", "GSSAPI", "--user", "a:a-hush").stderr
