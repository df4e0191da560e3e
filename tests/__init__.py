"""Tests of probekit; the folders mirror the package."""
