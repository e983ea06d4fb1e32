"""Columns of datasets, marts and listings with the same name have the same type."""

from __future__ import annotations

from collections import defaultdict

from coterie.cli.schemas import LISTINGS
from coterie.console.output import declared
from coterie.vocabulary import columns
from coterie.vocabulary.columns import Column
from coterie.vocabulary.datasets import DATASETS, GAPS, LAST_BUILD, SNAPSHOTS
from coterie.vocabulary.marts import MARTS

TABLES = [*DATASETS.values(), *MARTS.values(), GAPS, LAST_BUILD, SNAPSHOTS]
SHARED = {each.name: each for each in vars(columns).values() if isinstance(each, Column)}


def test_a_name_has_one_type_in_all_tables() -> None:
    types = defaultdict(set)
    for table in TABLES:
        for column in table.columns:
            types[column.name].add(column.type)
    assert {name: kinds for name, kinds in types.items() if len(kinds) > 1} == {}


def test_listings_have_the_types_of_the_vocabulary() -> None:
    found = {
        (listing.name, column.name): column.kind
        for listing in LISTINGS
        for column in listing.columns
        if column.name in SHARED
    }
    expected = {key: declared(SHARED[key[1]], lambda _: None).kind for key in found}
    assert found == expected
    assert len({name for _, name in found}) > len(SHARED) / 2


def test_what_a_mart_is_made_from_exists() -> None:
    known = {table.name for table in TABLES}
    assert {need for mart in MARTS.values() for need in mart.needs} <= known
