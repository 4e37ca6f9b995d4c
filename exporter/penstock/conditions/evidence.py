"""What many conditions share: since when a rule is true and for how long it must be, the numbers, their units."""

from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter

import numpy as np

from penstock.conditions import openmq
from penstock.conditions.condition import Evidence, Raised
from penstock.conditions.wording import NAMES
from penstock.core.table import Column, Mask
from penstock.core.windows import halves
from penstock.observation.activity import RETURNED
from penstock.observation.onset import first_rise, where_asked
from penstock.observation.poll import RuleInputs
from penstock.settings.constants import Constants

UNITS: Mapping[str, str] = {
    name: unit for unit, names in NAMES["units"].items() for name in names.split()
}


def numbers(**places: str | Callable[[RuleInputs], Column]) -> Evidence:
    """Columns of the queues, or of the consumers: where `RuleInputs` has them, or how each is worked out."""
    columns = {
        name: attrgetter(of) if isinstance(of, str) else of
        for name, of in places.items()
    }
    return lambda poll, at: {name: column(poll)[at] for name, column in columns.items()}


def lost(line: int, *, share: bool = False) -> Evidence:
    """Messages of a line of `Losses` as the account has them, in all.

    share: in percent of those sent in the present spell, too. A loss has one total, the account's: a number of the
    spell beside it would be read as another one.
    """
    return lambda poll, at: (
        {"lost": poll.losses.amount[line][at]}
        | ({"share": 100 * poll.losses.share(line)[at]} if share else {})
    )


def spell(poll: RuleInputs, line: int, also: Mask | bool = True) -> Raised:
    """Where a line of `Losses` goes on growing, `also` this is so."""
    return Raised(
        also & poll.losses.go_on(line, poll.found, poll.constants),
        poll.losses.since[line],
    )


def rate(variable: int) -> Evidence:
    """A change over the window, per second: at most polls nothing happens of what comes in bursts."""
    return lambda poll, at: {"rate": poll.activity.window.rate(variable)[at]}


def accounted(name: str) -> Callable[[RuleInputs], Column]:
    """What the account of an OpenMQ broker says of the queues."""
    return lambda poll: np.asarray(
        poll.accounted.get(name, np.full(len(poll.found.queues), np.nan)), np.float64
    )


buffered = numbers(
    held="found.consumer.held",
    uncommitted="found.consumer.uncommitted",
    age=lambda poll: poll.found.now - poll.unacked.unacked_since,
    patience="client_patience",
    at_risk=lambda poll: poll.found.consumer.at_queue(poll.at_risk, np.nan),
)
"""Of consumers: what each has and has not settled, and what a ring would lose with it."""
ready_and_consumers = numbers(ready="found.ready", consumers="found.consumers")
full_address = numbers(limit_percent="found.address.limit_percent", ready="found.ready")
full_destination = numbers(
    ready="found.ready",
    limit="openmq.said.limit_messages",
    producers="openmq.said.producers",
    rejected=accounted("refused"),
    evicted=accounted("removed"),
    dead_letters=lambda poll: openmq.facts(poll).dead_letters.astype(np.float64),
    removed=lambda poll: poll.found.d_settled - poll.found.d_left,
)
"""On OpenMQ: what is there against the limit, who sends, what was refused or removed."""

window = Constants.window_seconds
trend = Constants.trend_seconds
"""Seconds over which returns, expiry and balances are judged, and over which a backlog must grow; by the constants and
the seconds between two polls.
"""


def nearly(poll: RuleInputs, seconds: Column | float) -> Column:
    """One poll before its time is over a rule may begin to agree: what it rests on was true all the time.

    It is raised when the time is over; without this each such condition would come one poll later than it could.
    """
    return np.subtract(
        seconds, max(0.0, poll.found.interval)
    )  # NaN before the second poll: 0.0 then


def dispatch_timeout(poll: RuleInputs) -> Column:
    """Per queue: for how long nothing may be delivered, seconds."""
    return np.maximum(poll.queue_patience, poll.dispatch)


undelivered = numbers(
    ready="found.ready",
    consumers="found.consumers",
    age=lambda poll: poll.found.now - np.fmax(poll.timers.ready, poll.timers.still),
    patience=dispatch_timeout,
)
"""Of queues from which nothing is delivered."""


def proof(poll: RuleInputs) -> Column:
    """Per queue: for how long what the broker says or arithmetic proves must last, seconds."""
    return np.full(len(poll.found.queues), poll.constants.proof)


def goes_on(poll: RuleInputs, variable: int) -> Raised:
    """Where it happens in both halves of the window, since it first did."""
    seen = poll.activity.window
    interval = poll.found.interval
    moved = poll.found.judged & (seen.sum(variable) > 0)
    if len(rows := np.flatnonzero(moved)):
        first, second = halves(seen.of(variable, rows))
        covered = seen.covers(
            rows, RETURNED, window(poll.constants, interval), interval
        )
        moved[rows] = (first.sum(axis=0) > 0) & (second.sum(axis=0) > 0) & covered
    return Raised(moved, where_asked(moved, partial(first_rise, seen, variable)))
