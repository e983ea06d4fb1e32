"""`coterie wire` as a person uses it: real processes, real output."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.protocol.frames import encode_request, encode_response
from coterie.protocol.group_records import encode_key, encode_value
from coterie.protocol.group_records.classic import OffsetCommitKey, OffsetCommitValue
from coterie.protocol.messages.groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from tests.kit.golden import DATA


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "coterie"), "wire", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)


REQUEST = encode_request(
    ListGroupsRequest(states_filter=("Stable",)), 4, correlation_id=9, client_id="me"
)


@pytest.mark.parametrize("data", [REQUEST, REQUEST[4:]], ids=["with size", "without"])
def test_decode_prints_a_request(data: bytes) -> None:
    done = run("decode", data.hex())
    assert done.returncode == 0
    assert json.loads(done.stdout) == {
        "request": "ListGroups",
        "version": 4,
        "correlationId": 9,
        "clientId": "me",
        "body": {"statesFilter": ["Stable"]},
    }


def test_decode_reads_standard_input_and_tells_what_is_left_over() -> None:
    done = run("decode", stdin=f"0x{REQUEST[4:].hex()}beef\n")
    assert json.loads(done.stdout)["leftOver"] == "beef"


def test_decode_prints_a_response_and_a_body() -> None:
    response = ListGroupsResponse(groups=(ListedGroup("g"),))
    data = encode_response(response, 5, correlation_id=3)
    done = run("decode", data.hex(), "--response", "listgroups", "--version", "5")
    assert json.loads(done.stdout)["body"]["groups"][0]["groupId"] == "g"
    body = data[4 + 5 :].hex()
    done = run("decode", body, "--message", "ListGroupsResponse", "--version", "5")
    assert json.loads(done.stdout)["body"]["groups"][0]["groupId"] == "g"


def test_decode_reads_the_version_of_records_from_their_bytes() -> None:
    key = encode_key(OffsetCommitKey(group="g", topic="t", partition=1))
    done = run("decode", key.hex(), "--message", "OffsetCommitKey")
    assert json.loads(done.stdout)["body"] == {"group": "g", "topic": "t", "partition": 1}
    value = encode_value(OffsetCommitValue(offset=5), 3)
    done = run("decode", value.hex(), "--message", "OffsetCommitValue")
    assert json.loads(done.stdout)["version"] == 3


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["decode", "xyz"], 1, "Error: this is not hexadecimal"),
        (["decode", "0010"], 1, "Error: RequestHeader"),
        (["decode", "270f000000000000ffff"], 1, "API key 9999 is not known"),
        (["decode", "00", "--message", "Nonsense", "--version", "0"], 1, "no message 'Nonsense'"),
        (["decode", "00", "--response", "Nonsense", "--version", "0"], 1, "no API 'Nonsense'"),
        (["decode", "00", "--response", "ListGroups"], 2, "add --version"),
        (["decode", "00", "--message", "ListGroupsRequest"], 2, "add --version"),
        (["decode", "00", "--message", "OffsetCommitKey"], 1, "too few bytes for a version"),
        (["decode", "00", "--message", "a", "--response", "b"], 2, "exclude each other"),
        (["check"], 2, "Missing argument"),
        (["check", "no-such-file"], 2, "no-such-file cannot be read"),
    ],
)
def test_mistakes_get_one_clear_line_and_an_exit_code(
    arguments: list[str], code: int, says: str
) -> None:
    done = run(*arguments)
    assert done.returncode == code
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_check_counts_and_ends_with_an_exit_code(tmp_path: Path) -> None:
    good = DATA / "vectors" / "ListGroups.jsonl.gz"
    done = run("check", str(good))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(" passed, 0 failed\n")
    bad = tmp_path / "bad.jsonl"
    vector = {"api": "ListGroups", "kind": "request", "version": 0, "hex": "00", "json": {}}
    lines = [vector, {**vector, "json": {"a": 1}, "hex": ""}, {**vector, "api": "Nonsense"}]
    lines += [{**vector, "version": 5, "hex": "0101"}, {**vector, "hex": ""}]
    bad.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    done = run("check", str(bad))
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "1 passed, 4 failed"
    assert "1 bytes are left over" in done.stdout


@pytest.mark.parametrize("text", ["[]\n", "{}\n", "nothing\n", "\n"])
def test_check_refuses_what_is_no_file_of_vectors(tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text(text)
    done = run("check", str(path))
    assert done.returncode == 2
    assert "vector" in done.stderr
    assert "Traceback" not in done.stderr
