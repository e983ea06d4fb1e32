"""Datasets: groups, commits and their history as Arrow record batches. No Spark, no JVM.

Two kinds: `live` ones are asked of a cluster by the admin client, `log` ones are decoded from
`__consumer_offsets`, fetched from a cluster or read from a directory of segment files. Schemas are fixed and
in coterie.datasets.schemas. Called by the Spark source, and by anyone who reads Arrow.
"""

from __future__ import annotations

from coterie.datasets.schemas import DATASETS, LIVE, LOG, SCHEMA_VERSION, dataset, schema

__all__ = ["DATASETS", "LIVE", "LOG", "SCHEMA_VERSION", "dataset", "schema"]
