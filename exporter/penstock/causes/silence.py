"""Why nothing comes: producers that are gone, or connected and idle, or send to another address since."""

import numpy as np

from penstock.causes.case import Case
from penstock.causes.evidence import NumberRead, all_of, negated
from penstock.causes.verdict import AGAINST, Verdicts, concluded, possible
from penstock.model import ANONYMOUS
from penstock.observation.poll import RuleInputs

TOGETHER = 600.0
"""Seconds within which another queue gets its first messages, where the producer has moved."""
ALIKE = 2.0
"""Times by which its rate may differ."""


def silent(case: Case) -> Verdicts:
    address = case.queue_row.address
    connected = producers_of(case, address, "the list of producers")
    others = producers_of(case, ANONYMOUS, "the list of producers")
    there = ""
    if connected.is_known:
        there = f"{connected.value:.0f} producers of {address} are connected"
        there += f", and {others.value:.0f} that name an address with each message"
    to = moved(case.poll, case.row)
    elsewhere = f"{AGAINST}no other queue of this broker began to get as much"
    is_idle = connected.above(0)
    unconnected = all_of(connected.equals(0), others.equals(0))
    return {
        "moved": possible(
            f"{to} gets as much since" if to else elsewhere, likely=bool(to)
        ),
        "producer_gone": concluded(there, excluded_by=is_idle, otherwise=there),
        "producer_idle": concluded(
            there, excluded_by=all_of(negated(is_idle), unconnected), otherwise=there
        ),
    }


def producers_of(case: Case, address: str, name: str) -> NumberRead:
    """How many producers of an address were listed since it fell silent."""
    producers = case.snapshot.producers
    if producers is None or case.left_out:
        return NumberRead(name, np.nan)
    count = sum(row.address == address for row in producers.index)
    return NumberRead(name, float(count), case.stale("producers"))


def moved(poll: RuleInputs, queue: int) -> str:
    """The queue that got its first messages when this one got its last, at a like rate; empty where there is none."""
    usual = poll.usual
    rate = poll.trend.rate_in
    with np.errstate(invalid="ignore"):
        high = usual.expected.inflow[1][queue] / 3600
        low = usual.expected.low[queue]
        unknown = (
            usual.expected.weeks == 0
        )  # before: history knows what did not begin now
        alike = unknown & (rate * ALIKE >= low) & (rate <= ALIKE * high) & (rate > 0)
        began = np.flatnonzero(
            alike & (np.abs(usual.began - usual.arrival[queue]) <= TOGETHER)
        )
    return str(poll.found.queues.rows[began[0]].name) if len(began) else ""
