"""The broker disconnects consumers that are as slow as this client is while healthy."""

import numpy as np

from penstock.findings.context import FindingContext
from penstock.findings.finding import ARTEMIS, FindingRule, FindingScope, Found
from penstock.findings.subjects import of_clients


def find(context: FindingContext) -> Found:
    if (clients := context.clients) is None:
        return
    kills = context.of_address("slow_consumer_kills") > 0
    limit = clients.of_queue(np.where(kills, context.of_address("slow_consumer_rate"), np.nan))
    gap = np.where(clients.longest > 0, clients.longest, np.nan)
    period = clients.of_queue(context.of_address("slow_consumer_period"))
    yield from of_clients(RULE, clients, gap * limit > 1, slow_rate=limit, gap=gap, rate=1 / gap, period=period)


RULE = FindingRule(
    name="slow_consumer_policy",
    scope=FindingScope.CLIENT,
    brokers=ARTEMIS,
    find=find,
    when="slow-consumer-policy is KILL, and its threshold is faster than the longest gap that the client has shown"
    " while healthy",
    says="the broker cuts off consumers slower than {slow_rate:.3g} messages a second, and this client lawfully takes"
    " {gap:.1f} s for one",
    advice="set slow-consumer-policy NOTIFY, or slow-consumer-threshold below {rate:.3g} a second",
    arithmetic="threshold, gap, the rate that this gap is",
    evidence={"messages/second": ("slow_rate", "rate"), "seconds": ("gap", "period")},
)
