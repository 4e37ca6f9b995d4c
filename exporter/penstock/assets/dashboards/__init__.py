"""The dashboards, and their files."""

import json
from typing import Final

from penstock.assets.dashboards.agent import AGENT
from penstock.assets.dashboards.broker import BROKER
from penstock.assets.dashboards.capacity import CAPACITY
from penstock.assets.dashboards.clients import CLIENTS
from penstock.assets.dashboards.fleet import FLEET
from penstock.assets.dashboards.frame import Dashboard, document
from penstock.assets.dashboards.queue import QUEUE_BOARD
from penstock.assets.dashboards.rings import RINGS

DASHBOARDS: Final[tuple[Dashboard, ...]] = (FLEET, BROKER, QUEUE_BOARD, CLIENTS, RINGS, CAPACITY, AGENT)


def dashboard_files() -> dict[str, str]:
    """File name → JSON."""
    return {one.file: json.dumps(document(one), indent=2) + "\n" for one in DASHBOARDS}
