"""`open_transaction`: a consumer has acknowledged messages and does not commit."""

import numpy as np

from penstock.causes import stalled
from penstock.conditions import evidence, openmq
from penstock.conditions.condition import Condition, Raised, Variant, declared
from penstock.conditions.evidence import nearly
from penstock.core.table import Column, Mask, Positions
from penstock.core.windows import longer
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    return Raised(
        uncommitted(poll, nearly(poll, poll.client_patience)),
        poll.unacked.unacked_since,
        poll.client_patience,
    )


def uncommitted(poll: RuleInputs, threshold: Column) -> Mask:
    """Consumers that settled nothing for longer than the threshold (seconds), with uncommitted acknowledgements."""
    return longer(poll.unacked.unacked_since, poll.found.now, threshold) & (
        poll.found.consumer.uncommitted > 0
    )


def openmq_rule(poll: RuleInputs) -> Raised:
    """Acknowledged and not committed for longer than its threshold; a transaction that has failed ends by no commit."""
    judged = ~np.isnan(poll.client_patience)
    lasts = uncommitted(poll, poll.client_patience) & ~openmq.gives_back(poll)
    failed = longer(
        openmq.of(poll)[0].consumers.failed_since, poll.found.now, poll.constants.proof
    )
    return Raised(lasts | failed & judged, openmq.unacked_since(poll))


def begun(poll: RuleInputs) -> Column:
    """Per consumer: since when a transaction is open on its connection, where the broker says that; else NaN."""
    consumers = poll.snapshot.consumers
    return np.empty(0) if consumers is None else consumers["transaction_begun"]


def proven_rule(poll: RuleInputs) -> Raised:
    """The broker says since when a transaction of the connection is open, and nothing was settled for as long."""
    patience = nearly(poll, poll.client_patience)
    held = poll.found.consumer.held > 0
    lasts = longer(
        np.fmax(begun(poll), poll.unacked.unacked_since), poll.found.now, patience
    )
    return Raised(
        lasts & held & ~np.isnan(begun(poll)), begun(poll), poll.client_patience
    )


def proven(poll: RuleInputs, at: Positions) -> dict[str, Column]:
    return {**evidence.buffered(poll, at), "age": poll.found.now - begun(poll)[at]}


OPEN_TRANSACTION = Condition(
    rule=rule,
    evidence=evidence.buffered,
    decide=stalled.decide_uncommitted,
    variants={
        "openmq": Variant(
            rule=openmq_rule,
            decide=stalled.decide_openmq_uncommitted,
            **declared("open_transaction", "openmq"),
        ),
        "classic": Variant(
            rule=proven_rule, evidence=proven, **declared("open_transaction", "classic")
        ),
    },
    **declared("open_transaction"),
)
