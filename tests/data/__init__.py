"""Tests of probekit.data."""
