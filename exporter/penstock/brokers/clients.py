"""The stable name of a client: the same after a reconnect, on which series, patience and alerts rest."""

import re
from collections.abc import Sequence

# Ids that a client library made up: UUIDs (Qpid proton, MQTT without an id) and ID:… (Qpid JMS, OpenWire).
_GENERATED = re.compile(
    r"(ID:.*|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}.*)",
    re.IGNORECASE | re.DOTALL,
)

NameMap = Sequence[tuple[re.Pattern[str], str]]
"""Pairs of an expression and what replaces each of its matches, applied in this order."""


def client_name(
    client_id: str | None,
    user: str | None,
    remote_address: str | None,
    protocol: str | None,
    names: NameMap = (),
) -> str:
    """Client id, else user@host, else host, else the protocol; generated ids count as none, ports are stripped."""
    name = client_id if client_id and not _GENERATED.fullmatch(client_id) else ""
    if not name:
        host = remote_host(remote_address or "")
        name = (
            (f"{user}@{host}" if user and host else user or host)
            or protocol
            or "unknown"
        )
    for expression, replacement in names:
        name = expression.sub(replacement, name) or name
    return name


def remote_host(remote_address: str) -> str:
    """Host of `/127.0.0.1:41226`, `tcp://host:1`, `[::1]:1`, `0:0:0:0:0:0:0:1:41226`; empty for in-VM clients."""
    address = remote_address.rpartition("/")[2].strip()
    if address.startswith("["):
        return address[1:].partition("]")[0]
    host, colon, port = address.rpartition(":")
    address = host if colon and port.isdigit() else address
    return "" if address == "invm" else address
