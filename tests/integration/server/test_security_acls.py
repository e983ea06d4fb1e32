"""ACLs at the door of every API, on the embedded cluster: principal x API x resource, and what is kept."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.error_codes import ErrorCode
from coterie.protocol.api import ApiKey
from coterie.protocol.messages.acls import (
    AclCreation,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    ScramCredentialUpsertion,
)
from coterie.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from coterie.protocol.messages.groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from coterie.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from coterie.security.plain import PlainClient
from coterie.security.secrets import Secret
from coterie.server.dispatch import HANDLERS
from coterie.server.security.access import ACCESS
from coterie.testing import EmbeddedCluster
from tests.kit.acl_calls import CALLS, Call
from tests.kit.acl_matrix import (
    GROUP,
    REFUSALS,
    USERS,
    Answers,
    acls_of,
    codes,
    make_world,
    password,
)
from tests.kit.reference_authorizer import reference
from tests.kit.wire_client import WireClient

HOST = "127.0.0.1"


def login(cluster: EmbeddedCluster, user: str) -> WireClient:
    host, port = cluster.bootstrap_servers.split(":")
    client = WireClient(host, int(port))
    assert not client.authenticate(PlainClient(user, Secret(password(user)))).error_code
    return client


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    users = {user: password(user) for user in USERS}
    with EmbeddedCluster(users=users, super_users=["User:admin"]) as running:
        with login(running, "admin") as client:
            make_world(client)
        yield running


@pytest.fixture(scope="module")
def answers(cluster: EmbeddedCluster) -> Answers:
    return Answers.of(lambda user: login(cluster, user), CALLS)


def test_f40_every_served_api_has_a_declared_access_and_a_call_here() -> None:
    assert set(HANDLERS) <= set(ACCESS)
    tried = {type(call.request).__key__ for call in CALLS}
    assert set(HANDLERS) - tried == {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}


@pytest.mark.parametrize(
    "call", [call for call in CALLS if call.needs is not None], ids=lambda call: call.name
)
def test_f40_refused_exactly_where_the_reference_says(answers: Answers, call: Call) -> None:
    for user in USERS:
        assert call.needs is not None
        allowed = any(
            all(
                reference(acls_of(user), (f"User:{user}", HOST), *need, open_=False)
                for need in needs
            )
            for needs in call.needs
        )
        refused = bool(codes(answers.by_call[call.name][user]) & REFUSALS)
        # Kafka's reference knows "User:admin" as its super user, and so does the cluster.
        assert refused is not allowed, f"{call.name} of {user}: {answers.by_call[call.name][user]}"


def test_f41_forbidden_and_missing_groups_look_the_same(cluster: EmbeddedCluster) -> None:
    with login(cluster, "none") as client:
        request = DescribeGroupsRequest((GROUP, "m-nowhere"), include_authorized_operations=True)
        told = client.ask(request, DescribeGroupsResponse).groups
        assert [(each.error_code, each.group_state, each.members) for each in told] == [
            (ErrorCode.GROUP_AUTHORIZATION_FAILED, "", ())
        ] * 2
        deleted = client.ask(DeleteGroupsRequest((GROUP, "m-nowhere")), DeleteGroupsResponse)
        assert {each.error_code for each in deleted.results} == {
            ErrorCode.GROUP_AUTHORIZATION_FAILED
        }
        assert client.ask(ListGroupsRequest(), ListGroupsResponse) == ListGroupsResponse()


def test_kip_518_describe_on_the_cluster_lists_every_group(answers: Answers) -> None:
    listed = answers.by_call["ListGroups v5"]
    seen = {
        user: sorted(each["group_id"] for each in listed[user].get("groups", []))
        for user in ("none", "cluster-describe", "group-describe", "prefixed", "denied", "admin")
    }
    assert seen == {
        "none": [],
        "cluster-describe": ["m-group", "m-other"],
        "group-describe": ["m-group"],
        "prefixed": ["m-group", "m-other"],
        "denied": ["m-other"],
        "admin": ["m-group", "m-other"],
    }
    # It is for the list alone: finding and describing a group need Describe on the group.
    described = answers.by_call["DescribeGroups v5"]["cluster-describe"]
    assert codes(described) == {ErrorCode.GROUP_AUTHORIZATION_FAILED}


@pytest.mark.parametrize(
    ("user", "operations"),
    [
        ("admin", {"READ", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"}),
        ("group-all", {"READ", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"}),
        ("group-read", {"READ", "DESCRIBE"}),
        ("group-delete", {"DELETE", "DESCRIBE"}),
        ("group-describe", {"DESCRIBE"}),
        ("denied-read", {"DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"}),
    ],
)
def test_implied_operations_are_kafkas(answers: Answers, user: str, operations: set[str]) -> None:
    """Read includes Describe, and so does Delete: KIP-229's text has it otherwise, Kafka has it so."""
    groups = answers.by_call["DescribeGroups v5"][user]["groups"]
    bits = next(each["authorized_operations"] for each in groups if each["group_id"] == GROUP)
    assert {each.name for each in Operation if bits & 1 << each} == operations


