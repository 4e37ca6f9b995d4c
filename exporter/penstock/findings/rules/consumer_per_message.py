"""A client opens a consumer for each message."""

import numpy as np

from penstock.findings.context import FindingContext
from penstock.findings.finding import FindingRule, FindingScope, Found
from penstock.findings.subjects import FEW, of_client
from penstock.learned import arrivals

LEAST_POLLS = 5
PER_MESSAGE = 2
"""Messages that a new consumer had got, at most."""
NEW_SHARE = 0.8
"""Of the consumers seen, those that were new, at least."""


def find(context: FindingContext) -> Found:
    if context.clients is None:
        return
    came = context.clients.arrivals
    new, begin, last = came.of(arrivals.NEW), came.of(arrivals.BEGIN), came.of(arrivals.LAST)
    each = came.of(arrivals.DELIVERED) / np.maximum(new, 1)
    often = (new >= FEW) & (came.of(arrivals.POLLS) >= LEAST_POLLS) & (new >= NEW_SHARE * came.of(arrivals.SEEN))
    for i in np.flatnonzero(often & (each <= PER_MESSAGE)).tolist():
        evidence = {"new": float(new[i]), "seconds": float(last[i] - begin[i]), "each": float(each[i])}
        yield of_client(RULE, came.clients[i], evidence, {})


RULE = FindingRule(
    name="consumer_per_message",
    scope=FindingScope.CLIENT,
    find=find,
    when=f"within some minutes, at {LEAST_POLLS} polls or more, at least {FEW} consumers of a client came,"
    f" {100 * NEW_SHARE:.0f} % of those seen were new, and had got {PER_MESSAGE} messages at most",
    says="the client opens a consumer for each message: {new:.0f} came in {seconds:.0f} s, each got {each:.1f}"
    " messages",
    advice="keep the consumer (and its session and connection) open, or use a pool that caches consumers",
    arithmetic="consumers, seconds, messages each",
    evidence={"consumers": ("new",), "seconds": ("seconds",), "messages": ("each",)},
)
