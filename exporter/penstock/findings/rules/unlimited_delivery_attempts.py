"""A message that always fails is delivered for ever."""

import numpy as np

from penstock.findings.context import FindingContext
from penstock.findings.finding import ARTEMIS, Finding, FindingRule, FindingScope, Found


def find(context: FindingContext) -> Found:
    attempts = context.addresses["max_delivery_attempts"]
    used = np.zeros(len(attempts), np.bool_)
    used[context.address[context.applications & (context.address >= 0)]] = True
    for i in np.flatnonzero(used & (attempts <= 0)).tolist():
        name = context.addresses.index.rows[i].name
        yield Finding(RULE, name, name, evidence={"max_delivery_attempts": float(attempts[i])})


RULE = FindingRule(
    name="unlimited_delivery_attempts",
    scope=FindingScope.ADDRESS,
    brokers=ARTEMIS,
    find=find,
    when="max-delivery-attempts is 0 or less: a message that always fails is delivered for ever",
    says="a message that always fails is delivered for ever: max-delivery-attempts is {max_delivery_attempts:.0f}",
    advice="set max-delivery-attempts in the settings of the address, with a dead-letter address",
    arithmetic="the setting",
    evidence={"deliveries": ("max_delivery_attempts",)},
)
