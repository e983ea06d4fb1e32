"""Masters and memory that cannot work are told before Spark starts."""

from __future__ import annotations

import socket

import pytest
from click.testing import CliRunner

from coterie.cli.pipeline import command
from coterie.errors import CoterieError, InvalidArgument
from coterie.spark.quickstart import master
from coterie.spark.quickstart.master import check_master, check_memory, must_answer
from tests.kit.ports import free_port


@pytest.mark.parametrize(
    "text",
    [
        "local",
        "local[*]",
        "local[2]",
        "local[2, 4]",
        "local-cluster[2,1,1024]",
        "spark://one:7077",
        "spark://one:7077,two:7077",
        "spark://[::1]:7077",
        "yarn",
        "k8s://https://one:6443",
    ],
)
def test_masters_of_spark(text: str) -> None:
    assert check_master(text) == text


@pytest.mark.parametrize(
    "text", ["", "nonsense", "local[x]", "local[0]", "local[2", "spark://one", "one:7077", "mesos"]
)
def test_what_is_no_master(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is not a Spark master; use local"):
        check_master(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("spark://.x:7077", "'.x' is not a host name"),
        (
            f"spark://one:7077,{'x' * 70}:7077",
            "x' is not a host name: each part between dots has 1 to 63",
        ),
        ("spark://one:70777", "'one:70777' has no valid port: ports are 1 to 65535"),
        ("spark://one:0", "'one:0' has no valid port"),
        (f"spark://one:{'9' * 5000}", "is not a Spark master"),
    ],
)
def test_masters_that_nobody_can_ask_for(text: str, said: str) -> None:
    for look in (check_master, must_answer):
        with pytest.raises(InvalidArgument, match=said):
            look(text)


@pytest.mark.parametrize("text", ["4g", "512M", "900000k", "1T"])
def test_sizes(text: str) -> None:
    assert check_memory(text) == text


@pytest.mark.parametrize("text", ["", "4", "4gb", "0g", "-1g", "lots", "1.5g"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(
        InvalidArgument, match="is not a memory size; write a number and k, m, g or t"
    ):
        check_memory(text)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--master", "nonsense"), "'nonsense' is not a Spark master"),
        (("--driver-memory", "4gb"), "'4gb' is not a memory size"),
    ],
)
def test_the_command_says_so(option: tuple[str, str], said: str) -> None:
    done = CliRunner().invoke(command, ["build", "--out", "x", *option])
    assert done.exit_code == 2
    assert said in done.output


def test_one_master_of_several_that_answers_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        must_answer(f"spark://127.0.0.1:{free_port()},127.0.0.1:{port}")
    must_answer("local[2]")
    must_answer("yarn")


def test_no_master_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(master, "_PATIENCE_S", 0.0)
    port = free_port()
    with pytest.raises(CoterieError, match=f"127.0.0.1:{port}: Connection refused"):
        must_answer(f"spark://127.0.0.1:{port}")
