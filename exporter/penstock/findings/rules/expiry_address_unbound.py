"""An expiry address without a queue, unless the broker makes one when the first message expires."""

from penstock.findings.context import FindingContext
from penstock.findings.finding import FindingRule, FindingScope, Found
from penstock.findings.unbound import unbound


def find(context: FindingContext) -> Found:
    made = context.of_address("makes_expiry_queues") > 0
    yield from unbound(RULE, context, "expiry_address", made, "expired")


RULE = FindingRule(
    name="expiry_address_unbound",
    scope=FindingScope.ADDRESS,
    find=find,
    when="the address that a queue sends expired messages to has no queue, and the broker does not make one",
    says="expired messages are sent to an address that has no queue, and vanish",
    advice="create a queue on it; {sources:.0f} queues send there, in which {expired:.0f} messages expired so far",
    arithmetic="queues that send there, messages expired so far",
    evidence={"queues": ("sources",), "messages": ("expired",)},
)
