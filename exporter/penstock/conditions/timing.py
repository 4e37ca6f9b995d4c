"""Since when a rule is true, and for how long it must be: what the rules of many conditions share."""

import numpy as np

from penstock.core.table import Column
from penstock.observation.poll import RuleInputs
from penstock.settings.constants import Constants

window, trend = Constants.window_seconds, Constants.trend_seconds
"""
Seconds over which returns, expiry and balances are judged, and over which a backlog must grow; by the constants and
the seconds between two polls.
"""


def nearly(poll: RuleInputs, seconds: Column | float) -> Column:
    """
    One poll before its time is over a rule may begin to agree: what it rests on was true all the time.

    It is raised when the time is over; without this each such condition would come one poll later than it could.
    """
    return np.subtract(seconds, max(0.0, poll.found.interval))  # NaN before the second poll: 0.0 then


def dispatch_timeout(poll: RuleInputs) -> Column:
    """Per queue: for how long nothing may be delivered, seconds."""
    return np.maximum(poll.queue_patience, poll.dispatch)


def proof(poll: RuleInputs) -> Column:
    """Per queue: for how long what the broker says or arithmetic proves must last, seconds."""
    return np.full(len(poll.found.queues), poll.constants.proof)


def at_this_poll(poll: RuleInputs) -> Column:
    return np.full(len(poll.found.queues), poll.found.now)


def ago(poll: RuleInputs, seconds: float) -> Column:
    return np.full(len(poll.found.queues), poll.found.now - seconds)


def window_begin(poll: RuleInputs) -> Column:
    return ago(poll, window(poll.constants, poll.found.interval))
