"""Partitions: their logs, group commit, producers, and the brokers that lead them."""
