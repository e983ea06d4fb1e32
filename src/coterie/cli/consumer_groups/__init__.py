"""`kafka-consumer-groups`: a drop-in for the tool of that name in Apache Kafka 4.3.

Same options, same output, same exit codes; what differs, and why, is in docs/kafka-consumer-groups.md.
Start-up is a feature: nothing is imported here, and each module imports the client only when it needs it.
"""
