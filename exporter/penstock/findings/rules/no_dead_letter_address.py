"""Deliveries are limited, and nothing takes what fails too often."""

from penstock.findings.context import FindingContext
from penstock.findings.finding import ARTEMIS, FindingRule, FindingScope, Found
from penstock.findings.subjects import of_queues


def find(context: FindingContext) -> Found:
    attempts = context.of_address("max_delivery_attempts")
    holds = context.applications & (context.queues["has_dead_letter_address"] == 0) & ~(attempts <= 0)
    yield from of_queues(RULE, context, holds, max_delivery_attempts=attempts, killed=context.queues["killed"])


RULE = FindingRule(
    name="no_dead_letter_address",
    scope=FindingScope.QUEUE,
    brokers=ARTEMIS,
    find=find,
    when="deliveries are limited, and the queue has no dead-letter address: what fails too often is thrown away",
    says="a message that fails {max_delivery_attempts:.0f} times is thrown away: the queue has no dead-letter address",
    advice="set dead-letter-address in its address settings; {killed:.0f} messages were given up since the broker's"
    " start",
    arithmetic="attempts, messages given up so far",
    evidence={"deliveries": ("max_delivery_attempts",), "messages": ("killed",)},
)
