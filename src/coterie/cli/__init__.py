"""The command line: `coterie`."""
