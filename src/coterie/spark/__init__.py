"""Coterie on Spark: the data source `coterie`, a session made for it, marts and the pipeline."""
