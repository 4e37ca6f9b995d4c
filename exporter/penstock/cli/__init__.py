"""The command line: one module a command. Flags follow the habits of Prometheus' own programs."""

from penstock.cli.main import main

__all__ = ["main"]
