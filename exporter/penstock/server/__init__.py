"""HTTP: `/metrics`, health, reload, the masked configuration, the API with its description, the status page."""

from penstock.server.app import make_app, make_probe_app
from penstock.server.listen import (
    DEFAULT_ADDRESS,
    DEFAULT_PORT,
    Address,
    parse_address,
    serve,
)
from penstock.server.view import AgentView, Body

__all__ = [
    "DEFAULT_ADDRESS", "DEFAULT_PORT", "Address", "AgentView", "Body", "make_app", "make_probe_app", "parse_address",
    "serve",
]  # fmt: skip
