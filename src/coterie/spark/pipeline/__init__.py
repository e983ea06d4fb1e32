"""The pipeline: snapshots and the log of a cluster as tables on disk, marts built from them, and a report."""
