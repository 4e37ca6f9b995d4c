"""The command line: one module a command. Flags follow the habits of Prometheus' own programs.

Reads options and shows answers; what they mean is decided in the rooms below.
"""

from penstock.cli.main import main

__all__ = ["main"]
