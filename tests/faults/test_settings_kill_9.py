"""kill -9 after settings were changed: all that was answered is there after a restart."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coterie.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.kit.wire_client import WireClient

TOPIC, BROKER, GROUP = 2, 4, 32

#: Resource, setting, its last value and its source.
CHANGES = (
    (BROKER, "", "log.retention.ms", "70000", 3),
    (BROKER, "1", "log.cleaner.backoff.ms", "9000", 2),
    (GROUP, "orders", "consumer.session.timeout.ms", "50000", 8),
)


@contextmanager
def server(directory: Path) -> Iterator[WireClient]:
    """`coterie server` over a directory, killed with SIGKILL at the end."""
    command = [str(Path(sys.executable).parent / "coterie"), "server", "--port", "0"]
    command += ["--data-dir", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            host, port = process.stdout.readline().split()[3].split(":")
            with WireClient(host, int(port)) as client:
                yield client
        finally:
            process.kill()


def test_settings_survive_kill_9(tmp_path: Path) -> None:
    with server(tmp_path) as client:
        for kind, name, setting, value, _ in CHANGES:
            for number in ("48000", value):
                config = (AlterableConfig(setting, 0, number),)
                request = IncrementalAlterConfigsRequest(
                    (AlterConfigsResource(kind, name, config),)
                )
                answer = client.ask(request, IncrementalAlterConfigsResponse)
                assert answer.responses[0].error_code == 0
    with server(tmp_path) as client:
        for kind, name, setting, value, source in CHANGES:
            asked = DescribeConfigsRequest((DescribeConfigsResource(kind, name, (setting,)),))
            (found,) = client.ask(asked, DescribeConfigsResponse).results[0].configs
            assert (found.value, found.config_source) == (value, source)
