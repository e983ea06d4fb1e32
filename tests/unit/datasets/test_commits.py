"""The decoders of commits in bulk against the codec of the message, on sound, odd and hostile records."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.datasets.chunks import parse
from coterie.datasets.commits import commits
from coterie.datasets.log_records import log_records
from coterie.datasets.schemas import pruned, schema
from coterie.datasets.times import moment
from coterie.protocol.group_records import decode_record, encode_key
from coterie.protocol.group_records.classic import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.protocol.types import Uuid
from coterie.protocol.versioned import encode_versioned, leading_number
from tests.kit.offsets_log import batch_of, commit

pytestmark = pytest.mark.usefixtures("readers")

Records = list[tuple[bytes | None, bytes | None]]
TOPIC_ID = Uuid(bytes(range(1, 17)))
NAMES = st.one_of(st.text(max_size=30), st.text(alphabet="abc-", max_size=14), st.just("x" * 300))


def decoded(records: Records) -> list[dict[str, Any]]:
    chunk = parse(7, batch_of(records), 0, None)
    batch = commits(chunk, chunk.data_rows(), schema("commits"), None)
    batch.validate(full=True)
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def expected(records: Records) -> list[dict[str, Any]]:
    """What the codec says, record by record."""
    rows = []
    for offset, (raw_key, raw_value) in enumerate(records):
        key, value = decode_record(raw_key, raw_value)
        if not isinstance(key, (OffsetCommitKey, LegacyOffsetCommitKey)):
            continue
        if value is not None and not isinstance(
            value, (OffsetCommitValue, LegacyOffsetCommitValue)
        ):
            continue
        row: dict[str, Any] = dict.fromkeys(schema("commits").names)
        row |= {
            "partition": 7,
            "offset": offset,
            "timestamp": moment(1_700_000_000_000),
            "group_id": key.group,
            "topic": key.topic,
            "topic_partition": key.partition,
            "tombstone": value is None,
            "key_version": type(key).__key__,
        }
        if value is not None:
            row |= {
                "committed_offset": value.offset,
                "metadata": value.metadata,
                "commit_timestamp": moment(value.commit_timestamp),
                "value_version": leading_number(raw_value or b""),
            }
        if isinstance(value, OffsetCommitValue):
            row |= {
                "leader_epoch": value.leader_epoch if value.leader_epoch >= 0 else None,
                "expire_timestamp": moment(value.expire_timestamp),
                "topic_id": None if value.topic_id == Uuid.ZERO else str(value.topic_id),
            }
        rows.append(row)
    return rows


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_the_value(version: int) -> None:
    fields: dict[str, Any] = {
        "metadata": "who: me",
        **({"leader_epoch": 9} if version >= 3 else {}),
        **({"expire_timestamp": 1_800_000_000_000} if version == 1 else {}),
        **({"topic_id": TOPIC_ID} if version == 4 else {}),
    }
    records: Records = [commit(version=version, **fields), commit(version=version)]
    rows = decoded(records)
    assert rows == expected(records)
    assert rows[0]["metadata"] == "who: me"
    assert rows[0]["leader_epoch"] == (9 if version >= 3 else None)
    assert rows[0]["topic_id"] == (str(TOPIC_ID) if version == 4 else None)


def test_versions_tombstones_and_the_oldest_keys_beside_each_other() -> None:
    old = encode_key(LegacyOffsetCommitKey("ancient", "orders", 3))
    records: Records = [
        commit(version=4, topic_id=TOPIC_ID),
        (commit()[0], None),
        commit(version=1, expire_timestamp=5),
        (old, encode_versioned(LegacyOffsetCommitValue(7, "m", 1_600_000_000_000), 0)),
        (old, None),
        commit(version=3, leader_epoch=0),
        commit(group="grüße", topic="ütf-8", metadata="日本", version=2),
    ]
    rows = decoded(records)
    assert rows == expected(records)
    assert len(rows) == len(records)


def test_odd_ones_are_decoded_one_by_one_and_stay_in_order() -> None:
    key, value = commit(topic_id=TOPIC_ID)
    records: Records = [
        commit(metadata="m" * 5000),  # a size of two bytes
        commit(version=3),
        (
            key,
            value[:-19] + b"\x02\x00\x10" + bytes(TOPIC_ID) + b"\x05\x01x",
        ),  # a tag of the future
        (key, value + b"trailing"),
        (key + b"trailing", value),
        commit(),
    ]
    rows = decoded(records)
    assert rows == expected(records)
    assert [row["offset"] for row in rows] == [0, 1, 2, 3, 4, 5]
    assert rows[2]["topic_id"] == str(TOPIC_ID)


def test_what_cannot_be_read_is_in_the_log_with_the_reason() -> None:
    key, value = commit()
    records: Records = [
        (key, value),
        (key, b"\x00\x63" + value[2:]),  # version 99
        (key, value[:9]),
        (key[:7], value),
        (key.replace(b"orders-app", b"\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7\xf6"), value),
        (b"\x00\x01\x7f\xff", value),
        (None, b"no key at all"),
        (b"\x03\xe7", b""),
        (b"", None),
        (key, value),
    ]
    assert [row["offset"] for row in decoded(records)] == [0, 9]
    chunk = parse(7, batch_of(records), 0, None)
    batch = log_records(chunk, chunk.rows(), schema("log"))
    batch.validate(full=True)
    rows = batch.to_pylist()
    assert [(row["key"], row["value"]) for row in rows] == records
    assert [row["offset"] for row in rows if row["reason"]] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert "version 99" in rows[1]["reason"]
    assert rows[4]["group_id"] is None
    assert rows[7]["reason"] == "key: record type 999 is not known"


def test_records_without_keys_take_no_room_from_those_that_have_them() -> None:
    none: Records = [(None, None), (b"", b"")] * 100
    records: Records = [*none, commit(metadata="m" * 100), *none]
    assert decoded(records) == expected(records)
    assert len(decoded(records)) == 1


@given(
    st.lists(
        st.tuples(
            NAMES,
            NAMES,
            st.integers(0, 2**31 - 1),
            st.integers(-(2**63), 2**63 - 1),
            NAMES,
            st.integers(0, 4),
            st.booleans(),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_any_commit_is_what_the_codec_says(drawn: list[tuple[Any, ...]]) -> None:
    records: Records = []
    for group, topic, partition, offset, metadata, version, tombstone in drawn:
        key, value = commit(
            group, topic, partition, version=version, offset=offset, metadata=metadata
        )
        records.append((key, None if tombstone else value))
    assert decoded(records) == expected(records)


@given(st.data())
def test_any_bytes_are_survived(data: st.DataObject) -> None:
    """Sound records, cut and changed anywhere: what the codec reads is there, and nothing else is."""
    records: Records = []
    for _ in range(data.draw(st.integers(1, 8))):
        key, value = commit(version=data.draw(st.integers(0, 4)))
        records.append((mutated(data, key), data.draw(st.none() | st.just(mutated(data, value)))))
    assert decoded(records) == expected(records)
    for name in schema("commits").names:
        # Which rows there are does not depend on what is asked for.
        alone = pruned("commits", [name])
        chunk = parse(7, batch_of(records), 0, None)
        column = commits(chunk, chunk.data_rows(), alone, None).column(name)
        assert column.to_pylist() == [row[name] for row in expected(records)]


def mutated(data: st.DataObject, sound: bytes) -> bytes:
    cut = data.draw(st.integers(0, len(sound)))
    place = data.draw(st.integers(0, max(0, len(sound) - 1)))
    return data.draw(
        st.sampled_from(
            [
                sound,
                sound[:cut],
                sound[:place] + bytes([data.draw(st.integers(0, 255))]) + sound[place + 1 :],
                sound + sound[:cut],
                data.draw(st.binary(max_size=60)),
            ]
        )
    )


def test_times_that_no_calendar_has_are_null() -> None:
    rows = decoded([commit(commit_timestamp=2**62), commit(commit_timestamp=-1)])
    assert [row["commit_timestamp"] for row in rows] == [None, None]


def test_an_empty_chunk_has_no_rows_and_the_schema() -> None:
    chunk = parse(0, b"", 0, None)
    batch = commits(chunk, chunk.data_rows(), schema("commits"), None)
    assert (batch.num_rows, batch.schema) == (0, schema("commits"))
    assert isinstance(batch, pa.RecordBatch)
