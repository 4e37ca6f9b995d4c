"""`limit_losing`: a full destination removes messages to make room. OpenMQ only."""

from penstock.conditions import openmq
from penstock.conditions.condition import OPENMQ, Alert, Condition, Raised, Scope
from penstock.conditions.evidence import at_this_poll, full_destination
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
    title="A full destination removes messages to make room.",
    rule=rule,
    when="the destination is at its limit, its behaviour removes messages, and more than"
    f" {MARGIN:.0f} left that no consumer let go, or the dead message queue took some in",
    quiet_on="a destination below its limit, REJECT_NEWEST and FLOW_CONTROL; the dead message queue, which keeps the"
    " newest 1,000",
    evidence=full_destination,
    causes={"limit": "the destination is full and its limit behaviour removes messages"},
    action="at least {evicted:.0f} messages were removed before a client acknowledged them, {removed:.0f} in the last"
    " poll{removed_text}: raise the limit, or have producers wait (FLOW_CONTROL)",
    of_address=True,
    brokers=OPENMQ,
    alert=Alert(
        name="PenstockLimitLosing",
        description="{in_queue} is at its limit and removed {eviction.evicted|sum of 15m} messages within 15m;"
        " {queue.messages} are there.",
        runbook="rings",
        critical=False,
        dashboard="penstock-rings",
    ),
)
