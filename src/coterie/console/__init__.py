"""The console: what every command shares. Target cluster, contexts, options, output, progress, durations."""
