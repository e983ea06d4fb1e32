"""kill -9 after administration of every durable kind: what was acknowledged is there (F55)."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coterie.protocol.messages.cluster import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from coterie.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from coterie.protocol.messages.controller import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from coterie.protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from coterie.protocol.messages.quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    OpData,
)
from coterie.protocol.messages.replicas import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from coterie.protocol.messages.session import ApiVersionsRequest, ApiVersionsResponse
from coterie.protocol.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from coterie.security.plain import PlainClient
from coterie.security.scram import ScramClient, ScramMechanism
from coterie.security.secrets import Secret
from tests.kit.wire_client import WireClient

TOPIC, BROKER, GROUP = 2, 4, 32

#: Resource, setting, its last value and its source.
CHANGES = (
    (BROKER, "", "log.retention.ms", "70000", 3),
    (BROKER, "1", "log.cleaner.backoff.ms", "9000", 2),
    (GROUP, "orders", "consumer.session.timeout.ms", "50000", 8),
)


@contextmanager
def server(directory: Path, *options: str) -> Iterator[WireClient]:
    """`coterie server` over a directory, killed with SIGKILL at the end."""
    command = [str(Path(sys.executable).parent / "coterie"), "server", "--port", "0"]
    command += ["--data-dir", str(directory), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[3].split(",")[0]
            host, port = address.split(":")
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


def test_quotas_survive_kill_9(tmp_path: Path) -> None:
    entities = [(EntityData("user", "alice"),), (EntityData("client-id", None),)]
    gone = OpData("consumer_byte_rate", 0.0, remove=True)
    with server(tmp_path) as client:
        for rate in (5.0, 7.5e6):
            for op in (OpData("producer_byte_rate", rate), OpData("consumer_byte_rate", 9.0), gone):
                entries = tuple(AlterClientQuotasEntry(each, (op,)) for each in entities)
                answer = client.ask(AlterClientQuotasRequest(entries), AlterClientQuotasResponse)
                assert not any(each.error_code for each in answer.entries)
    with server(tmp_path) as client:
        found = client.ask(DescribeClientQuotasRequest(), DescribeClientQuotasResponse).entries
        assert {
            (each.entity, tuple((v.key, v.value) for v in each.values)) for each in found or ()
        } == {(entity, (("producer_byte_rate", 7.5e6),)) for entity in entities}


def test_features_survive_kill_9(tmp_path: Path) -> None:
    asked = ApiVersionsRequest("test", "1")
    with server(tmp_path) as client:
        for level, kind in ((1, 2), (2, 1), (1, 2)):
            change = FeatureUpdateKey("transaction.version", level, upgrade_type=kind)
            request = UpdateFeaturesRequest(feature_updates=(change,))
            assert not client.ask(request, UpdateFeaturesResponse).error_code
        before = client.ask(asked, ApiVersionsResponse)
    with server(tmp_path) as client:
        after = client.ask(asked, ApiVersionsResponse)
    assert after == before
    levels = {each.name: each.max_version_level for each in after.finalized_features}
    assert levels["transaction.version"] == 1


def test_reassignments_survive_kill_9(tmp_path: Path) -> None:
    places = (2, 3), (3, 1), (1, 3)
    with server(tmp_path, "--brokers", "3") as client:
        topic = CreatableTopic("orders", 1, 2)
        assert (
            not client.ask(CreateTopicsRequest((topic,)), CreateTopicsResponse).topics[0].error_code
        )
        for replicas in places:
            wanted = ReassignableTopic("orders", (ReassignablePartition(0, replicas),))
            request = AlterPartitionReassignmentsRequest(topics=(wanted,))
            answer = client.ask(request, AlterPartitionReassignmentsResponse)
            assert answer.error_code == answer.responses[0].partitions[0].error_code == 0
    with server(tmp_path, "--brokers", "3") as client:
        asked = MetadataRequest((MetadataRequestTopic(name="orders"),))
        (found,) = client.ask(asked, MetadataResponse).topics[0].partitions
        assert (found.replica_nodes, set(found.isr_nodes)) == (places[-1], set(places[-1]))


def test_tokens_survive_kill_9(tmp_path: Path) -> None:
    """New, renewed and removed tokens; a token that survived opens the door."""
    users = tmp_path / "users"
    users.write_text("alice:alice-hush\n")
    users.chmod(0o600)
    config = tmp_path / "server.properties"
    config.write_text("delegation.token.secret.key=secret-key-hush\n")
    options = ("--users-file", str(users), "--sasl", "PLAIN,SCRAM-SHA-256", "--config", str(config))
    alice = PlainClient("alice", Secret("alice-hush"))
    with server(tmp_path / "data", *options) as client:
        assert not client.authenticate(alice).error_code
        tokens = [
            client.ask(CreateDelegationTokenRequest(), CreateDelegationTokenResponse)
            for _ in range(3)
        ]
        renewal = RenewDelegationTokenRequest(tokens[1].hmac, 3_600_000)
        renewed = client.ask(renewal, RenewDelegationTokenResponse)
        removal = ExpireDelegationTokenRequest(tokens[2].hmac, -1)
        removed = client.ask(removal, ExpireDelegationTokenResponse)
        assert {each.error_code for each in tokens} == {0}
        assert renewed.error_code == removed.error_code == 0
    with server(tmp_path / "data", *options) as client:
        password = Secret(base64.b64encode(tokens[0].hmac).decode())
        by_token = ScramClient(ScramMechanism.SHA_256, tokens[0].token_id, password, tokenauth=True)
        assert not client.authenticate(by_token).error_code
    with server(tmp_path / "data", *options) as client:
        assert not client.authenticate(PlainClient("alice", Secret("alice-hush"))).error_code
        request = DescribeDelegationTokenRequest(None)
        found = client.ask(request, DescribeDelegationTokenResponse).tokens
        expiries = (tokens[0].expiry_timestamp_ms, renewed.expiry_timestamp_ms)
        assert found == tuple(
            DescribedDelegationToken(
                "User", "alice", "User", "alice", token.issue_timestamp_ms, expiry,
                token.max_timestamp_ms, token.token_id, token.hmac,
            )
            for token, expiry in zip(tokens, expiries, strict=False)
        )  # fmt: skip
