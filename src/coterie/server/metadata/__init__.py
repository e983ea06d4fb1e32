"""What all brokers of a cluster share: topics, replicas, features, quotas, and the log that keeps it."""
