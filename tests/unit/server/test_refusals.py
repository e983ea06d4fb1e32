"""A refusal is a well-formed answer about everything that was asked, whatever the API."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.protocol.api import ApiKey
from coterie.protocol.codec import decode, encode
from coterie.protocol.kafka_json import from_json, to_json
from coterie.server.dispatch import served_apis
from coterie.server.requests.refusals import refusal
from tests.kit.golden import vectors


@pytest.mark.parametrize("api", served_apis({}), ids=lambda api: api.api_name)
def test_every_served_api_can_be_refused(api: ApiKey) -> None:
    for vector in vectors(api.api_name):
        if vector["kind"] != "request" or vector["case"] not in ("full", "minimal", "nulls"):
            continue
        version = vector["version"]
        records = iter([raw and bytes.fromhex(raw) for raw in vector.get("records", [])])
        request = from_json(api.request, vector["json"], version, records)
        response = refusal(request, api.response, version, 15)
        assert decode(api.response, encode(response, version), version) == response
        if vector["case"] == "full":
            said = codes(to_json(response, version))
            assert said <= {15}
            assert said or api in WITHOUT_CODES, f"{api.api_name} v{version} says no error at all"


#: Responses that have no place for an error unless the broker itself lists something.
WITHOUT_CODES = {ApiKey.METADATA}


def codes(value: Any) -> set[int]:
    if isinstance(value, dict):
        own = {item for key, item in value.items() if key in ("errorCode", "partitionErrorCode")}
        return own.union(*(codes(item) for item in value.values()))
    if isinstance(value, list):
        return set[int]().union(*(codes(item) for item in value))
    return set()
