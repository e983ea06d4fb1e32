"""The drop-in for kafka-consumer-groups."""
