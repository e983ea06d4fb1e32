"""Users and ACLs as records of the cluster's log: what is known, what is on disk, and what a crash leaves."""

from __future__ import annotations

import errno
import itertools
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.cluster import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from coterie.protocol.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from coterie.protocol.records import build_batch, decode_batches
from coterie.protocol.types import Uuid
from coterie.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from coterie.security.scram import ScramCredential, ScramMechanism
from coterie.server.clock import SystemClock
from coterie.server.metadata.cluster_log import ClusterLog
from coterie.server.security.cluster_security import (
    ClusterSecurity,
    load_invention_key,
    take_over_security_file,
)
from coterie.server.security.records import UserKey
from coterie.server.settings.security import SecurityConfig
from coterie.storage import (
    DataDirectory,
    Durability,
    StorageBroken,
    StorageDamaged,
    StorageFull,
    UnsupportedFormat,
    repair,
)
from coterie.storage.partition_log import CLUSTER_LOG, CLUSTER_LOG_CONFIG
from coterie.testing import EmbeddedCluster
from tests.kit.fault_fs import FaultFS, PowerCut
from tests.kit.wire_client import WireClient

ROOT = Path("/data")
SEGMENT = Path("__cluster_metadata-0") / "00000000000000000000.log"
SEEDS = range(20)
ALICE: UserKey = ("alice", ScramMechanism.SHA_256)
BOB: UserKey = ("bob", ScramMechanism.SHA_512)

State = tuple[dict[UserKey, ScramCredential], dict[AclBinding, Uuid]]


def acl(number: int) -> AclBinding:
    return AclBinding(
        ResourceType.GROUP,
        f"group-{number}",
        PatternType.PREFIXED,
        "User:alice",
        "*",
        Operation.READ,
        Permission.ALLOW,
    )


def credential(number: int) -> ScramCredential:
    return ScramCredential(b"salt-%d" % number, b"stored-%d" % number, b"server-%d" % number, 4096)


def opened(fs: FaultFS, durability: Durability = Durability.FSYNC) -> DataDirectory:
    return DataDirectory.open(ROOT, fs, durability=durability, journal_bytes=8192)


def known(directory: DataDirectory) -> ClusterSecurity:
    numbers = itertools.count(directory.logs[CLUSTER_LOG].high_watermark if directory.logs else 1)
    cluster_log = ClusterLog(directory, SystemClock())
    security = ClusterSecurity(
        SecurityConfig(),
        cluster_log,
        SystemClock(),
        invention_key=b"key",
        new_uuid=lambda: Uuid(next(numbers).to_bytes(16, "big")),
    )
    cluster_log.load()
    return security


def state(security: ClusterSecurity) -> State:
    assert set(security._acls) == set(security._acl_ids)
    assert security._acls_by_id == {i: a for a, i in security._acl_ids.items()}
    return dict(security.users), dict(security._acl_ids)


def restarted(fs: FaultFS) -> State:
    directory = opened(fs.kill())
    try:
        return state(known(directory))
    finally:
        directory.close()


_NUMBERS = st.integers(0, 5)
_USERS = st.dictionaries(st.sampled_from([ALICE, BOB]), st.none() | _NUMBERS.map(credential))
_CHANGES = st.lists(
    st.tuples(st.just("users"), _USERS)
    | st.tuples(st.sampled_from(["add", "remove"]), st.lists(_NUMBERS)),
    max_size=12,
)


@given(_CHANGES)
def test_a_restart_knows_what_was_known(changes: list[tuple[str, object]]) -> None:
    fs = FaultFS()
    directory = opened(fs)
    security = known(directory)
    users: dict[UserKey, ScramCredential] = {}
    acls: set[AclBinding] = set()
    for what, which in changes:
        if what == "users":
            assert isinstance(which, dict)
            wanted = {user: new for user, new in which.items() if new or user in users}
            security.change_users(wanted)
            users = {user: new for user, new in (users | wanted).items() if new}
        else:
            assert isinstance(which, list)
            named = {acl(number) for number in which}
            if what == "add":
                security.add_acls([acl(number) for number in which])
                acls |= named
            else:
                security.remove_acls(named & acls)
                acls -= named
    assert state(security)[0] == users
    assert set(state(security)[1]) == acls
    assert restarted(fs) == state(security)


