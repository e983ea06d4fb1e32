"""A command line stands on the client: its start does not pay for what is seldom used."""

from __future__ import annotations

import subprocess
import sys

#: Messages of APIs that a list does not send, and libraries that only some calls need.
LATE = {
    "coterie.client.describer",
    "coterie.client.fetching",
    "coterie.client.committed_offsets",
    "coterie.protocol.messages.consumer_groups",
    "coterie.protocol.messages.data",
    "coterie.protocol.messages.membership",
    "coterie.protocol.messages.offsets",
    "coterie.protocol.messages.share_groups",
    "coterie.protocol.messages.streams_groups",
    "coterie.protocol.messages.topics",
    "coterie.protocol.records",
    "cramjam",
    "crc32c",
    "difflib",
    "numpy",
    "opentelemetry",
    "pathlib",
    "pyarrow",
}


def test_the_client_starts_without_what_is_seldom_used() -> None:
    program = "import coterie.client, sys; print(*sys.modules)"
    # Isolated, and without what this place adds to every start of Python.
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path = {sys.path!r}; {program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not LATE & set(done.stdout.split())
