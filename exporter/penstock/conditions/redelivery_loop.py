"""`redelivery_loop`: messages are delivered, come back and are delivered again."""

from functools import partial

import numpy as np

from penstock.causes import failures
from penstock.conditions import openmq
from penstock.conditions.condition import Condition, Raised, Variant, declared
from penstock.conditions.evidence import window
from penstock.conditions.starving import destructive
from penstock.core.table import Column, Mask, Positions
from penstock.core.windows import longer
from penstock.observation.activity import PERSISTENT_POLLS, RETURNED, Returns
from penstock.observation.onset import balance_onset, where_asked
from penstock.observation.poll import RuleInputs

DEFAULT_ATTEMPTS = 10.0
"""max-delivery-attempts where the settings do not say."""


def rule(poll: RuleInputs) -> Raised:
    mask = loops(poll) & (not poll.found.settling)
    return Raised(mask, where_asked(mask, partial(came_back_since, poll)))


def came_back_since(poll: RuleInputs, queues: Positions) -> Column:
    """When messages began to come back to these queues."""
    return balance_onset(poll.activity.window, RETURNED, queues)


def loops(poll: RuleInputs) -> Mask:
    """Queues to which messages keep coming back while deliveries go on."""
    mask = poll.found.judged & poll.returns.persistent & (poll.returns.delivered > 0)
    return mask & destructive(poll.found, mask)


def openmq_rule(poll: RuleInputs) -> Raised:
    """Of a subscription, which counts nothing, a consumer that gives messages back for longer than its threshold."""
    state, said = openmq.of(poll)
    returning = longer(
        state.consumers.returning_since, poll.found.now, poll.client_patience
    )
    of_queue = loops(poll) & said.balanced
    by_member = (
        poll.found.judged
        & ~said.balanced
        & poll.found.queues_of(np.flatnonzero(returning))
    )
    since = where_asked(of_queue, partial(came_back_since, poll))
    members_since = earliest_of_queue(
        poll, np.where(returning, state.consumers.returning_since, np.nan)
    )
    return Raised(of_queue | by_member, np.where(of_queue, since, members_since))


def earliest_of_queue(poll: RuleInputs, times: Column) -> Column:
    """Per queue the earliest of these times of its consumers; NaN where none of them has one."""
    earliest = np.full(len(poll.found.queues), np.nan)
    known = np.flatnonzero(~np.isnan(times) & (poll.found.consumer.queue >= 0))
    np.fmin.at(earliest, poll.found.consumer.queue[known], times[known])
    return earliest


def notice(poll: RuleInputs, queues: Positions) -> Mask:
    said = poll.found.address.max_delivery_attempts
    return only_few_fail(
        poll.returns, np.where(np.isnan(said), DEFAULT_ATTEMPTS, said)
    )[queues]


def only_few_fail(returns: Returns, attempts: Column) -> Mask:
    """The queue moves, and what comes back is a share that ends in the dead letters.

    Few failures in a window vary: three standard deviations above the share are still that share.
    """
    lasting = returns.returned - np.maximum(attempts - 1, 0) * returns.killed
    share = 0.02 * returns.delivered
    return (returns.settled > 0) & (lasting < share + 3 * np.sqrt(share))


def evidence(poll: RuleInputs, at: Positions) -> dict[str, Column]:
    """Over the window. Of a subscription of OpenMQ, which counts nothing, nothing: it is no 0."""
    returns = poll.returns
    columns = {
        "returned": returns.returned[at],
        "delivered": returns.delivered[at],
        "settled": returns.settled[at],
        "killed": returns.killed[at],
    }
    counted = columns["returned"] > 0
    of_deliveries = {
        name: np.where(counted, column, np.nan) for name, column in columns.items()
    }
    return {
        **of_deliveries,
        "max_delivery_attempts": poll.found.address.max_delivery_attempts[at],
    }


REDELIVERY_LOOP = Condition(
    rule=rule,
    evidence=evidence,
    decide=failures.comes_back,
    notice=notice,
    window=window,
    variants={
        "openmq": Variant(
            rule=openmq_rule,
            decide=failures.comes_back_openmq,
            **declared("redelivery_loop", "openmq"),
        )
    },
    **declared("redelivery_loop", polls=PERSISTENT_POLLS),
)
