"""Every command of `coterie`: which cluster it takes, from each place that can name one; formats; timeouts.

The commands are read from click, so that a new one has to be here: with its arguments, or with the reason why
it connects to no cluster.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import click
import pytest

from coterie.cli.main import cli
from coterie.client.settings import ClientSettings
from coterie.console.output import FORMATS
from tests.unit.cli.conftest import Tool, runner

#: Commands that connect to a cluster, with arguments that let them.
CONNECTED: Final = {
    "acls add": "--resource topic --name t --principal User:a --operation Read",
    "acls list": "",
    "acls remove": "--principal User:a",
    "cluster": "",
    "groups clone": "a b",
    "groups delete": "a",
    "groups delete-offsets": "a --topic t",
    "groups describe": "",
    "groups export": "",
    "groups import": "offsets.csv --into a",
    "groups lag": "",
    "groups list": "",
    "groups members": "",
    "groups offsets": "",
    "groups reset": "a --to latest",
    "groups watch": "--count 1",
    "pipeline ingest": "--out tables",
    "pipeline run": "--out tables",
    "pipeline snapshot": "--out tables",
    "topics describe": "",
    "topics groups": "t",
    "topics list": "",
}
#: The others, and why.
NOT_CONNECTED: Final = {
    "completion": "prints a script",
    "context delete": "changes the configuration file",
    "context list": "reads the configuration file",
    "context secret": "changes the configuration file",
    "context set": "changes the configuration file",
    "context show": "reads the configuration file",
    "context use": "changes the configuration file",
    "demo": "starts a cluster of its own",
    "pipeline build": "reads the tables",
    "pipeline compact": "reads the tables",
    "pipeline plan": "reads the tables",
    "pipeline report": "reads the tables",
    "pipeline sql": "reads the tables",
    "server": "starts a cluster of its own",
    "simulate": "writes segment files",
    "wire check": "reads files",
    "wire decode": "reads its argument",
}
#: Commands that print no rows: a script, a file, a message, or what has been done.
NO_ROWS: Final = {
    *("completion", "demo", "server", "simulate", "wire check", "wire decode", "groups export"),
    *("context delete", "context secret", "context set", "context use"),
    *("pipeline build", "pipeline compact", "pipeline ingest", "pipeline plan", "pipeline report"),
    *("pipeline run", "pipeline snapshot"),
}
#: Commands whose columns are known only when they have run.
OWN_COLUMNS: Final = {"pipeline sql": "'SELECT 1' --out tables"}

TARGET: Final = {"--bootstrap-server", "--context", "--command-config", "-X", "--timeout"}
OUTPUT: Final = {"--output", "--no-headers"}


def commands(
    group: click.Group = cli, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS: Final = dict(commands())


def options(command: click.Command) -> set[str]:
    return {name for each in command.params for name in (*each.opts, *each.secondary_opts)}


def test_every_command_is_here() -> None:
    assert sorted(COMMANDS) == sorted([*CONNECTED, *NOT_CONNECTED])
    assert set(COMMANDS) >= NO_ROWS


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_takes_the_options_of_a_cluster_if_it_connects(name: str) -> None:
    assert options(COMMANDS[name]) & TARGET == (TARGET if name in CONNECTED else set())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_takes_the_options_of_output_if_it_prints_rows(name: str) -> None:
    assert options(COMMANDS[name]) & OUTPUT == (set() if name in NO_ROWS else OUTPUT)


def test_an_option_means_the_same_everywhere() -> None:
    """One name, one kind of value: no command has a file where the others have a duration."""
    kinds: dict[str, set[str]] = {}
    for command in COMMANDS.values():
        for each in command.params:
            for option in {*each.opts} & (TARGET | OUTPUT):
                kinds.setdefault(option, set()).add(each.type.name)
    assert set(kinds) == TARGET | OUTPUT
    assert not {option: found for option, found in kinds.items() if len(found) > 1}


class Connecting(Exception):
    """A client was made."""


@pytest.fixture
def connecting(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, object]]:
    """The settings of every client, which does not get further."""
    seen: list[Mapping[str, object]] = []

    def of(properties: Mapping[str, object]) -> ClientSettings:
        seen.append(properties)
        raise Connecting

    monkeypatch.setattr(ClientSettings, "of", of)
    return seen


@pytest.fixture
def alone(tmp_path: Path) -> Tool:
    """Runs a command where files and contexts name three clusters; none is the current one."""
    (tmp_path / "offsets.csv").write_text("t,0,5\n")
    (tmp_path / "client.properties").write_text(
        "bootstrap.servers=file:1\nkey.serializer=of.a.Producer\n"
    )
    path = tmp_path / "config" / "coterie" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text('[contexts.prod]\nbootstrap.servers = "context:1"\nclient.id = "ops"\n')
    return runner(tmp_path, "")


#: Where a cluster can be named: options before the command, options after it, variables; and its address.
PLACES: Final[dict[str, tuple[str, str, dict[str, str], str]]] = {
    "-b before": ("-b option:1", "", {}, "option:1"),
    "-b after": ("", "--bootstrap-server option:1", {}, "option:1"),
    "-X before": ("-X bootstrap.servers=override:1", "", {}, "override:1"),
    "-X after": ("", "-X metadata.broker.list=override:1", {}, "override:1"),
    "file before": ("--command-config client.properties", "", {}, "file:1"),
    "file after": ("", "--command-config client.properties", {}, "file:1"),
    "context before": ("--context prod", "", {}, "context:1"),
    "context after": ("", "--context prod", {}, "context:1"),
    "variable": ("", "", {"COTERIE_BOOTSTRAP_SERVERS": "environment:1"}, "environment:1"),
    "variable, file": ("", "", {"COTERIE_COMMAND_CONFIG": "client.properties"}, "file:1"),
    "variable, context": ("", "", {"COTERIE_CONTEXT": "prod"}, "context:1"),
    "after wins": ("-b other:1", "-b option:1", {}, "option:1"),
    "-X wins": ("-X bootstrap.servers=override:1", "-b option:1", {}, "override:1"),
    "option wins": (
        "--command-config client.properties",
        "-b option:1",
        {"COTERIE_BOOTSTRAP_SERVERS": "environment:1"},
        "option:1",
    ),
    "file wins": (
        "",
        "--command-config client.properties",
        {"COTERIE_METADATA_BROKER_LIST": "environment:1"},
        "file:1",
    ),
}


def words(name: str, before: str, after: str) -> list[str]:
    """`coterie BEFORE groups list ARGUMENTS AFTER`."""
    return [*shlex.split(before), *name.split(), *shlex.split(CONNECTED[name]), *shlex.split(after)]


@pytest.mark.parametrize("name", CONNECTED)
def test_a_cluster_can_be_named_everywhere(
    name: str, alone: Tool, connecting: list[Mapping[str, object]]
) -> None:
    for place, (before, after, env, address) in PLACES.items():
        connecting.clear()
        done = alone(*words(name, before, after), env=env)
        assert "Error: Connecting: " in done.stderr, (place, done.stderr)
        assert connecting[0]["bootstrap.servers"] == address, place
        assert "key.serializer" not in connecting[0], place
        assert (connecting[0].get("client.id") == "ops") == ("context" in address), place


@pytest.mark.parametrize("name", CONNECTED)
def test_settings_and_a_timeout_can_be_given_everywhere(
    name: str, alone: Tool, connecting: list[Mapping[str, object]]
) -> None:
    env = {"COTERIE_BOOTSTRAP_SERVERS": "x:1", "COTERIE_SASL_USERNAME": "alice"}
    for before, after in (
        ("--timeout 1m30s -X client.id=me", ""),
        ("", "--timeout 90s -X client.id=me"),
    ):
        connecting.clear()
        alone(*words(name, before, after), env=env)
        found = {key: str(value) for key, value in connecting[0].items()}
        assert found == {
            "bootstrap.servers": "x:1",
            "client.id": "me",
            "default.api.timeout.ms": "90000",
            "sasl.username": "alice",
        }


@pytest.mark.parametrize("name", CONNECTED)
def test_without_a_cluster_a_command_says_how_to_name_one(name: str, alone: Tool) -> None:
    done = alone(*words(name, "", ""))
    assert done.returncode == 2
    assert "no cluster is named: give --bootstrap-server HOST:PORT" in done.stderr
    assert "COTERIE_BOOTSTRAP_SERVERS" in done.stderr
    takes_segments = name in ("pipeline ingest", "pipeline run")
    assert ("--segments DIR" in done.stderr) == takes_segments


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - NO_ROWS))
def test_rows_have_all_formats(name: str, alone: Tool) -> None:
    arguments = OWN_COLUMNS.get(name) or CONNECTED.get(name, "")
    done = alone(*name.split(), *shlex.split(arguments), "-o", "xml")
    assert done.returncode == 2
    assert f"'xml' is not one of {', '.join(FORMATS)}" in done.stderr
    done = alone(*name.split(), "--format", "help")
    assert done.returncode == 0, done.stderr
    assert f"Formats: {', '.join(FORMATS)}." in done.stdout


@pytest.mark.parametrize("step", ["ingest", "run"])
@pytest.mark.parametrize(
    "option",
    ["-b x:1", "--context prod", "--command-config client.properties", "-X a=b", "--timeout 5s"],
)
def test_segments_need_no_cluster(step: str, option: str, alone: Tool) -> None:
    given = ("pipeline", step, "--segments", "disk", "--out", "tables")
    for arguments in ((*given, *option.split()), (*option.split(), *given)):
        done = alone(*arguments)
        assert done.returncode == 2
        name = option.split(maxsplit=1)[0].replace("-b", "--bootstrap-server")
        assert f"{name} is for a cluster, and --segments needs none: leave one of them out" in (
            done.stderr
        )
