"""Several consumers share a queue of which the first to come can take everything."""

import numpy as np

from penstock.findings.context import FindingContext
from penstock.findings.finding import FindingRule, FindingScope, Found
from penstock.findings.subjects import FEW, of_clients


def find(context: FindingContext) -> Found:
    if (clients := context.clients) is None:
        return
    queues = context.queues
    shared = context.applications & ~(queues["exclusive"] > 0) & ~(queues["grouped"] > 0) & (queues["consumers"] >= 2)
    consumers = clients.of_queue(np.where(shared, queues["consumers"], np.nan))
    deepest = clients.of_queue(context.deepest)
    prefetch = np.fmax(clients.window, clients.largest)
    most, advised = prefetch * consumers, np.maximum(np.floor(deepest / consumers), 1)
    holds = (prefetch >= FEW) & (most > deepest)
    yield from of_clients(
        RULE, clients, holds, prefetch=prefetch, consumers=consumers, taken_most=most, deepest=deepest, advised=advised
    )


RULE = FindingRule(
    name="prefetch_exceeds_queue",
    scope=FindingScope.CLIENT,
    find=find,
    when="what one consumer takes ahead, times the consumers, is more than the queue ever held, and at least"
    f" {FEW}: the first to come takes all. Not on exclusive or grouped queues",
    says="one consumer can take all: it takes {prefetch:.0f} messages ahead, times {consumers:.0f} consumers that is"
    " {taken_most:.0f}, and the queue never held more than {deepest:.0f}",
    advice="{knob}: at most {advised:.0f} messages each would share what there is",
    arithmetic="prefetch, consumers, the deepest ever seen, the prefetch that would share it",
    evidence={"messages": ("prefetch", "taken_most", "deepest", "advised"), "consumers": ("consumers",)},
)
