"""The numbers that several conditions rest on, and the unit of each."""

from collections.abc import Mapping

import numpy as np

from penstock.conditions import openmq
from penstock.conditions.condition import Evidence
from penstock.core.table import Column, Positions
from penstock.observation.poll import RuleInputs

UNITS: Mapping[str, str] = {
    "held": "messages",
    "uncommitted": "messages",
    "age": "seconds",
    "patience": "seconds",
    "at_risk": "messages",
    "returned": "messages",
    "delivered": "messages",
    "settled": "messages",
    "killed": "messages",
    "consumers_seen": "consumers",
    "given_back": "messages",
    "leaked": "messages",
    "one_in": "messages",
    "consumers": "consumers",
    "dispatch_at": "consumers",
    "expected": "consumers",
    "consumers_needed": "consumers",
    "ready": "messages",
    "rate": "messages/second",
    "rate_in": "messages/second",
    "rate_out": "messages/second",
    "delivering_bytes": "bytes",
    "limit_bytes": "bytes",
    "limit_percent": "percent",
    "evicted": "messages",
    "ring": "messages",
    "lost": "messages",
    "lost_at_most": "messages",
    "lost_in_all": "messages",
    "growth": "messages",
    "most": "messages",
    "removed": "messages",
    "rejected": "messages",
    "limit": "messages",
    "paused": "consumers",
    "dead_letters": "yes_or_no",
    "producers": "producers",
    "polls": "polls",
    "share": "percent",
}


def of_queues(*names: str) -> Evidence:
    """Facts of the queues by their own names."""
    return lambda poll, at: {name: getattr(poll.found, name)[at] for name in names}


def rate(change: str) -> Evidence:
    """A change since the poll before, per second."""
    return lambda poll, at: {"rate": getattr(poll.found, change)[at] / max(poll.found.interval, 1e-9)}


def buffered(poll: RuleInputs, at: Positions) -> dict[str, Column]:
    """Of consumers: what each has and has not settled, and what a ring would lose with it."""
    consumer = poll.found.consumer
    return {
        "held": consumer.held[at],
        "uncommitted": consumer.uncommitted[at],
        "age": poll.found.now - poll.unacked.unacked_since[at],
        "patience": poll.client_patience[at],
        "at_risk": np.append(poll.at_risk, np.nan)[consumer.queue[at]],
    }


def undelivered(poll: RuleInputs, at: Positions) -> dict[str, Column]:
    """Of queues from which nothing is delivered. On OpenMQ also consumers whose application does not call receive()."""
    found, timers = poll.found, poll.timers
    columns = {
        "ready": found.ready[at],
        "consumers": found.consumers[at],
        "age": found.now - np.fmax(timers.ready[at], timers.still[at]),
        "patience": np.fmax(poll.queue_patience[at], poll.dispatch[at]),
        "dispatch_at": found.dispatch_at[at],
    }
    if poll.openmq is not None:
        columns["paused"] = found.of_queue(openmq.facts(poll).flow_paused & (found.consumer.held == 0))[at]
    return columns


def full_address(poll: RuleInputs, at: Positions) -> dict[str, Column]:
    return {"limit_percent": poll.found.address.limit_percent[at], "ready": poll.found.ready[at]}


def full_destination(poll: RuleInputs, at: Positions) -> dict[str, Column]:
    """On OpenMQ: what is there against the limit, who sends, what was refused or removed."""
    facts, nothing = openmq.facts(poll), np.full(len(poll.found.queues), np.nan)
    return {
        "ready": poll.found.ready[at],
        "limit": facts.limit_messages[at],
        "producers": facts.producers[at],
        "rejected": poll.accounted.get("refused", nothing)[at],
        "evicted": poll.accounted.get("removed", nothing)[at],
        "dead_letters": facts.dead_letters[at].astype(np.float64),
        "removed": (poll.found.d_settled - poll.found.d_left)[at],
    }
