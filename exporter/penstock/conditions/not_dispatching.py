"""`not_dispatching`: messages wait although a free consumer is there."""

from penstock.causes import undelivered as deciding
from penstock.conditions import openmq
from penstock.conditions.condition import Condition, Raised, Variant, declared
from penstock.conditions.connection_paused import CONNECTION_PAUSED
from penstock.conditions.depaging_frozen import DEPAGING_FROZEN
from penstock.conditions.evidence import dispatch_timeout, undelivered
from penstock.conditions.paused import PAUSED
from penstock.conditions.starving import starving
from penstock.observation.poll import RuleInputs


def openmq_rule(poll: RuleInputs) -> Raised:
    """As long again, where a consumer that has stopped may have filled the connection: `connection_paused` follows."""
    raised = starving(poll)
    late = starving(poll, 2 * dispatch_timeout(poll))
    filled = openmq.starved_by(poll, openmq.filling(poll, poll.found.interval))
    return raised._replace(mask=raised.mask & (late.mask | ~filled))


NOT_DISPATCHING = Condition(
    rule=starving,
    evidence=undelivered,
    decide=deciding.decide,
    silenced_by=(PAUSED, DEPAGING_FROZEN, CONNECTION_PAUSED),
    variants={
        "openmq": Variant(
            rule=openmq_rule,
            decide=deciding.decide_openmq,
            **declared("not_dispatching", "openmq"),
        )
    },
    **declared("not_dispatching"),
)
