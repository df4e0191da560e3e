"""probekit: cache every layer of a frozen transformer once, then probe it from the cache."""

__version__ = "0.1.0"
