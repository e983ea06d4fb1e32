"""kill -9 in the middle of changes to users and ACLs: what was answered is there, and no more than that."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from coterie.client import AdminClient
from coterie.client.blocking import BlockingAdminClient
from coterie.errors import CoterieError
from coterie.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType


class Server:
    """`coterie server` with users and an authorizer, over one directory; each start is a new process."""

    def __init__(self, directory: Path) -> None:
        users = directory / "users"
        users.write_text("admin:admin-hush\n")
        users.chmod(0o600)
        self._command = [
            str(Path(sys.executable).parent / "coterie"), "server", "--port", "0", "--data-dir",
            str(directory / "data"), "--users-file", str(users), "--sasl", "SCRAM-SHA-512",
            "--super-user", "admin",
        ]  # fmt: skip

    @contextmanager
    def run(self) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                self._address = process.stdout.readline().split()[3]
                yield process
            finally:
                process.kill()

    def settings(self, user: str, password: str) -> dict[str, object]:
        return {
            "bootstrap.servers": self._address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
        }


def acls() -> Iterator[AclBinding]:
    for number in count():
        yield AclBinding(
            ResourceType.GROUP,
            f"group-{number}",
            PatternType.LITERAL,
            "User:new",
            "*",
            Operation.READ,
            Permission.ALLOW,
        )


def add_until_killed(
    server: Server, wanted: Iterator[AclBinding], word: str, many: int
) -> list[AclBinding]:
    """One after another; the server is killed while they come. Those that were answered."""
    answered: list[AclBinding] = []
    enough = threading.Event()
    with server.run() as process:

        def kill() -> None:
            enough.wait(60)
            process.kill()

        def add(admin: BlockingAdminClient) -> None:
            for acl in wanted:
                # The last one waits for a server that is gone.
                admin.create_acls([acl], timeout=30 if len(answered) < many else 1).unwrap()
                answered.append(acl)
                if len(answered) == many:
                    enough.set()

        killer = threading.Thread(target=kill)
        killer.start()
        with AdminClient.connect(server.settings("admin", "admin-hush")) as admin:
            admin.alter_users({"new": word}).unwrap()
            with pytest.raises(CoterieError):
                add(admin)
        killer.join()
    return answered


def test_users_and_acls_survive_kill_9(tmp_path: Path) -> None:
    server, wanted = Server(tmp_path), acls()
    answered: set[AclBinding] = set()
    for kills, many in enumerate((3, 20), 1):
        word = f"{many}-hush"
        answered.update(add_until_killed(server, wanted, word, many))
        with server.run():
            with AdminClient.connect(server.settings("new", word)) as admin:
                assert len(admin.list_groups()) == 0
            with AdminClient.connect(server.settings("admin", "admin-hush")) as admin:
                kept = set(admin.describe_acls())
        assert kept >= answered
        assert len(kept) <= len(answered) + kills  # the one that was on its way
