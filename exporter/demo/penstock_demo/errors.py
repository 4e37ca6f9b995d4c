"""Errors that can come while a demo is set up."""

from penstock.core.errors import PenstockError


class DemoError(PenstockError):
    """A tool is missing, a download failed or a broker did not start. The text says what to do."""
