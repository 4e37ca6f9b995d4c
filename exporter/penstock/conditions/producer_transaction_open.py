"""`producer_transaction_open`: a producer has sent messages and does not commit. OpenMQ only."""

from collections.abc import Mapping

import numpy as np

from penstock.conditions import openmq
from penstock.conditions.condition import OPENMQ, Alert, Condition, Raised, Scope
from penstock.core.table import Column, Positions
from penstock.core.windows import longer
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    """Messages are in an open transaction and nothing is settled, or the transaction is old; beyond the timeout."""
    state, said = openmq.of(poll)
    found, timeout = poll.found, poll.queue_patience
    held = longer(state.queues.held_since, found.now, timeout) & longer(poll.timers.unsettled, found.now, timeout)
    return Raised(found.judged & (held | longer(said.transaction_since, found.now, timeout)), sent_since(poll))


def sent_since(poll: RuleInputs) -> Column:
    state, said = openmq.of(poll)
    return np.fmin(state.queues.held_since, said.transaction_since)


def evidence(poll: RuleInputs, at: Positions) -> Mapping[str, Column]:
    return {
        "uncommitted": openmq.facts(poll).held[at],
        "age": poll.found.now - sent_since(poll)[at],
        "patience": poll.queue_patience[at],
    }


PRODUCER_TRANSACTION_OPEN = Condition(
    name="producer_transaction_open",
    scope=Scope.QUEUE,
    title="A producer has sent messages and does not commit.",
    rule=rule,
    when="messages stand in an open transaction and nothing is settled, or the transaction itself is old; both for"
    " longer than the patience",
    quiet_on="commits, also when their rhythm fits that of the polls",
    evidence=evidence,
    causes={
        "never_commits": "a producer has sent in a transaction and does not commit",
        "frozen": "its process is frozen",
    },
    action="{uncommitted:.0f} messages were sent {age:.0f} s ago and are not committed; nobody can read them, and the"
    " broker ends the transaction at imq.transaction.producer.maxNumMsgs",
    brokers=OPENMQ,
    alert=Alert(
        name="PenstockProducerTransactionOpen",
        description="Messages sent to {in_queue} have stayed uncommitted longer than usual; {queue.ready} messages"
        " wait.",
        runbook="queues",
    ),
)
