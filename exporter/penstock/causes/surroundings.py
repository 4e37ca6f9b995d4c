"""What is around a consumer: addresses that are full, who sends to them, clients that stopped with it."""

from collections.abc import Mapping

import numpy as np

from penstock.core.table import Positions
from penstock.model import Broker
from penstock.observation.poll import RuleInputs

TOGETHER = 2.0
"""Seconds within which something in common stops clients."""
NEAR = 90.0
"""Percent of its limit below which no address blocks."""


def consumers_of(poll: RuleInputs, queue: int) -> Positions:
    return np.flatnonzero(poll.found.consumer.queue == queue)


def stopped_with(poll: RuleInputs, row: int) -> list[str]:
    """Other clients that stopped when this one did. One that acknowledged later has not stopped: it may not commit."""
    since = poll.unacked.unacked_since
    consumer = poll.found.consumer
    rows = consumer.index.rows
    began_together = np.abs(since - since[row]) <= TOGETHER
    went_on = consumer.last_acknowledgement - since > TOGETHER
    at = np.flatnonzero(began_together & ~went_on)[:100]
    return sorted({rows[i].client for i in at.tolist()} - {rows[row].client})


def full_broker(broker: Broker) -> str:
    """What of the whole broker is known to be at its limit, so that every address blocks; empty where nothing is."""
    if broker.memory_used_bytes >= broker.memory_limit_bytes:
        return "memory"
    return "disk" if broker.disk_used_ratio >= broker.disk_limit_ratio else ""


def has_room(broker: Broker) -> bool:
    """Whether memory and disk of the whole broker were read, and both are below their limits."""
    has_memory = broker.memory_used_bytes < broker.memory_limit_bytes
    has_disk = broker.disk_used_ratio < broker.disk_limit_ratio
    return has_memory and has_disk


def full_addresses(poll: RuleInputs) -> Mapping[str, str] | None:
    """By name those where producers wait, and why; None where not all that could make one wait is known.

    A full address that does not page blocks. Its policy says so too, and is read every few minutes only.
    """
    addresses = poll.snapshot.addresses
    broker_limit = full_broker(poll.broker)
    if addresses is None or poll.left_out or not was_read_now(poll, "addresses"):
        return None
    percent = addresses["limit_percent"]
    paging = addresses["paging"]
    rows = addresses.index.rows
    if broker_limit == "disk":
        return {row.name: "the broker's disk is full" for row in rows}
    if broker_limit:
        waits = [
            row.name
            for row, pages in zip(rows, paging, strict=True)
            if row.policy == "block" and pages == 0
        ]
        return dict.fromkeys(waits, f"the broker's {broker_limit} is full")
    full = np.flatnonzero((percent >= 100) & (paging == 0))
    if len(full):
        return {rows[i].name: f"full at {percent[i]:.0f} %" for i in full.tolist()}
    return {} if has_room(poll.broker) and (percent < NEAR).all() else None


def was_read_now(poll: RuleInputs, part: str) -> bool:
    """Whether a part was read at this poll, and is not what an earlier one left."""
    collector = poll.snapshot.collectors.get(part)
    return collector is None or collector.usable


def sends_to(poll: RuleInputs) -> Mapping[str, tuple[str, float]]:
    """By session: a full address that it has sent to, and since when nothing came in there (broker's clock)."""
    full = poll.of(full_addresses)
    producers = poll.snapshot.producers
    queues = poll.found.queues
    if not full or producers is None:
        return {}
    closed = dict(
        zip([row.address for row in queues], poll.timers.blocked.tolist(), strict=True)
    )
    sent = zip(
        producers.index.rows.tolist(), producers["produced"].tolist(), strict=True
    )
    return {
        row.session: (row.address, closed.get(row.address, np.nan))
        for row, n in sent
        if row.address in full and n
    }
