"""A ring queue on an address that pages when it is full."""

import numpy as np

from penstock.findings.context import FindingContext
from penstock.findings.finding import ARTEMIS, FindingRule, FindingScope, Found
from penstock.findings.subjects import of_queues


def find(context: FindingContext) -> Found:
    """All rings of the address when full, in bytes, against its own limit, else the broker's memory."""
    ring, at, size = context.queues["ring_limit"], context.address, context.mean_bytes
    # One more, so that the last stands for the address that is not known.
    paging = np.append(context.addresses.index.column("pages when full", lambda row: row.policy == "page") > 0, False)
    holds = context.applications & ~np.isnan(ring) & paging[at]
    known = ~np.isnan(ring) & (at >= 0)
    length = len(context.addresses) + 1
    rings = np.bincount(at[known], minlength=length)[at].astype(np.float64)
    needed = np.bincount(at[known], weights=(ring * size)[known], minlength=length)[at].astype(np.float64)
    limit = np.fmin(context.of_address("limit_bytes"), context.broker.memory_limit_bytes)
    yield from of_queues(
        RULE, context, holds, ring=ring, rings=rings, mean_bytes=size, needed_bytes=needed, limit_bytes=limit
    )


RULE = FindingRule(
    name="ring_on_paging_address",
    scope=FindingScope.QUEUE,
    brokers=ARTEMIS,
    find=find,
    when="a ring queue lies on an address whose policy is PAGE. A ring neither holds nor evicts paged messages",
    says="the queue is a ring, and its address pages when it is full: a ring holds no paged messages and cannot push"
    " them out",
    advice="keep the address in memory, or let its policy be DROP, BLOCK or FAIL: {rings:.0f} rings with"
    " {needed_bytes:.0f} bytes when full, against a limit of {limit_bytes:.0f}",
    arithmetic="ring size times mean message size, summed over the rings of the address, against the limit at which it"
    " pages (its own, else the broker's memory)",
    evidence={"messages": ("ring",), "queues": ("rings",), "bytes": ("mean_bytes", "needed_bytes", "limit_bytes")},
)
