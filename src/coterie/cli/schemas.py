"""The JSON schemas that are published in docs/schemas: of every listing, of plans and of files of offsets."""

from __future__ import annotations

import inspect
import json
from typing import Any, Final

import msgspec

from coterie.cli import acls, cluster, context, listings, topics
from coterie.cli.groups import watching
from coterie.console.output import Listing
from coterie.plans.model import Plan
from coterie.plans.offsets_file import SavedOffsets

__all__ = ["LISTINGS", "published", "texts"]

LISTINGS: Final[tuple[Listing[Any], ...]] = (
    listings.GROUPS,
    listings.DESCRIPTIONS,
    listings.MEMBERS,
    listings.OFFSETS,
    listings.LAG,
    listings.TOPIC_LAG,
    listings.GROUP_LAG,
    listings.PLANNED_GROUPS,
    listings.PLANNED_OFFSETS,
    listings.RESULTS,
    watching.WATCHED_GROUPS,
    watching.WATCHED_PARTITIONS,
    topics.TOPICS,
    topics.PARTITIONS,
    cluster.BROKERS,
    acls.ACLS,
    context.CONTEXTS,
    context.SETTINGS,
)

_DOCUMENTS: Final[dict[str, type[msgspec.Struct]]] = {"plan": Plan, "offsets-file": SavedOffsets}


def published() -> dict[str, dict[str, Any]]:
    """Every schema, by the name of its file."""
    found = {each.name: each.json_schema() for each in LISTINGS}
    for name, kind in _DOCUMENTS.items():
        schema = msgspec.json.schema(kind)
        for part in schema["$defs"].values():
            # A docstring's indentation is in it up to Python 3.12.
            part["description"] = inspect.cleandoc(part.get("description", ""))
        draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
        found[name] = draft | {"title": f"coterie: {name}"} | schema
    return found


def texts() -> dict[str, str]:
    """Every schema as the text of its file; `make docs` writes them."""
    return {
        name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in published().items()
    }
