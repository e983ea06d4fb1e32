"""Client quotas: stored limits, measured rates, and how long a client that exceeds them is throttled."""
