"""One request: the call, its possible error answers, and faults for tests."""
