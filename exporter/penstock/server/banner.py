"""
The one place that reaches into aiohttp.

What is no HTTP is answered before the application sees it, and aiohttp puts its version and Python's into that answer.
It has no public option against that; `tests/server/test_banner.py` fails when this one no longer works.
"""

from aiohttp import web_response


def hide_versions() -> None:
    """Answers that pass no hook of the application bear `Server: penstock`; of the whole process."""
    web_response.SERVER_SOFTWARE = "penstock"  # type: ignore[attr-defined]
