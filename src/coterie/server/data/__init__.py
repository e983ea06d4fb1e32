"""Produce and Fetch, from a request to the log of a partition and back."""
