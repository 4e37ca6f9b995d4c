"""`limit_losing`: a full destination removes messages to make room. OpenMQ only."""

from penstock.conditions import openmq
from penstock.conditions.condition import OPENMQ, Condition, Raised, Scope
from penstock.conditions.evidence import at_this_poll, full_destination
from penstock.conditions.texts import texts
from penstock.observation.openmq import MARGIN
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    """It has just done so; dead letters are kept so by design."""
    found = poll.found
    shown = max(poll.constants.proof, 3 * found.interval)
    removes = found.now - openmq.of(poll)[0].queues.removing_at <= shown
    return Raised(found.judged & ~found.parked & removes, at_this_poll(poll))


LIMIT_LOSING = Condition(
    name="limit_losing",
    scope=Scope.QUEUE,
    rule=rule,
    when="the destination is at its limit, its behaviour removes messages, and more than"
    f" {MARGIN:.0f} left that no consumer let go, or the dead message queue took some in",
    evidence=full_destination,
    of_address=True,
    brokers=OPENMQ,
    **texts("limit_losing"),
)