def test_a_change_is_one_batch_and_what_changes_nothing_is_none() -> None:
    directory = opened(FaultFS())
    security = known(directory)
    security.change_users({})
    security.add_acls([])
    assert CLUSTER_LOG not in directory.logs
    security.add({ALICE: credential(1)}, [acl(1), acl(2), acl(1)])
    security.add({ALICE: credential(1)}, [acl(2)])
    security.remove_acls([acl(1), acl(2)])
    log = directory.log(CLUSTER_LOG)
    assert [batch.records_count for batch in log.batches()] == [3, 2]
    assert [record.key for batch in log.batches() for record in batch.records()] == [None] * 5


@pytest.mark.parametrize("first", [True, False])
def test_power_lost_in_the_middle_of_a_change(first: bool) -> None:
    """All of a change or nothing, and what was answered is there."""

    def change(security: ClusterSecurity) -> None:
        security.add({ALICE: credential(1), BOB: credential(2)}, [acl(n) for n in range(2, 30)])

    before: State = ({}, {})
    cuts = 0
    for at in itertools.count(1):
        fs = FaultFS()
        security = known(opened(fs))
        if not first:
            security.add_acls([acl(1)])
            before = state(security)
        fs.cut_power_at(at)
        try:
            change(security)
        except PowerCut:
            cuts += 1
            left = [restarted(fs.crash(seed)) for seed in SEEDS]
            assert all(len(acls) in (len(before[1]), 28 + len(before[1])) for _, acls in left)
            assert all(len(users) in (0, 2) for users, _ in left)
            assert all(bool(users) is (len(acls) > 1) for users, acls in left)
            assert all(before[1].items() <= acls.items() for _, acls in left)
        else:
            assert all(restarted(fs.crash(seed)) == state(security) for seed in SEEDS)
            break
    assert cuts >= 2


def test_a_full_disk_changes_nothing_and_a_later_change_succeeds() -> None:
    fs = FaultFS()
    security = known(opened(fs))
    security.add_acls([acl(1)])
    before = state(security)
    fs.fail("pwrite", errno.ENOSPC, times=1)
    with pytest.raises(StorageFull):
        security.add({ALICE: credential(1)}, [acl(2)])
    assert state(security) == before
    security.add({ALICE: credential(1)}, [acl(3)])
    assert restarted(fs) == state(security)


def test_a_failed_sync_is_the_end() -> None:
    fs = FaultFS()
    security = known(opened(fs))
    security.add_acls([acl(1)])
    before = state(security)
    fs.fail("sync", errno.EIO, times=1)
    with pytest.raises(StorageBroken):
        security.add_acls([acl(2)])
    assert state(security) == before
    with pytest.raises(StorageBroken):
        security.add_acls([acl(3)])


def test_without_syncs_a_change_outlives_the_process() -> None:
    fs = FaultFS()
    security = known(opened(fs, Durability.OS))
    syncs = fs.calls["sync"]
    security.add({ALICE: credential(1)}, [acl(1)])
    assert fs.calls["sync"] == syncs
    assert restarted(fs) == state(security)


def three_changes(fs: FaultFS) -> None:
    security = known(opened(fs))
    for number in range(3):
        security.add_acls([acl(number)])


def test_a_torn_tail_is_cut_and_told() -> None:
    fs = FaultFS()
    three_changes(fs)
    file = fs.open(ROOT / SEGMENT)
    file.truncate(file.size() - 7)
    directory = opened(fs.kill())
    (torn,) = directory.warnings
    assert torn.path == ROOT / SEGMENT
    assert set(known(directory)._acl_ids) == {acl(0), acl(1)}


