"""Why nothing comes: producers that are gone, or connected and idle, or send to another address since."""

import numpy as np

from penstock.causes.verdict import Verdicts, judged
from penstock.model import ANONYMOUS
from penstock.observation.poll import RuleInputs

TOGETHER = 600.0
"""Seconds within which another queue gets its first messages, where the producer has moved."""
ALIKE = 2.0
"""Times by which its rate may differ."""


def silent(poll: RuleInputs, queue: int) -> Verdicts:
    rows, address = poll.snapshot.producers, poll.found.queues.rows[queue].address
    connected = None if rows is None else sum(row.address == address for row in rows.index)
    others = 0 if rows is None else sum(row.address == ANONYMOUS for row in rows.index)
    there = f"{connected} producers of {address} are connected, and {others} that name an address with each message"
    to = moved(poll, queue)
    return {
        "moved": judged(to, False, f"{to} gets as much since" if to else "", "no other queue began to get as much"),
        "producer_gone": judged(connected in (None, 0), False, "" if connected is None else there, there),
        "producer_idle": judged(connected != 0 or others, False, "" if connected is None else there, there),
    }


def moved(poll: RuleInputs, queue: int) -> str:
    """The queue that got its first messages when this one got its last, at a like rate; empty where there is none."""
    usual, rate = poll.usual, poll.trend.rate_in
    with np.errstate(invalid="ignore"):
        high, low = usual.expected.inflow[1][queue] / 3600, usual.expected.low[queue]
        unknown = usual.expected.weeks == 0  # before: history knows what did not begin now
        alike = unknown & (rate * ALIKE >= low) & (rate <= ALIKE * high) & (rate > 0)
        began = np.flatnonzero(alike & (np.abs(usual.began - usual.arrival[queue]) <= TOGETHER))
    return str(poll.found.queues.rows[began[0]].name) if len(began) else ""
