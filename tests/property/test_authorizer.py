"""The authorizer against one of ten lines, and after any history against one that was built anew."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from coterie.security.acls import (
    SUPPORTED_OPERATIONS,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from coterie.security.authorizer import Authorizer
from tests.kit.reference_authorizer import reference

PRINCIPALS = ("User:alice", "User:bob", "User:admin")
HOSTS = ("10.0.0.1", "10.0.0.2")
NAMES = ("a", "ab", "abc", "b", "ba", "*", "c")
RESOURCES = (ResourceType.TOPIC, ResourceType.GROUP)
OPERATIONS = SUPPORTED_OPERATIONS[ResourceType.TOPIC]

acls = st.builds(
    AclBinding,
    resource_type=st.sampled_from(RESOURCES),
    resource_name=st.sampled_from(NAMES),
    pattern_type=st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    principal=st.sampled_from([*PRINCIPALS, "User:*", "Group:alice"]),
    host=st.sampled_from([*HOSTS, "*"]),
    operation=st.sampled_from([*OPERATIONS, Operation.ALL]),
    permission=st.sampled_from([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
)
filters = st.builds(
    AclFilter,
    resource_type=st.sampled_from([*RESOURCES, ResourceType.ANY]),
    resource_name=st.sampled_from([*NAMES, None]),
    pattern_type=st.sampled_from(list(PatternType)[1:]),
    principal=st.sampled_from([*PRINCIPALS, None]),
    host=st.sampled_from([*HOSTS, None]),
    operation=st.sampled_from([*OPERATIONS, Operation.ANY]),
    permission=st.sampled_from([Permission.ALLOW, Permission.DENY, Permission.ANY]),
)


@given(st.lists(acls, max_size=12), st.booleans())
def test_f40_equals_the_reference(entries: list[AclBinding], open_: bool) -> None:
    authorizer = Authorizer(entries, super_users=["User:admin"], allow_if_no_acl=open_)
    for who, host, op, kind in product(PRINCIPALS, HOSTS, OPERATIONS, RESOURCES):
        expected = {n for n in NAMES if reference(entries, (who, host), op, kind, n, open_=open_)}
        assert authorizer.allowed(who, host, op, kind, NAMES) == expected
        one_by_one = {name for name in NAMES if authorizer.allows(who, host, op, kind, name)}
        assert one_by_one == expected
    for name in NAMES:
        bits = authorizer.operations("User:bob", HOSTS[0], ResourceType.TOPIC, name)
        for op in OPERATIONS:
            said = reference(
                entries, ("User:bob", HOSTS[0]), op, ResourceType.TOPIC, name, open_=open_
            )
            assert bool(bits & 1 << op) is said


@given(st.lists(st.one_of(acls, filters), max_size=30))
def test_f42_any_history_equals_a_fresh_authorizer(steps: list[AclBinding | AclFilter]) -> None:
    """CVE-2024-27309: removing one entry must leave all others in force."""
    lived = Authorizer()
    kept: list[AclBinding] = []
    for step in steps:
        if isinstance(step, AclBinding):
            assert lived.add(step) is (step not in kept)
            if step not in kept:
                kept.append(step)
        else:
            gone = lived.find(step)
            assert sorted(gone) == sorted(acl for acl in kept if step.matches(acl))
            for acl in gone:
                lived.remove(acl)
                kept.remove(acl)
        # Asked in between, so that there is something to remember wrongly.
        lived.allows("User:alice", HOSTS[0], Operation.READ, ResourceType.TOPIC, "ab")
    assert sorted(lived) == sorted(kept)
    assert len(lived) == len(kept)
    fresh = Authorizer(kept)
    for who, op, kind in product(PRINCIPALS, OPERATIONS, RESOURCES):
        assert lived.allowed(who, HOSTS[0], op, kind, NAMES) == fresh.allowed(
            who, HOSTS[0], op, kind, NAMES
        )


@given(st.lists(acls, max_size=8))
def test_some_resource_of_a_kind(entries: list[AclBinding]) -> None:
    """KIP-679's question; where it says no, no name at all may be allowed by an entry of that operation."""
    authorizer = Authorizer(entries)
    some = authorizer.allows_any("User:bob", HOSTS[0], Operation.WRITE, ResourceType.TOPIC)
    found = authorizer.allowed(
        "User:bob",
        HOSTS[0],
        Operation.WRITE,
        ResourceType.TOPIC,
        [*NAMES, "abx", "bax", "cx", "zz"],
    )
    if found - {"*"}:
        assert some
