"""The consumers of a ring queue buffer more than the ring takes back."""

import numpy as np

from penstock.findings.context import FindingContext
from penstock.findings.finding import ARTEMIS, FindingRule, FindingScope, Found
from penstock.findings.subjects import of_clients


def find(context: FindingContext) -> Found:
    """All consumers of the queue are taken to have windows like those of this client."""
    if (clients := context.clients) is None:
        return
    ring = clients.of_queue(context.queues["ring_limit"])
    consumers = clients.of_queue(context.queues["consumers"])
    most = clients.window * consumers
    advised = np.maximum(np.floor(ring / np.maximum(consumers, 1)), 1)
    yield from of_clients(
        RULE,
        clients,
        (clients.of_queue(context.applications) > 0) & (most > ring),
        window=clients.window,
        consumers=consumers,
        ring=ring,
        held_most=most,
        at_risk=most,
        advised=advised,
        advised_bytes=advised * clients.of_queue(context.mean_bytes),
    )


RULE = FindingRule(
    name="window_exceeds_ring",
    scope=FindingScope.CLIENT,
    brokers=ARTEMIS,
    find=find,
    when="the window of a client, times the consumers of the queue, is more than the ring. When they close or roll"
    " back, what does not fit is lost",
    says="what the consumers hold does not fit into the ring: when they close or roll back, up to {at_risk:.0f}"
    " messages are lost",
    advice="{knob}: a window of {window:.0f} messages for each of {consumers:.0f} consumers makes {held_most:.0f}, in a"
    " ring of {ring:.0f}; {advised:.0f} messages each fit ({advised_bytes:.0f} bytes)",
    arithmetic="window, consumers, ring; the window that fits, in messages and bytes",
    evidence={
        "messages": ("window", "ring", "held_most", "at_risk", "advised"),
        "consumers": ("consumers",),
        "bytes": ("advised_bytes",),
    },
)
