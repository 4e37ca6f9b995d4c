"""`redelivery_loop`: messages are delivered, come back and are delivered again."""

import numpy as np

from penstock.causes import failures
from penstock.conditions import openmq
from penstock.conditions.condition import Condition, Raised, Variant, declared
from penstock.conditions.evidence import numbers, window, window_begin
from penstock.conditions.starving import destructive
from penstock.core.table import Column, Mask, Positions
from penstock.core.windows import longer
from penstock.observation.activity import PERSISTENT_POLLS, Returns
from penstock.observation.poll import RuleInputs

DEFAULT_ATTEMPTS = 10.0
"""max-delivery-attempts where the settings do not say."""


def rule(poll: RuleInputs) -> Raised:
    return Raised(loops(poll) & (not poll.found.settling), window_begin(poll))


def loops(poll: RuleInputs) -> Mask:
    """Queues to which messages keep coming back while deliveries go on."""
    mask = poll.found.judged & poll.returns.persistent & (poll.returns.delivered > 0)
    return mask & destructive(poll.found, mask)


def openmq_rule(poll: RuleInputs) -> Raised:
    """Of a subscription, which counts nothing, a consumer that gives messages back for longer than its threshold."""
    state, said = openmq.of(poll)
    returning = longer(state.consumers.returning_since, poll.found.now, poll.client_patience)
    by_member = poll.found.of_queue(returning.astype(np.float64)) > 0
    return Raised((loops(poll) & said.balanced) | (poll.found.judged & ~said.balanced & by_member), window_begin(poll))


def notice(poll: RuleInputs, queues: Positions) -> Mask:
    said = poll.found.address.max_delivery_attempts
    return only_few_fail(poll.returns, np.where(np.isnan(said), DEFAULT_ATTEMPTS, said))[queues]


def only_few_fail(returns: Returns, attempts: Column) -> Mask:
    """The queue moves, and what comes back is a share that ends in the dead letters.

    Few failures in a window vary: three standard deviations above the share are still that share.
    """
    lasting = returns.returned - np.maximum(attempts - 1, 0) * returns.killed
    share = 0.02 * returns.delivered
    return (returns.settled > 0) & (lasting < share + 3 * np.sqrt(share))


evidence = numbers(
    returned="returns.returned",
    delivered="returns.delivered",
    settled="returns.settled",
    killed="returns.killed",
    max_delivery_attempts="found.address.max_delivery_attempts",
)
REDELIVERY_LOOP = Condition(
    rule=rule,
    evidence=evidence,
    decide=failures.comes_back,
    notice=notice,
    window=window,
    variants={
        "openmq": Variant(rule=openmq_rule, decide=failures.comes_back_openmq, **declared("redelivery_loop", "openmq"))
    },
    **declared("redelivery_loop", polls=PERSISTENT_POLLS),
)
