"""Metadata records, byte by byte as Apache Kafka 4.3.0 writes them to its `__cluster_metadata`."""

from __future__ import annotations

import pytest

from coterie.protocol.messages.delegation_tokens import (
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from coterie.protocol.metadata_records import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
    decode_metadata_record,
    encode_metadata_record,
)
from coterie.protocol.schema import Message
from coterie.protocol.types import Uuid
from coterie.protocol.versioned import Undecoded

ID = Uuid.parse("rvK-MSW0QS27zOfmDh9_SA")


@pytest.mark.parametrize(
    ("written", "record"),
    [
        (
            "011200aef2be3125b4412dbbcce7e60e1f7f4802096d2d6f72646572730309557365723a6d6179022a040300",
            AccessControlEntryRecord(ID, 2, "m-orders", 3, "User:may", "*", 4, 3),
        ),
        ("011300aef2be3125b4412dbbcce7e60e1f7f4800", RemoveAccessControlEntryRecord(ID)),
        (
            "010b000772656164657202117265616465722020202020202020202003aabb04ccddee0000100000",
            UserScramCredentialRecord(
                "reader", 2, b"reader          ", b"\xaa\xbb", b"\xcc\xdd\xee", 4096
            ),
        ),
        ("01160005676f6e650200", RemoveUserScramCredentialRecord("gone", 2)),
        (
            (
                "010a000b557365723a616c6963650b557365723a61646d696e0309557365723a626f620b557365723a63"
                "61726f6c0000018bcfe568000000018bf3f1ec000000018bd50bc4001772764b2d4d535730515332377a"
                "4f666d4468395f534100"
            ),
            DelegationTokenRecord(
                "User:alice",
                "User:admin",
                ("User:bob", "User:carol"),
                1_700_000_000_000,
                1_700_604_800_000,
                1_700_086_400_000,
                str(ID),
            ),
        ),
        (
            "011a001772764b2d4d535730515332377a4f666d4468395f534100",
            RemoveDelegationTokenRecord(str(ID)),
        ),
    ],
)
def test_kafkas_bytes(written: str, record: MetadataRecord) -> None:
    assert encode_metadata_record(record) == bytes.fromhex(written)
    assert decode_metadata_record(bytes.fromhex(written)) == record


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("", "no frame"),
        ("0112", "no frame"),
        ("01ffffffffff0f00", "no frame"),
        ("021200", "frame version 2"),
        ("016300", "record type 99 version 0"),
        ("011201", "record type 18 version 1"),
        ("0116000567", "the bytes end|text runs"),
    ],
)
def test_what_cannot_be_read_is_told(written: str, reason: str) -> None:
    found = decode_metadata_record(bytes.fromhex(written))
    assert isinstance(found, Undecoded)
    assert found.raw == bytes.fromhex(written)
    assert any(each in found.reason for each in reason.split("|"))


def test_keys_do_not_show() -> None:
    shown = repr(UserScramCredentialRecord("reader", 2, b"salt-hush", b"a-hush", b"b-hush", 4096))
    assert "reader" in shown
    assert "hush" not in shown


@pytest.mark.parametrize(
    "message",
    [
        CreateDelegationTokenResponse(token_id="seen", hmac=b"a-hush"),
        RenewDelegationTokenRequest(b"a-hush", 5),
        ExpireDelegationTokenRequest(b"a-hush", -1),
        DescribeDelegationTokenResponse(
            tokens=(DescribedDelegationToken(token_id="seen", hmac=b"a-hush"),)
        ),
    ],
)
def test_hmacs_of_tokens_do_not_show(message: Message) -> None:
    assert "hush" not in repr(message)
    assert "hidden" in repr(message)