def test_damage_in_the_middle_is_refused_and_a_repair_keeps_it_private(tmp_path: Path) -> None:
    directory = DataDirectory.open(tmp_path)
    security = known(directory)
    for number in range(3):
        security.add_acls([acl(number)])
    directory.close()
    content = bytearray((tmp_path / SEGMENT).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / SEGMENT).write_bytes(content)
    with pytest.raises(StorageDamaged, match="__cluster_metadata-0"):
        DataDirectory.open(tmp_path)
    (torn,) = repair(tmp_path)
    assert torn.kept_in is not None
    assert stat.S_IMODE(torn.kept_in.stat().st_mode) == 0o600
    directory = DataDirectory.open(tmp_path)
    assert set(known(directory)._acl_ids) == {acl(0)}
    directory.close()


def test_records_of_another_version_are_refused() -> None:
    """A record that is passed over could be one that denies."""
    directory = opened(FaultFS())
    (log,) = directory.create([CLUSTER_LOG], CLUSTER_LOG_CONFIG)
    batch = build_batch([(None, b"\x01\x63\x00", 1, ())])
    directory.append(log, batch.encode(), batch)
    with pytest.raises(UnsupportedFormat, match="offset 0: record type 99 version 0"):
        known(directory)


# -- growth ---------------------------------------------------------------------------------------------


def with_dead_records(fs: FaultFS, changes: int) -> State:
    directory = opened(fs)
    security = known(directory)
    security.add({ALICE: credential(0)}, [acl(n) for n in range(3)])
    for number in range(changes):
        security.change_users({BOB: credential(number)})
    directory.close()
    return state(security)


@pytest.mark.parametrize("changes", [500, 502])
def test_a_log_of_mostly_dead_records_is_written_anew_at_the_start(changes: int) -> None:
    fs = FaultFS()
    before = with_dead_records(fs, changes)
    size = fs.open(ROOT / SEGMENT).size()
    directory = opened(fs)
    end = directory.log(CLUSTER_LOG).high_watermark
    security = known(directory)
    assert state(security) == before
    log = directory.log(CLUSTER_LOG)
    assert (log.size_in_bytes < size / 20) is (changes > 501)
    assert log.high_watermark == end + (5 if changes > 501 else 0)
    assert fs.listdir(ROOT / CLUSTER_LOG.directory_name) == [SEGMENT.name]
    security.add_acls([acl(9)])
    assert restarted(fs) == state(security)


def test_a_log_of_nothing_but_dead_records_keeps_its_end_offset() -> None:
    fs = FaultFS()
    directory = opened(fs)
    security = known(directory)
    acls = [acl(n) for n in range(300)]
    security.add_acls(acls)
    security.remove_acls(acls)
    directory.close()
    for _ in range(2):
        directory = opened(fs)
        assert state(known(directory)) == ({}, {})
        assert not directory.warnings
        log = directory.log(CLUSTER_LOG)
        assert (log.high_watermark, len(list(log.batches()))) == (601, 1)
        directory.close()


def test_a_full_disk_leaves_the_log_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    fs = FaultFS()
    before = with_dead_records(fs, 600)
    directory = opened(fs)
    fs.fail("pwrite", errno.ENOSPC, times=1)
    assert state(known(directory)) == before
    assert "could not be rewritten" in caplog.text
    assert restarted(fs) == before


def test_power_lost_while_the_log_is_written_anew() -> None:
    begin = FaultFS()
    before = with_dead_records(begin, 600)
    cuts = 0
    for at in itertools.count(1):
        fs = begin.crash(0)  # nothing is pending: a copy
        directory = opened(fs)
        fs.cut_power_at(at)
        try:
            known(directory)
        except PowerCut:
            cuts += 1
        assert all(restarted(fs.crash(seed)) == before for seed in SEEDS)
        if at > cuts:
            break
    assert cuts >= 5


