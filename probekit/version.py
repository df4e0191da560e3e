"""The version of probekit."""

__version__ = "0.1.0"
