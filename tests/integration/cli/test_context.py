"""Contexts, environment variables, files and options: who says where the cluster is, and who wins."""

from __future__ import annotations

import json
import os
import stat
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.cli.main import main
from coterie.console.configuration import Contexts, is_secret, masked, parse_value, reveal
from coterie.console.target import Target
from coterie.errors import CoterieError, InvalidSetting
from coterie.testing import EmbeddedCluster
from tests.unit.cli.conftest import Tool, runner

TEXT = """\
# my clusters
current = "staging"

[contexts.staging]  # a quiet place
bootstrap.servers = "staging:9092"

[contexts.prod]
bootstrap.servers = "prod:9093"
client.id = "ops"
# the password is not here
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith("COTERIE_"):
            monkeypatch.delenv(name)
    path = tmp_path / "coterie" / "config.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path.parent.mkdir()
    path.write_text(TEXT)
    return path


def servers(**target: object) -> object:
    return Target(**target).properties()["bootstrap.servers"]  # type: ignore[arg-type]


def test_the_order_of_those_who_say_where(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:9092\nkey.deserializer=of.a.Consumer\n")
    assert servers() == "staging:9092"
    monkeypatch.setenv("COTERIE_CONTEXT", "prod")
    assert servers() == "prod:9093"
    assert servers(context="staging") == "staging:9092"
    monkeypatch.delenv("COTERIE_CONTEXT")
    monkeypatch.setenv("COTERIE_BOOTSTRAP_SERVERS", "environment:9092")
    assert servers() == "environment:9092"
    monkeypatch.setenv("COTERIE_COMMAND_CONFIG", str(file))
    assert servers() == "file:9092"
    assert servers(bootstrap="option:9092") == "option:9092"
    assert servers(bootstrap="option:9092", overrides=("bootstrap.servers=x:1",)) == "x:1"
    assert "key.deserializer" not in Target(file=str(file)).properties()


def test_a_context_that_nobody_named_gives_nothing_to_another_cluster(config: Path) -> None:
    config.write_text(TEXT.replace('"staging"', '"prod"', 1))
    assert Target().properties()["client.id"] == "ops"
    assert "client.id" not in Target(bootstrap="other:9092").properties()
    assert "client.id" not in Target(overrides=("bootstrap.servers=other:9092",)).properties()
    named = Target(bootstrap="other:9092", context="prod").properties()
    assert named["client.id"] == "ops"
    assert named["bootstrap.servers"] == "other:9092"


def test_every_setting_has_an_environment_variable(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COTERIE_CLIENT_ID", "me")
    monkeypatch.setenv("COTERIE_REQUEST_TIMEOUT_MS", "5")
    monkeypatch.setenv("COTERIE_KEEP", "1")  # not a setting
    found = Target(timeout=2.5).properties()
    assert found["client.id"] == "me"
    assert found["request.timeout.ms"] == "5"
    assert found["default.api.timeout.ms"] == 2500
    assert "keep" not in found


def test_changes_keep_comments(config: Path) -> None:
    contexts = Contexts()
    contexts.use("prod")
    contexts.put("prod", {"client.id": "new", "sasl.password": {"env": "PROD_PASSWORD"}})
    contexts.put("third", {"bootstrap.servers": "third:9092"})
    text = config.read_text()
    assert tomllib.loads(text)["current"] == "prod"
    assert "# my clusters" in text
    assert "# a quiet place" in text
    assert "# the password is not here" in text
    again = Contexts()
    assert again.get("prod") == {
        "bootstrap.servers": "prod:9093",
        "client.id": "new",
        "sasl.password": {"env": "PROD_PASSWORD"},
    }
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    again.remove("prod")
    left = Contexts()
    assert sorted(left.items) == ["staging", "third"]
    assert left.current is None
    with pytest.raises(CoterieError, match="there is no context 'prod'"):
        left.get("prod")


#: Everything that TOML allows around a context, and that a search for lines gets wrong.
NESTED = '''\
# the file of the operators
notes = """
[contexts.prod]
this is text, not a table
current = "nothing"
"""
current = "prod" # for today

[contexts.prod]
bootstrap.servers = "prod:9093" # three brokers

[contexts.prod.sasl]
mechanism = "PLAIN"
password = { env = "PROD_PASSWORD" }

# the quiet one
[contexts.staging]
"bootstrap.servers" = "staging:9092"
comment.text = """
[contexts.other]
"""

[contexts.inline]
ssl = { ca.location = "/ca.pem", key.password = { file = "/secret" } }
'''


def test_a_context_goes_with_its_sub_tables(config: Path) -> None:
    config.write_text(NESTED)
    contexts = Contexts()
    assert contexts.get("prod")["sasl.password"] == {"env": "PROD_PASSWORD"}
    contexts.remove("prod")
    left = Contexts()
    assert sorted(left.items) == ["inline", "staging"]
    assert left.current is None
    assert "sasl" not in config.read_text()
    document = tomllib.loads(config.read_text())
    assert "this is text" in document["notes"]
    assert "# the file of the operators" in config.read_text()


def test_text_that_looks_like_a_table_is_text(config: Path) -> None:
    config.write_text(NESTED)
    before = tomllib.loads(NESTED)
    contexts = Contexts()
    contexts.put("staging", {"client.id": "me"})
    contexts.put("prod", {"client.id": "me", "sasl.password": {"file": "/new"}})
    contexts.put("inline", {"ssl.ca.location": "/other.pem"})
    contexts.use("staging")
    after = tomllib.loads(config.read_text())
    assert after["notes"] == before["notes"]
    assert after["current"] == "staging"
    again = Contexts()
    assert again.get("staging") == {
        "bootstrap.servers": "staging:9092",
        "comment.text": "[contexts.other]\n",
        "client.id": "me",
    }
    assert again.get("prod") == {
        "bootstrap.servers": "prod:9093",
        "client.id": "me",
        "sasl.mechanism": "PLAIN",
        "sasl.password": {"file": "/new"},
    }
    assert again.get("inline") == {
        "ssl.ca.location": "/other.pem",
        "ssl.key.password": {"file": "/secret"},
    }
    for comment in ("# the file of the operators", "# for today", "# three brokers", "# the quiet"):
        assert comment in config.read_text()


@pytest.mark.parametrize("step", ["use", "put", "remove"])
def test_tables_in_any_order(config: Path, step: str) -> None:
    config.write_text(
        '[contexts.a]\nx = "1"\n[contexts.b]\nx = "2"\n[contexts.a.sasl]\nmechanism = "PLAIN"\n'
    )
    contexts = Contexts()
    expected = {"a": {"x": "1", "sasl.mechanism": "PLAIN"}, "b": {"x": "2"}}
    assert contexts.items == expected
    if step == "use":
        contexts.use("b")
    elif step == "put":
        contexts.put("a", {"x": "3", "sasl.username": "me"})
        expected["a"] |= {"x": "3", "sasl.username": "me"}
    else:
        contexts.remove("a")
        del expected["a"]
    left = Contexts()
    assert left.items == expected
    assert left.current == ("b" if step == "use" else None)


def test_a_new_file_is_one_that_people_can_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.toml"
    contexts = Contexts(path)
    contexts.put("prod", {"bootstrap.servers": "prod:1", "sasl.password": {"env": "SECRET"}})
    contexts.put("staging", {"bootstrap.servers": "staging:1"})
    assert path.read_text() == (
        'current = "prod"\n\n[contexts.prod]\nbootstrap.servers = "prod:1"\n'
        'sasl.password = {env = "SECRET"}\n\n[contexts.staging]\nbootstrap.servers = "staging:1"\n'
    )
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("current = 5", "current is the name of a context"),
        ("contexts = 5", r"contexts are tables: \[contexts.NAME\]"),
        ("[contexts]\nprod = 5", r"contexts are tables: \[contexts.NAME\]"),
        ("current = ", "config.toml: "),
    ],
)
def test_a_file_that_is_wrong_is_named(config: Path, text: str, why: str) -> None:
    config.write_text(text)
    with pytest.raises(CoterieError, match=why):
        Contexts()


def test_a_setting_that_is_in_the_way_of_another_is_named(config: Path) -> None:
    config.write_text('[contexts.prod]\nsasl = "text"\n')
    with pytest.raises(CoterieError, match=r"cannot set sasl\.password of context 'prod'"):
        Contexts().put("prod", {"sasl.password": {"env": "X"}})
    assert config.read_text() == '[contexts.prod]\nsasl = "text"\n'


@pytest.mark.parametrize("text", ["current = ", 'current = "other"', TEXT.replace("prod:", "x:")])
def test_a_change_that_would_do_harm_is_not_written(
    config: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """TOML has many ways to nest tables, and the library that edits it may not know one."""
    monkeypatch.setattr("tomlkit.TOMLDocument.as_string", lambda _: text)
    with pytest.raises(
        CoterieError, match=r"config\.toml cannot be changed automatically: edit it"
    ):
        Contexts().use("prod")
    assert config.read_text() == TEXT


def test_values_of_other_types_are_settings_too(config: Path) -> None:
    config.write_text(
        '[contexts.prod]\nbootstrap.servers = ["a:1", "b:2"]\nretry.backoff.ms = 5\n'
        "enable.ssl.certificate.verification = false\n"
    )
    assert Contexts().get("prod") == {
        "bootstrap.servers": "a:1,b:2",
        "retry.backoff.ms": 5,
        "enable.ssl.certificate.verification": "false",
    }


def test_secrets_come_from_their_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "from the environment")
    (tmp_path / "secret").write_text("from a file\n")
    assert reveal("sasl.password", {"env": "SECRET"}) == "from the environment"
    assert reveal("sasl.password", {"file": str(tmp_path / "secret")}) == "from a file"
    assert reveal("sasl.password", "plain") == "plain"
    with pytest.raises(InvalidSetting, match="the environment has no NOWHERE"):
        reveal("sasl.password", {"env": "NOWHERE"})
    with pytest.raises(InvalidSetting, match="cannot be read: No such file"):
        reveal("sasl.password", {"file": str(tmp_path / "nothing")})


@pytest.fixture
def in_memory() -> Iterator[None]:
    """A keyring of our own."""
    import keyring  # noqa: PLC0415 - slow, and only here
    from keyring.backend import KeyringBackend  # noqa: PLC0415

    class InMemory(KeyringBackend):
        priority = 1
        kept: dict[tuple[str, str], str] = {}  # noqa: RUF012

        def get_password(self, service: str, username: str) -> str | None:
            return self.kept.get((service, username))

        def set_password(self, service: str, username: str, password: str) -> None:
            self.kept[service, username] = password

        def delete_password(self, service: str, username: str) -> None:
            del self.kept[service, username]

    before = keyring.get_keyring()
    keyring.set_keyring(InMemory())  # type: ignore[no-untyped-call]
    yield
    keyring.set_keyring(before)


@pytest.mark.usefixtures("in_memory")
def test_the_keyring(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.termui.hidden_prompt_func", lambda _: "hunter2")
    with pytest.raises(SystemExit) as ended:
        main(["context", "secret", "prod"])
    assert ended.value.code == 0
    said = capsys.readouterr()
    assert "hunter2" not in said.out + said.err + config.read_text()
    assert Contexts().get("prod")["sasl.password"] == {"keyring": "coterie-prod/sasl.password"}
    assert Target(context="prod").properties()["sasl.password"] == "hunter2"
    with pytest.raises(InvalidSetting, match="nothing for kafka/you"):
        reveal("sasl.password", {"keyring": "kafka/you"})
    with pytest.raises(InvalidSetting, match="SERVICE/USER"):
        reveal("sasl.password", {"keyring": "kafka"})
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(InvalidSetting, match=r"pip install 'coterie\[keyring\]'"):
        reveal("sasl.password", {"keyring": "kafka/me"})


def test_secrets_are_known_and_never_shown() -> None:
    secrets = ("sasl.password", "sasl_password", "ssl.key.password", "sasl.jaas.config")
    assert all(map(is_secret, secrets))
    assert not any(map(is_secret, ("sasl.username", "ssl.ca.location", "bootstrap.servers")))
    assert masked("sasl.password", "hunter2") == "(hidden)"
    assert masked("sasl.password", {"env": "NAME"}) == "from env NAME"
    assert parse_value("sasl.password", "env:NAME") == {"env": "NAME"}
    assert parse_value("bootstrap.servers", "env:9092") == "env:9092"
    with pytest.raises(InvalidSetting) as caught:
        parse_value("sasl.password", "hunter2")
    assert "hunter2" not in str(caught.value)


def test_the_commands(world: EmbeddedCluster, nowhere: Tool, tmp_path: Path) -> None:
    no_cluster = nowhere("groups", "list")
    assert no_cluster.returncode == 2
    assert "no cluster is named: give --bootstrap-server" in no_cluster.stderr
    made = nowhere("context", "set", "here", f"bootstrap.servers={world.bootstrap_servers}")
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "config" / "coterie" / "config.toml").exists()
    assert nowhere("groups", "list", "world-audit", "-o", "name").stdout == "world-audit\n"
    assert nowhere("context", "set", "other", "bootstrap.servers=localhost:1").returncode == 0
    rows = json.loads(nowhere("context", "list", "-o", "json").stdout)
    assert [(row["context"], row["current"]) for row in rows] == [("here", True), ("other", False)]
    assert nowhere("context", "use", "other").returncode == 0
    gone = nowhere("groups", "list", "--timeout", "300ms")
    assert gone.returncode == 1
    assert "localhost:1" in gone.stderr
    named = nowhere("--context", "here", "groups", "list", "world-audit", "-o", "name")
    assert named.stdout == "world-audit\n"
    secret = nowhere("context", "set", "other", "sasl.password=hunter2")
    assert secret.returncode == 1
    assert "hunter2" not in secret.stderr + secret.stdout
    assert nowhere("context", "set", "other", "sasl.password=env:OTHER").returncode == 0
    assert "from env OTHER" in nowhere("context", "show", "other").stdout
    assert nowhere("context", "delete", "other").returncode == 0
    broken = tmp_path / "broken.toml"
    broken.write_text("current = ")
    trouble = nowhere("context", "list", env={"COTERIE_CONFIG": str(broken)})
    assert trouble.returncode == 1
    assert len(trouble.stderr.splitlines()) == 1


def test_a_context_with_a_password_and_a_user_who_may_not_read_the_log(tmp_path: Path) -> None:
    passwords = {"admin": "admin-hush", "alice": "alice-hush"}
    with EmbeddedCluster(users=passwords, super_users=["User:admin"]) as cluster:
        cluster.scene("stale_group", "old", days=90)
        tool = runner(tmp_path, "")
        for user in passwords:
            made = tool(
                "context",
                "set",
                user,
                f"bootstrap.servers={cluster.bootstrap_servers}",
                "security.protocol=SASL_PLAINTEXT",
                "sasl.mechanism=SCRAM-SHA-256",
                f"sasl.username={user}",
                "sasl.password=env:HUSH",
            )
            assert made.returncode == 0, made.stderr
        admin = {"COTERIE_CONTEXT": "admin", "HUSH": "admin-hush"}
        alice = {"COTERIE_CONTEXT": "alice", "HUSH": "alice-hush"}
        for resource, name in (("cluster", "kafka-cluster"), ("group", "*"), ("topic", "orders")):
            what = ("--resource", resource, "--name", name, "--operation", "Describe")
            added = tool("acls", "add", *what, "--principal", "User:alice", env=admin)
            assert added.returncode == 0, added.stderr
        assert tool("groups", "list", "-o", "name", env=alice).stdout == "old\n"
        idle = ("groups", "list", "--idle-for", "30d", "-o", "name")
        assert tool(*idle, env=admin).stdout == "old\n"
        refused = tool(*idle, env=alice)
        assert refused.returncode == 1
        assert "times of commits are in __consumer_offsets, and you may not read" in refused.stderr
        delete = tool("groups", "delete", "old", "--execute", env=alice)
        assert delete.returncode == 1
        assert "GROUP_AUTHORIZATION_FAILED" in delete.stdout
        wrong = tool("groups", "list", env=alice | {"HUSH": "wrong-hush"})
        assert wrong.returncode == 1
        assert "hush" not in wrong.stderr + wrong.stdout
