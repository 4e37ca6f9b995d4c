"""`limit_losing`: a full destination removes messages to make room. OpenMQ only."""

from penstock.conditions import openmq
from penstock.conditions.condition import Condition, Raised, declared
from penstock.conditions.evidence import full_destination
from penstock.observation.openmq import MARGIN
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    """It has just done so; dead letters are kept so by design."""
    found = poll.found
    removes = found.now - openmq.of(poll)[0].queues.removing_at <= max(
        poll.constants.proof, 3 * found.interval
    )
    return Raised(found.judged & ~found.parked & removes)


LIMIT_LOSING = Condition(
    rule=rule, evidence=full_destination, **declared("limit_losing", messages=MARGIN)
)
