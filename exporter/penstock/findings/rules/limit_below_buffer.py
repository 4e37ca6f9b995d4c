"""A limit removes messages that a client already has in its buffer, as that takes more than the limit leaves."""

import numpy as np

from penstock.findings.context import FindingContext
from penstock.findings.finding import OPENMQ, FindingRule, FindingScope, Found
from penstock.findings.subjects import of_queues


def find(context: FindingContext) -> Found:
    stale, limit = context.stale, context.of_address("limit_messages")
    buffered = context.queues["delivering"] + stale
    yield from of_queues(
        RULE,
        context,
        context.applications & (stale > 0),
        stale=stale,
        limit=limit,
        buffered=buffered,
        advised=np.maximum(np.floor(limit / 10), 1),
    )


RULE = FindingRule(
    name="limit_below_buffer",
    scope=FindingScope.QUEUE,
    brokers=OPENMQ,
    find=find,
    when="at four polls in a row consumers hold messages that the limit of the destination (REMOVE_OLDEST,"
    " REMOVE_LOW_PRIORITY) has removed",
    says="its clients hold {buffered:.0f} messages, of which the limit of {limit:.0f} has removed {stale:.0f}: with"
    " receive() and AUTO_ACKNOWLEDGE the application never gets them, and a listener handles them although a copy is in"
    " the dead message queue",
    advice="set ConsumerFlowLimit of the destination, or imqConsumerFlowLimit of its clients, to {advised:.0f}: the"
    " oldest messages are then in the destination, not in a buffer",
    arithmetic="sum of what consumers hold less what the destination has in delivery; a tenth of the limit",
    evidence={"messages": ("stale", "limit", "buffered", "advised")},
)
