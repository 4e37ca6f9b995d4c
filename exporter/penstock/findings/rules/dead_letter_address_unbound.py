"""A dead-letter address without a queue, unless the broker makes one when the first dead letter comes."""

from penstock.findings.context import FindingContext
from penstock.findings.finding import FindingRule, FindingScope, Found
from penstock.findings.unbound import unbound


def find(context: FindingContext) -> Found:
    made = context.of_address("makes_dead_letter_queues") > 0
    yield from unbound(RULE, context, "dead_letter_address", made, "killed")


RULE = FindingRule(
    name="dead_letter_address_unbound",
    scope=FindingScope.ADDRESS,
    find=find,
    when="the address that a queue sends its dead letters to has no queue, and the broker does not make one",
    says="dead letters are sent to an address that has no queue, and vanish",
    advice="create a queue on it; {sources:.0f} queues send there, which gave up {killed:.0f} messages so far",
    arithmetic="queues that send there, messages given up so far",
    evidence={"queues": ("sources",), "messages": ("killed",)},
)
