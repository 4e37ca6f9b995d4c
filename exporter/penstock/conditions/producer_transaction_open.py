"""`producer_transaction_open`: a producer has sent messages and does not commit. OpenMQ only."""

import numpy as np

from penstock.conditions import openmq
from penstock.conditions.condition import Condition, Raised, declared
from penstock.conditions.evidence import numbers
from penstock.core.table import Column
from penstock.core.windows import longer
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    """Messages are in an open transaction and nothing is settled, or the transaction is old; beyond the timeout."""
    state, said = openmq.of(poll)
    found = poll.found
    timeout = poll.queue_patience
    held = longer(state.queues.held_since, found.now, timeout) & longer(
        poll.timers.unsettled, found.now, timeout
    )
    return Raised(
        found.judged & (held | longer(said.transaction_since, found.now, timeout)),
        sent_since(poll),
    )


def sent_since(poll: RuleInputs) -> Column:
    state, said = openmq.of(poll)
    return np.fmin(state.queues.held_since, said.transaction_since)


evidence = numbers(
    uncommitted="openmq.said.held",
    age=lambda poll: poll.found.now - sent_since(poll),
    patience="queue_patience",
)
PRODUCER_TRANSACTION_OPEN = Condition(
    rule=rule, evidence=evidence, **declared("producer_transaction_open")
)
