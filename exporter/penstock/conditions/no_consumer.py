"""`no_consumer`: messages wait and no consumer comes."""

import numpy as np

from penstock.causes import backlog
from penstock.conditions.condition import Condition, Raised, declared
from penstock.conditions.evidence import nearly, numbers
from penstock.core.table import Mask, Positions
from penstock.core.windows import longer
from penstock.model import QueueKind
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    found = poll.found
    timers = poll.timers
    timeout = nearly(poll, poll.absence)
    waits = longer(timers.ready, found.now, timeout) & longer(
        timers.absent, found.now, timeout
    )
    mask = (
        found.judged
        & ~found.parked
        & waits
        & (found.consumers == 0)
        & ~poll.closed
        & ~(poll.expected == 0)
    )
    coming = ~never_read(poll) | (poll.trend.comes > 0) | (poll.expected > 0)
    return Raised(
        mask & coming & (not found.settling),
        np.fmax(timers.ready, timers.absent),
        poll.absence,
    )


def never_read(poll: RuleInputs) -> Mask:
    """No consumer was ever seen nor anything ever settled. Not of a durable subscription: its consumer made it."""
    queues = poll.found.queues
    subscribed = (
        queues.column(
            "subscribed", lambda row: row.durable and row.kind is QueueKind.SUBSCRIPTION
        )
        > 0
    )
    return ~poll.timers.had_consumer & ~subscribed


def notice(poll: RuleInputs, queues: Positions) -> Mask:
    return (~(poll.expected > 0) & never_read(poll))[queues]


evidence = numbers(
    ready="found.ready",
    age=lambda poll: poll.found.now - np.fmax(poll.timers.ready, poll.timers.absent),
    patience="absence",
    rate="trend.comes",
)
NO_CONSUMER = Condition(
    rule=rule,
    evidence=evidence,
    notice=notice,
    decide=backlog.unread_queue,
    **declared("no_consumer"),
)
