"""`open_transaction`: a consumer has acknowledged messages and does not commit."""

import numpy as np

from penstock.causes import stalled
from penstock.conditions import evidence, openmq
from penstock.conditions.condition import Condition, Raised, Variant, declared
from penstock.conditions.evidence import nearly
from penstock.core.table import Column, Mask
from penstock.core.windows import longer
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
    rule=rule,
    evidence=evidence.buffered,
    decide=stalled.decide_uncommitted,
    variants={
        "openmq": Variant(
            rule=openmq_rule, decide=stalled.decide_openmq_uncommitted, **declared("open_transaction", "openmq")
        )
    },
    **declared("open_transaction"),
)
