"""Bridges, federation, mirrors and cluster connections → the table of links."""

from collections.abc import Sequence

import numpy as np

from penstock.brokers.artemis.answers import BridgeAttributes
from penstock.brokers.artemis.kinds import MIRROR, STORE_AND_FORWARD
from penstock.core.table import Index, Table
from penstock.model import LinkRow, QueueRow

LinkState = tuple[str, str, BridgeAttributes]
"""Name, kind, and what the MBean of a bridge or broker connection says."""


class LinkBuilder:
    """Links with their state and what waits for the peer, which is the depth of the queue they read."""

    def __init__(self) -> None:
        self._index: Index[LinkRow] = Index.empty()
        self._queues: Index[QueueRow] | None = None
        self._position: dict[str, int] = {}
        self._forwarding: list[str] = []

    def table(self, states: Sequence[LinkState], queues: Table[QueueRow] | None) -> Table[LinkRow]:
        """
        A cluster connection has no state of its own and keeps dead peers in its list: its store-and-forward queue has
        a consumer exactly while the peer is connected. Bridges before 2.41 are judged the same way.
        """
        self._find(queues.index if queues else Index.empty())
        at = self._position

        def number(column: str, queue: str) -> float:
            return float(queues[column][at[queue]]) if queues is not None and queue in at else np.nan

        found: dict[tuple[str, str], tuple[float, float]] = {}
        for name, kind, state in states:
            attached = number("consumers", state.queue_name)
            # Neither said nor to be seen at its queue: unknown, unless it was stopped.
            seen = attached if np.isnan(attached) else float(attached > 0)
            connected = seen if state.connected is None else float(state.connected)
            mirror = MIRROR + name in at
            queue = MIRROR + name if mirror else state.queue_name
            found[name, "mirror" if mirror else kind] = (connected if state.started else 0.0, number("messages", queue))
        for name in self._forwarding:
            up = number("consumers", name)
            found[name.removeprefix(STORE_AND_FORWARD), "cluster"] = (float(up > 0), number("messages", name))
        rows = [LinkRow(name, kind) for name, kind in found]
        if list(self._index) != rows:
            self._index = Index.of(rows)
        values = np.array(list(found.values()), dtype=np.float64).reshape(-1, 2)
        return Table(self._index, {"up": values[:, 0], "pending": values[:, 1]})

    def _find(self, queues: Index[QueueRow]) -> None:
        """Positions of the queues by name, and which of them forward to a peer; again when queues came or went."""
        if queues is not self._queues:
            self._queues = queues
            self._position = {row.name: position for position, row in enumerate(queues)}
            self._forwarding = [name for name in self._position if name.startswith(STORE_AND_FORWARD)]
