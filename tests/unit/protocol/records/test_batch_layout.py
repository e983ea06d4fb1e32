"""One layout of a record batch: what Python declares, what the columnar reader maps, and what is compiled."""

from __future__ import annotations

import re
from pathlib import Path

from coterie.protocol import batch_layout
from coterie.protocol.records import columns, decode_batches
from tests.kit.offsets_log import batch_of, commit

NATIVE = Path(__file__).parents[4] / "src" / "native"
NAMES = {name for name in batch_layout.__all__ if name.isupper()}


def test_the_header_of_the_columnar_reader_has_the_same_places() -> None:
    header = columns._HEADER
    fields = header.fields
    assert fields is not None
    assert header.itemsize == batch_layout.BATCH_OVERHEAD
    assert fields["length"][1] == batch_layout.LENGTH_AT
    assert fields["partition_leader_epoch"][1] == batch_layout.LENGTH_END
    assert fields["magic"][1] == batch_layout.MAGIC_AT
    assert fields["crc"][1] == batch_layout.CRC_AT
    assert fields["attributes"][1] == batch_layout.CHECKED_FROM


def test_what_precedes_the_records_is_the_overhead() -> None:
    data = batch_of([commit()])
    (batch,) = decode_batches(data).batches
    assert len(data) - len(batch.payload) == batch_layout.BATCH_OVERHEAD
    assert data[batch_layout.MAGIC_AT] == batch_layout.MAGIC
    length = data[batch_layout.LENGTH_AT : batch_layout.LENGTH_END]
    assert int.from_bytes(length, "big") == batch_layout.MIN_LENGTH + len(batch.payload)


def test_the_compiled_code_has_the_same_layout() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in sorted(NATIVE.glob("*.[ch]")))
    declared = {
        name: int(number)
        for group in re.findall(r"\benum \{([^}]*)\}", source)
        for name, number in re.findall(r"(\w+) = (\d+)", group)
        if name in NAMES
    }
    assert declared
    assert declared == {name: getattr(batch_layout, name) for name in declared}