def test_secrets_of_the_broker_are_not_described(cluster: EmbeddedCluster) -> None:
    with login(cluster, "admin") as client:
        request = DescribeConfigsRequest((DescribeConfigsResource(4, "1", None),))
        told = client.ask(request, DescribeConfigsResponse).results[0].configs
    found = {each.name: each for each in told}
    # Kafka hides the values of settings whose type it does not know.
    assert found["super.users"].is_sensitive
    for name in ("ssl.keystore.password", "ssl.key.password", "ssl.keystore.key"):
        assert found[name].value is None
        assert found[name].is_sensitive


def binding(name: str, **changes: Any) -> AclBinding:
    given: dict[str, Any] = {
        "resource_type": ResourceType.GROUP,
        "resource_name": name,
        "pattern_type": PatternType.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": Operation.READ,
        "permission": Permission.ALLOW,
    }
    return AclBinding(**(given | changes))


def creation(acl: AclBinding) -> AclCreation:
    return AclCreation(
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )


def test_acls_are_kept_and_can_be_removed(tmp_path: Path) -> None:
    given = [binding("a"), binding("ab", pattern_type=PatternType.PREFIXED), binding("c")]
    options: dict[str, Any] = {"users": {"admin": password("admin")}, "super_users": ["User:admin"]}
    with (
        EmbeddedCluster(data_dir=tmp_path, **options) as running,
        login(running, "admin") as client,
    ):
        created = client.ask(CreateAclsRequest(tuple(map(creation, given))), CreateAclsResponse)
        assert [each.error_code for each in created.results] == [0, 0, 0]
        gone = client.ask(
            DeleteAclsRequest((DeleteAclsFilter(3, "c", 3, None, None, 1, 1),)), DeleteAclsResponse
        )
        assert [each.resource_name for each in gone.filter_results[0].matching_acls] == ["c"]
    with (
        EmbeddedCluster(data_dir=tmp_path, **options) as running,
        login(running, "admin") as client,
    ):
        everything = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
        told = client.ask(everything, DescribeAclsResponse)
        assert [(each.resource_name, each.pattern_type) for each in told.resources] == [
            ("a", 3),
            ("ab", 4),
        ]
        matching = DescribeAclsRequest(3, "abc", 2, None, None, 1, 1)
        told = client.ask(matching, DescribeAclsResponse)
        assert [each.resource_name for each in told.resources] == ["ab"]
        unknown = client.ask(
            DescribeAclsRequest(1, None, 1, None, None, 99, 1), DescribeAclsResponse
        )
        assert unknown.error_code == ErrorCode.INVALID_REQUEST


def test_acls_that_cannot_be(cluster: EmbeddedCluster) -> None:
    wrong = [
        binding(""),
        binding("x", resource_type=ResourceType.ANY),
        binding("x", pattern_type=PatternType.MATCH),
        binding("x", operation=Operation.ANY),
        binding("x", permission=Permission.ANY),
        binding("x", resource_type=ResourceType.CLUSTER),
        binding("x", principal="alice"),
    ]
    with login(cluster, "admin") as client:
        told = client.ask(CreateAclsRequest(tuple(map(creation, wrong))), CreateAclsResponse)
    assert [each.error_code for each in told.results] == [ErrorCode.INVALID_REQUEST] * len(wrong)
    assert len({each.error_message for each in told.results}) == len(wrong)


