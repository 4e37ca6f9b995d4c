"""HTTP: `/metrics`, health, reload, the masked configuration, the API and the status page. It knows no polling."""

from penstock.server.app import make_app
from penstock.server.listen import DEFAULT_ADDRESS, DEFAULT_PORT, Address, Guard, parse_address, serve
from penstock.server.view import AgentView, Body, BrokerState

__all__ = [
    "DEFAULT_ADDRESS",
    "DEFAULT_PORT",
    "Address",
    "AgentView",
    "Body",
    "BrokerState",
    "Guard",
    "make_app",
    "parse_address",
    "serve",
]
