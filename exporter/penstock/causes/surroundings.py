"""What is around a consumer: others of its connection, addresses that are full, clients that stopped with it."""

from collections.abc import Mapping

import numpy as np

from penstock.core.table import Positions
from penstock.model import Broker
from penstock.observation.poll import RuleInputs

TOGETHER, NEAR = 2.0, 90.0
"""Seconds within which something in common stops clients; percent of its limit below which no address blocks."""


def consumers_of(poll: RuleInputs, queue: int) -> Positions:
    return np.flatnonzero(poll.found.consumer.queue == queue)


def siblings(poll: RuleInputs, row: int) -> Positions:
    """The other consumers of its connection; none where that is not known."""
    keys = poll.snapshot.consumer_connection
    there = np.flatnonzero(keys == keys[row]) if len(keys) and keys[row] >= 0 else np.empty(0, np.intp)
    others: Positions = there[there != row]
    return others


def stopped_with(poll: RuleInputs, row: int) -> list[str]:
    """Other clients that stopped when this one did."""
    since, rows = poll.unacked.unacked_since, poll.found.consumer.index.rows
    at = np.flatnonzero(np.abs(since - since[row]) <= TOGETHER)[:100]
    return sorted({rows[i].client for i in at.tolist()} - {rows[row].client})


def full_broker(broker: Broker) -> str:
    """What of the whole broker is at its limit, so that every address blocks; empty where nothing is."""
    if broker.memory_used_bytes >= broker.memory_limit_bytes:
        return "memory"
    return "disk" if broker.disk_used_ratio >= broker.disk_limit_ratio else ""


def full_addresses(poll: RuleInputs) -> Mapping[str, str] | None:
    """By name those where producers wait, and why; None where not all that could make one wait is known."""
    addresses, broker = poll.snapshot.addresses, full_broker(poll.broker)
    if addresses is None or poll.left_out:
        return None
    percent, rows = addresses["limit_percent"], addresses.index.rows
    full = [i for i in np.flatnonzero((percent >= 100) | bool(broker)).tolist() if rows[i].policy == "block"]
    if not broker and not full:
        return {} if (percent < NEAR).all() else None
    return {rows[i].name: f"the broker's {broker} is full" if broker else f"full at {percent[i]:.0f} %" for i in full}


def sends_to(poll: RuleInputs) -> Mapping[str, tuple[str, float]]:
    """By session: a full address that it has sent to, and since when nothing came in there (broker's clock)."""
    full, producers, queues = poll.of(full_addresses), poll.snapshot.producers, poll.found.queues
    if not full or producers is None:
        return {}
    closed = dict(zip([row.address for row in queues], poll.timers.blocked.tolist(), strict=True))
    sent = zip(producers.index.rows.tolist(), producers["produced"].tolist(), strict=True)
    return {row.session: (row.address, closed.get(row.address, np.nan)) for row, n in sent if row.address in full and n}
