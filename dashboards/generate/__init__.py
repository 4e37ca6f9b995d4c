"""Makes the Grafana dashboards from the catalogue's names; `python -m dashboards.generate` writes them.

The package `penstock` links to the files and knows nothing of what makes them.
"""

import json
from typing import Final

from dashboards.generate.agent import AGENT
from dashboards.generate.broker import BROKER
from dashboards.generate.capacity import CAPACITY
from dashboards.generate.clients import CLIENTS
from dashboards.generate.fleet import FLEET
from dashboards.generate.frame import Dashboard, document
from dashboards.generate.messages import MESSAGES
from dashboards.generate.queue import QUEUE_BOARD
from dashboards.generate.rings import RINGS

DASHBOARDS: Final[tuple[Dashboard, ...]] = (
    FLEET,
    BROKER,
    QUEUE_BOARD,
    CLIENTS,
    MESSAGES,
    RINGS,
    CAPACITY,
    AGENT,
)


def dashboard_files() -> dict[str, str]:
    """File name → JSON."""
    return {one.file: json.dumps(document(one), indent=2) + "\n" for one in DASHBOARDS}
