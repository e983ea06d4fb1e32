"""Our codecs against Apache Kafka's own bytes and JSON, for every message, version and case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from coterie.cli.wire import check_vector, read_vectors
from coterie.error_codes import ErrorCode
from coterie.protocol.api import ApiKey
from coterie.protocol.group_records import record_types
from tests.kit.golden import VECTORS, load_json
from tests.kit.last_words import LAST_WORDS

pytestmark = pytest.mark.usefixtures("codecs")


def test_every_vector_both_ways(record_property: Callable[[str, object], None]) -> None:
    verdicts = [check_vector(vector) for path in VECTORS for vector in read_vectors(path)]
    failures = [f"{verdict.title}: {verdict.failure}" for verdict in verdicts if verdict.failure]
    assert not failures
    said = f"{len(verdicts)} golden vectors of Apache Kafka 4.3.0 checked in both directions"
    record_property(LAST_WORDS, said)


def test_every_file_and_version_was_covered() -> None:
    """What was checked is what the golden data says there is, to the vector."""
    seen: Counter[tuple[str, str]] = Counter()
    for path in VECTORS:
        for vector in read_vectors(path):
            seen[vector["api"], f"{vector['kind']} v{vector['version']}"] += 1
    expected = {
        (message, kind): count
        for message, kinds in load_json("vectors/counts.json").items()
        for kind, count in kinds.items()
    }
    assert seen == expected
    for row in served_apis():
        for version in range(row["lowest"], row["highest"] + 1):
            for kind in ("request", "response"):
                assert seen[row["name"], f"{kind} v{version}"], f"{row['name']} {kind} v{version}"


def served_apis() -> list[dict[str, Any]]:
    """The rows of apis.json that have vectors: the APIs that Coterie speaks."""
    files = {path.name.removesuffix(".jsonl.gz") for path in VECTORS}
    return [row for row in load_json("vectors/apis.json") if row["name"] in files]


def test_the_api_table_is_kafkas() -> None:
    rows = served_apis()
    assert {row["key"] for row in rows} == set(ApiKey)
    for row in rows:
        api = ApiKey(row["key"])
        assert (api.api_name, *api.versions) == (row["name"], row["lowest"], row["highest"])
        assert api.request.__key__ == api.response.__key__ == api
        for version in api.versions.each():
            assert api.request_header_version(version) == row["requestHeader"][str(version)]
            assert api.response_header_version(version) == row["responseHeader"][str(version)]


def test_the_record_types_are_kafkas() -> None:
    rows = load_json("vectors/record-types.json")
    found = {
        number: (record.name, *record.value.__versions__)
        for number, record in record_types().items()
    }
    assert found == {
        row["type"]: (row["name"], row["lowestValueVersion"], row["highestValueVersion"])
        for row in rows
    }


def test_the_error_codes_are_kafkas() -> None:
    rows = load_json("errors.json")
    found = {(e.value, e.name, e.message, e.retriable) for e in ErrorCode}
    assert found == {(row["code"], row["name"], row["message"], row["retriable"]) for row in rows}
