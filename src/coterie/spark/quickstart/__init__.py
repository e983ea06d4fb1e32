"""Starts Spark quickly and ends it in order: class archives, a cached command of the JVM, worker settings."""
