"""Programs that tests submit to a Spark of their own."""
