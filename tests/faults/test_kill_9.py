"""kill -9 of `coterie server`: what was acknowledged is there, what was deleted stays so (F55, I1-I3)."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.groups import DeleteGroupsRequest, DeleteGroupsResponse
from coterie.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from tests.compat import setting
from tests.kit.campaign import KILLS
from tests.kit.invariants import CommitLedger
from tests.kit.reloaded import check_killed
from tests.kit.wire_client import WireClient


class Server:
    """A server process over one directory; each start is a new process."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> WireClient:
        command = [str(Path(sys.executable).parent / "coterie"), "server", "--port", "0"]
        command += ["--data-dir", str(self._directory)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        host, port = line.split()[3].split(":")
        return WireClient(host, int(port))

    def kill(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def terminate(self) -> int:
        assert self._process is not None
        self._process.terminate()
        self._process.communicate(timeout=5)  # what the server promises
        return self._process.returncode


def commit(client: WireClient, group: str, offset: int) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="orders", partitions=(partition,))
    answer = client.ask(
        OffsetCommitRequest(group_id=group, topics=(topic,)), OffsetCommitResponse, 9
    )
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


def committed(client: WireClient, groups: list[str]) -> dict[str, int]:
    request = OffsetFetchRequest(
        groups=tuple(OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups)
    )
    answer = client.ask(request, OffsetFetchResponse, 9)
    assert all(group.error_code == ErrorCode.NONE for group in answer.groups)
    return {
        group.group_id: group.topics[0].partitions[0].committed_offset
        for group in answer.groups
        if group.topics
    }


def wait_until_loaded(client: WireClient, group: str) -> None:
    def attempt() -> int:
        request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=None),))
        return client.ask(request, OffsetFetchResponse, 9).groups[0].error_code

    setting.until_ok(attempt)


def test_acknowledged_commits_survive_kill_9_again_and_again(tmp_path: Path) -> None:
    chance = random.Random(7)
    server = Server(tmp_path)
    truth: dict[str, int] = {}
    ledger = CommitLedger()
    names = [f"group-{i}" for i in range(20)]
    for life in range(KILLS):
        with server.start() as client:
            setting.create_topic(client)
            setting.find_coordinators(client, *names)
            for name in names:
                wait_until_loaded(client, name)
            assert committed(client, names) == truth, f"life {life}"
            for step in range(200):
                group = chance.choice(names)
                if chance.random() < 0.1:
                    request = DeleteGroupsRequest(groups_names=(group,))
                    (result,) = client.ask(request, DeleteGroupsResponse).results
                    expected = ErrorCode.NONE if group in truth else ErrorCode.GROUP_ID_NOT_FOUND
                    assert result.error_code == expected
                    truth.pop(group, None)
                    ledger.deleted((group, "orders", 0))
                else:
                    truth[group] = 1000 * life + step
                    commit(client, group, truth[group])
                    ledger.committed((group, "orders", 0), truth[group])
            server.kill()
        check_killed(tmp_path, ledger)


def test_sigterm_ends_with_0(tmp_path: Path) -> None:
    server = Server(tmp_path)
    with server.start() as client:
        setting.create_topic(client)
        setting.find_coordinators(client, "g")
        commit(client, "g", 1)
        assert server.terminate() == 0
