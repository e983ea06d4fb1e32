"""Settings of the server, of brokers, topics and groups: names, validation, and present values."""
