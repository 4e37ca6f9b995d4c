"""`open_transaction`: a consumer has acknowledged messages and does not commit."""

import numpy as np

from penstock.causes import stalled
from penstock.conditions import evidence, openmq
from penstock.conditions.condition import Condition, Raised, Scope, Variant
from penstock.conditions.evidence import nearly
from penstock.conditions.texts import texts
from penstock.core.table import Column
from penstock.core.windows import Mask, longer
from penstock.model import BrokerKind
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    return Raised(
        uncommitted(poll, nearly(poll, poll.client_patience)), poll.unacked.unacked_since, poll.client_patience
    )


def uncommitted(poll: RuleInputs, threshold: Column) -> Mask:
    """Consumers that settled nothing for longer than the threshold (seconds), with uncommitted acknowledgements."""
    return longer(poll.unacked.unacked_since, poll.found.now, threshold) & (poll.found.consumer.uncommitted > 0)


def openmq_rule(poll: RuleInputs) -> Raised:
    """Acknowledged and not committed for longer than its threshold; a transaction that has failed ends by no commit."""
    judged = ~np.isnan(poll.client_patience)
    lasts = uncommitted(poll, poll.client_patience) & ~openmq.gives_back(poll)
    failed = longer(openmq.of(poll)[0].consumers.failed_since, poll.found.now, poll.constants.proof)
    return Raised(lasts | failed & judged, openmq.unacked_since(poll))


OPEN_TRANSACTION = Condition(
    name="open_transaction",
    scope=Scope.CLIENT,
    rule=rule,
    evidence=evidence.buffered,
    decide=stalled.decide_uncommitted,
    by_consumer=True,
    variants={
        BrokerKind.OPENMQ.name: Variant(
            rule=openmq_rule,
            when="the transaction of a consumer's connection holds acknowledgements and the consumer settled none for"
            " longer than its client's patience, or the broker says for {proof} that the transaction has failed",
            causes={
                "never_commits": "a transaction that is not committed",
                "transaction_failed": "one that has failed: more than imq.transaction.consumer.maxNumMsgs (100)"
                " messages in it",
            },
            decide=stalled.decide_openmq_uncommitted,
        )
    },
    **texts("open_transaction"),
)
