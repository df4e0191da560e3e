"""The command line: parse, one library call, print."""

from probekit.cli.app import app, main

__all__ = ["app", "main"]
