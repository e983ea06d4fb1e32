"""The embedded cluster's brokers: the only place that joins sockets, coordinator and storage."""