def test_without_an_authorizer_there_are_no_acls() -> None:
    with EmbeddedCluster() as running:
        host, port = running.bootstrap_servers.split(":")
        with WireClient(host, int(port)) as client:
            told = client.ask(
                DescribeAclsRequest(1, None, 1, None, None, 1, 1), DescribeAclsResponse
            )
            assert told.error_code == ErrorCode.SECURITY_DISABLED
            made = client.ask(CreateAclsRequest((creation(binding("x")),)), CreateAclsResponse)
            assert made.results[0].error_code == ErrorCode.SECURITY_DISABLED
            gone = client.ask(DeleteAclsRequest((DeleteAclsFilter(),)), DeleteAclsResponse)
            assert gone.filter_results[0].error_code == ErrorCode.SECURITY_DISABLED


def test_what_no_acl_is_about_can_be_left_open() -> None:
    config = {"allow.everyone.if.no.acl.found": True}
    acls = [binding("closed")]
    with EmbeddedCluster(config=config, acls=acls) as running:
        running.scene("empty_group", "open")
        running.scene("empty_group", "closed")
        host, port = running.bootstrap_servers.split(":")
        with WireClient(host, int(port)) as client:
            request = DescribeGroupsRequest(("open", "closed"))
            told = client.ask(request, DescribeGroupsResponse).groups
    assert {each.group_id: each.error_code for each in told} == {"open": 0, "closed": 30}


def test_the_audit_log(cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture) -> None:
    """One line of JSON for each refusal and each change; nothing for what is only looked at."""
    with caplog.at_level(logging.INFO, "coterie.audit"):
        with login(cluster, "none") as client:
            client.ask(ListGroupsRequest(), ListGroupsResponse)
            client.ask(DescribeGroupsRequest((GROUP,)), DescribeGroupsResponse)
        with login(cluster, "admin") as client:
            client.ask(DescribeGroupsRequest((GROUP,)), DescribeGroupsResponse)
            client.ask(DeleteGroupsRequest((GROUP, "a\nb")), DeleteGroupsResponse)
        host, port = cluster.bootstrap_servers.split(":")
        with WireClient(host, int(port)) as client:
            client.authenticate(PlainClient("my-hush-password", Secret("wrong-hush")))
    lines = [record.getMessage() for record in caplog.records if record.name == "coterie.audit"]
    assert [json.loads(line) for line in lines] == [
        {
            "event": "refused",
            "principal": "User:none",
            "host": HOST,
            "client": "wire-client",
            "api": "DescribeGroups",
            "operation": "Describe",
            "resource": "Group",
            "names": [GROUP],
        },
        {
            "event": "changed",
            "principal": "User:admin",
            "host": HOST,
            "client": "wire-client",
            "api": "DeleteGroups",
            "resource": "Group",
            "names": [GROUP, "a\nb"],
            "errors": ["GROUP_ID_NOT_FOUND", "NON_EMPTY_GROUP"],
        },
        {
            "event": "not authenticated",
            "host": HOST,
            "mechanism": "PLAIN",
            "why": "PLAIN: no such user, or another password",
        },
    ]
    assert not any("\n" in line or "hush" in line for line in lines)


def test_the_audit_log_names_acls_and_users(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    upsertion = ScramCredentialUpsertion("zoe", 1, 4096, b"salt", b"salted-hush")
    with login(cluster, "admin") as client, caplog.at_level(logging.INFO, "coterie.audit"):
        client.ask(CreateAclsRequest((creation(binding("zoe-group")),)), CreateAclsResponse)
        wanted = DeleteAclsFilter(3, "zoe-group", 3, None, None, 1, 1)
        client.ask(DeleteAclsRequest((wanted,)), DeleteAclsResponse)
        request = AlterUserScramCredentialsRequest((), (upsertion,))
        client.ask(request, AlterUserScramCredentialsResponse)
    lines = [json.loads(record.getMessage()) for record in caplog.records]
    assert [(line["api"], line["resource"], line["names"], line["errors"]) for line in lines] == [
        (
            "CreateAcls",
            "Acl",
            ["User:alice allow Read on Group literal 'zoe-group' from *"],
            [],
        ),
        ("DeleteAcls", "Acl", ["anybody any Any on Group literal 'zoe-group' from anywhere"], []),
        ("AlterUserScramCredentials", "User", ["zoe"], []),
    ]
