"""Fuzzing of everything that reads bytes from a stranger: `python -m fuzz.run --seconds 60`."""
