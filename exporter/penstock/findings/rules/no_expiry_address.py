"""Messages have expired, and nothing takes them."""

from penstock.findings.context import FindingContext
from penstock.findings.finding import ARTEMIS, FindingRule, FindingScope, Found
from penstock.findings.subjects import of_queues


def find(context: FindingContext) -> Found:
    expired = context.queues["expired"]
    holds = context.applications & (context.queues["has_expiry_address"] == 0) & (expired > 0)
    yield from of_queues(RULE, context, holds, expired=expired)


RULE = FindingRule(
    name="no_expiry_address",
    scope=FindingScope.QUEUE,
    brokers=ARTEMIS,
    find=find,
    when="messages have expired in a queue that has no expiry address",
    says="messages expire here and are thrown away: the queue has no expiry address",
    advice="set expiry-address in its address settings, if they matter; {expired:.0f} expired since the broker's start",
    arithmetic="messages expired so far",
    evidence={"messages": ("expired",)},
)
