"""What many conditions share: since when a rule is true and for how long it must be, the numbers, their units."""

from collections.abc import Mapping
from operator import attrgetter

import numpy as np

from penstock.conditions import openmq
from penstock.conditions.condition import Evidence, Raised
from penstock.conditions.wording import NAMES
from penstock.core.table import Column, Mask, Positions
from penstock.core.windows import halves
from penstock.observation.activity import RETURNED
from penstock.observation.poll import RuleInputs
from penstock.settings.constants import Constants

UNITS: Mapping[str, str] = {name: unit for unit, names in NAMES["units"].items() for name in names.split()}


def numbers(**places: str) -> Evidence:
    """Columns of the queues, by where `RuleInputs` has them."""
    columns = {name: attrgetter(place) for name, place in places.items()}
    return lambda poll, at: {name: column(poll)[at] for name, column in columns.items()}


def lost(line: int, *, share: bool = False) -> Evidence:
    """Messages of a line of `Losses` in the present spell; share: in percent of those sent, too."""
    return lambda poll, at: (
        {"lost": poll.losses.lost[line][at]} | ({"share": 100 * poll.losses.share(line)[at]} if share else {})
    )


def spell(poll: RuleInputs, line: int, also: Mask | bool = True) -> Raised:
    """Where a line of `Losses` goes on growing, `also` this is so."""
    return Raised(also & poll.losses.go_on(line, poll.found, poll.constants), poll.losses.since[line])


def rate(variable: int) -> Evidence:
    """A change over the window, per second: at most polls nothing happens of what comes in bursts."""
    return lambda poll, at: {"rate": poll.activity.window.rate(variable)[at]}


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
    """Of queues from which nothing is delivered."""
    found, timers = poll.found, poll.timers
    return {
        "ready": found.ready[at],
        "consumers": found.consumers[at],
        "age": found.now - np.fmax(timers.ready[at], timers.still[at]),
        "patience": np.fmax(poll.queue_patience[at], poll.dispatch[at]),
    }


ready_and_consumers = numbers(ready="found.ready", consumers="found.consumers")
full_address = numbers(limit_percent="found.address.limit_percent", ready="found.ready")


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


window, trend = Constants.window_seconds, Constants.trend_seconds
"""Seconds over which returns, expiry and balances are judged, and over which a backlog must grow; by the constants and
the seconds between two polls.
"""


def nearly(poll: RuleInputs, seconds: Column | float) -> Column:
    """One poll before its time is over a rule may begin to agree: what it rests on was true all the time.

    It is raised when the time is over; without this each such condition would come one poll later than it could.
    """
    return np.subtract(seconds, max(0.0, poll.found.interval))  # NaN before the second poll: 0.0 then


def dispatch_timeout(poll: RuleInputs) -> Column:
    """Per queue: for how long nothing may be delivered, seconds."""
    return np.maximum(poll.queue_patience, poll.dispatch)


def proof(poll: RuleInputs) -> Column:
    """Per queue: for how long what the broker says or arithmetic proves must last, seconds."""
    return np.full(len(poll.found.queues), poll.constants.proof)


def ago(poll: RuleInputs, seconds: float) -> Column:
    return np.full(len(poll.found.queues), poll.found.now - seconds)


def window_begin(poll: RuleInputs) -> Column:
    return ago(poll, window(poll.constants, poll.found.interval))


def goes_on(poll: RuleInputs, variable: int) -> Raised:
    """Where it happens in both halves of the window."""
    seen, interval = poll.activity.window, poll.found.interval
    moved = poll.found.judged & (seen.sum(variable) > 0)
    if len(rows := np.flatnonzero(moved)):
        first, second = halves(seen.of(variable, rows))
        covered = seen.covers(rows, RETURNED, window(poll.constants, interval), interval)
        moved[rows] = (first.sum(axis=0) > 0) & (second.sum(axis=0) > 0) & covered
    return Raised(moved, window_begin(poll))
