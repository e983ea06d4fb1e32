"""The fuzz target for twenty seconds, and proof that it would notice something."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from coterie.protocol.catalog import all_messages
from coterie.protocol.codec import encode
from coterie.protocol.messages.groups import ListGroupsRequest
from coterie.protocol.messages.quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    OpData,
)
from fuzz import run, targets
from fuzz.seeds import write_seeds

ROOT = Path(__file__).parent.parent.parent
SECONDS = 20


def test_twenty_seconds_of_fuzzing_find_nothing(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "fuzz.run",
        "--seconds",
        str(SECONDS),
        "--corpus",
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
    if done.returncode == 2 and sys.platform != "linux":
        pytest.skip(last)  # atheris is built for Linux alone; there, without it, this test fails
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.fullmatch(
        r"fuzz: nothing found; (\d+) executions, (\d+) edges of code, (\d+) seeds, \d+ seconds",
        last,
    )
    assert found, last
    executions, edges, seeds = map(int, found.groups())
    assert executions > seeds > len(targets.TARGETS)
    assert edges >= run.LEAST_EDGES


def test_every_target_has_a_seed_that_it_takes(tmp_path: Path) -> None:
    write_seeds(tmp_path)
    names = list(targets.TARGETS)
    reached = set()
    for path in tmp_path.iterdir():
        data = path.read_bytes()
        reached.add(names[int.from_bytes(data[:2], "big")])
        targets.run(data)
    pairs = sum(len(cls.__versions__.each()) for cls in all_messages().values())
    assert len(names) == pairs + 9
    assert reached == set(names)


def test_any_first_bytes_choose_a_target() -> None:
    for data in (b"", b"\0", b"\xff\xff", bytes(40), b"\xff" * 40):
        targets.run(data)


def test_a_quota_that_is_not_a_number_is_no_disagreement() -> None:
    request = AlterClientQuotasRequest((AlterClientQuotasEntry((), (OpData("rate", math.nan),)),))
    target = targets.message_target(AlterClientQuotasRequest, 1)
    targets.run(targets.seed(target, encode(request, 1)))


@pytest.mark.parametrize("found", [None, (ListGroupsRequest(("Dead",)), 8)])
def test_compiled_code_that_decodes_something_else_is_a_disagreement(
    found: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = SimpleNamespace(decode=lambda *_: found)
    monkeypatch.setattr(targets, "_program", lambda *_: program)
    with pytest.raises(targets.Disagreement):
        targets.run(
            targets.seed(
                targets.message_target(ListGroupsRequest, 4),
                encode(ListGroupsRequest(("Empty",)), 4),
            )
        )


def test_an_exception_of_another_kind_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("not a ProtocolError")

    monkeypatch.setattr(targets, "decode_prefix", broken)
    with pytest.raises(ValueError, match="not a ProtocolError"):
        targets.run(bytes(40))


def test_a_message_that_changes_on_its_way_is_a_disagreement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(targets, "encode_in_python", lambda *_: bytes(50))
    data = targets.seed("HeartbeatResponse v0", b"\0\x1b")
    with pytest.raises(targets.Disagreement):
        targets.run(data)


CRASH = """\
#9 NEW cov: 9000 ft: 1
 === Uncaught Python exception: ===
KeyError: 7
artifact_prefix='x/'; Test unit written to x/crash-1
"""


@pytest.mark.parametrize(
    ("output", "code", "says"),
    [
        ("#9 DONE cov: 9000\nDone 90000 runs in 2 second(s)\n", 0, "nothing found; 90000 exec"),
        ("#9 DONE cov: 9\nDone 90000 runs in 2 second(s)\n", 0, "FAILED, too little"),
        ("#9 DONE cov: 9000\nDone 9 runs in 2 second(s)\n", 0, "FAILED, too little"),
        ("#9 pulse cov: 9000\n", -1, "FAILED, the engine ended with -1; 9 exec"),
        ("", 0, "FAILED, too little"),
        (CRASH, 77, "FAILED, the input is x/crash-1"),
    ],
    ids=["good", "no-coverage", "few-executions", "cut-off", "silent", "crash"],
)
def test_the_verdict(
    output: str, code: int, says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said: list[str] = []
    monkeypatch.setattr(run, "print", said.append, raising=False)
    monkeypatch.setattr(run, "_search", lambda *_: (code, output))
    monkeypatch.setattr(run, "write_seeds", lambda _: 100)
    monkeypatch.setitem(sys.modules, "atheris", run)  # anything that can be imported
    assert run.main(["--seconds", "2", "--corpus", str(tmp_path)]) == ("FAILED" in says)
    assert says in said[-1]
    if output == CRASH:
        assert "KeyError: 7" in said[0]


def test_without_atheris_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "atheris", None)
    assert run.main(["--seconds", "1", "--corpus", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("fuzz: atheris cannot be imported here")