# -- the file of earlier versions -----------------------------------------------------------------------


def write_security_file(save: Callable[[bytes], object]) -> None:
    user = {"name": "alice", "mechanism": 1, "credential": credential(1)}
    old = {"invention_key": b"k" * 32, "acls": [acl(1), acl(2)], "users": [user]}
    save(msgspec.json.encode(old))


def test_security_json_is_taken_over_whenever_the_power_fails() -> None:
    for at in itertools.count(1):
        fs = FaultFS()
        directory = opened(fs)
        write_security_file(lambda content, to=directory: to.save("security.json", content))  # type: ignore[misc]
        fs.cut_power_at(at)
        try:
            load_invention_key(directory, keep=False)
            take_over_security_file(directory, known(directory))
        except PowerCut:
            done = False
        else:
            done = True
        for seed in SEEDS:
            after = opened(fs.crash(seed))
            assert not done or not (after.load("security.json"))
            key = load_invention_key(after, keep=False)
            security = known(after)
            take_over_security_file(after, security)
            assert key == b"k" * 32
            assert dict(security.users) == {ALICE: credential(1)}
            assert set(security._acl_ids) == {acl(1), acl(2)}
            assert after.load("security.json") is None
            assert after.log(CLUSTER_LOG).high_watermark == 3  # once, not twice
        if done:
            break


def test_a_cluster_takes_over_security_json(tmp_path: Path) -> None:
    with EmbeddedCluster(data_dir=tmp_path):
        pass
    file = tmp_path / "broker-1" / "security.json"
    write_security_file(file.write_bytes)
    config = {"sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    for _ in range(2):
        with EmbeddedCluster(data_dir=tmp_path, config=config) as running:
            found = running._twin.cluster.security
            assert dict(found.users) == {ALICE: credential(1)}
            assert set(found._acl_ids) == {acl(1), acl(2)}
        assert not file.exists()


# -- who sees it ----------------------------------------------------------------------------------------


def test_its_files_are_for_the_owner_alone(tmp_path: Path) -> None:
    """Salted passwords and the key that invents users: whoever reads them can guess at leisure."""
    users = {"alice": "alice-hush"}
    for _ in range(2):
        with EmbeddedCluster(users=users, data_dir=tmp_path):
            log = tmp_path / "broker-1" / SEGMENT
            key = tmp_path / "broker-1" / "scram-invention.key"
            assert [stat.S_IMODE(each.stat().st_mode) for each in (log, key)] == [0o600, 0o600]
        log.chmod(0o640)
        key.chmod(0o640)
    records = [
        r.value or b"" for b in decode_batches(log.read_bytes()).batches for r in b.records()
    ]
    secrets = [value[-40:-10] for value in records]
    public = [each for each in tmp_path.rglob("*") if each.is_file() and each not in (log, key)]
    assert len(secrets) == 2
    assert any(each.name == "journal" for each in public)
    assert not any(secret in each.read_bytes() for secret in secrets for each in public)


def test_to_clients_it_is_no_topic(tmp_path: Path) -> None:
    """As Apache Kafka answers (tests/compat/test_security_kafka.py asks both)."""
    name = "__cluster_metadata"
    nobody = ["User:ANONYMOUS"]
    with EmbeddedCluster(data_dir=tmp_path, acls=[acl(1)], super_users=nobody) as running:
        host, port = running.bootstrap_servers.split(":")
        with WireClient(host, int(port)) as client:
            asked = MetadataRequest(
                topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=True
            )
            (found,) = client.ask(asked, MetadataResponse).topics
            wanted = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
            (made,) = client.ask(CreateTopicsRequest(topics=(wanted,)), CreateTopicsResponse).topics
            everything = client.ask(MetadataRequest(topics=None), MetadataResponse)
    assert everything.topics == ()
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert made.error_code == ErrorCode.INVALID_REQUEST
    assert made.error_message == "Creation of internal topic __cluster_metadata is prohibited."
