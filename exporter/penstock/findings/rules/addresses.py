"""What the settings of addresses, and of the broker, lose or let through."""

import numpy as np

from penstock.findings.finding import (
    Finding,
    FindingRule,
    Found,
    finding_rule,
    of_queues,
)
from penstock.findings.usage import FindingContext


@finding_rule()
def ring_on_paging_address(rule: FindingRule, context: FindingContext) -> Found:
    """All rings of the address when full, in bytes, against its own limit, else the broker's memory."""
    ring = context.queues["ring_limit"]
    at = context.address
    size = context.mean_bytes
    # One more, so that the last is the address that is not known.
    paging = np.append(
        context.addresses.index.column(
            "pages when full", lambda row: row.policy == "page"
        )
        > 0,
        False,
    )
    holds = context.applications & ~np.isnan(ring) & paging[at]
    known = ~np.isnan(ring) & (at >= 0)
    length = len(context.addresses) + 1
    rings = np.bincount(at[known], minlength=length)[at].astype(np.float64)
    needed = np.bincount(at[known], weights=(ring * size)[known], minlength=length)[
        at
    ].astype(np.float64)
    limit = np.fmin(
        context.of_address("limit_bytes"), context.broker.memory_limit_bytes
    )
    yield from of_queues(
        rule,
        context,
        holds,
        ring=ring,
        rings=rings,
        mean_bytes=size,
        needed_bytes=needed,
        limit_bytes=limit,
    )


@finding_rule()
def no_dead_letter_address(rule: FindingRule, context: FindingContext) -> Found:
    attempts = context.of_address("max_delivery_attempts")
    holds = (
        context.applications
        & (context.queues["has_dead_letter_address"] == 0)
        & ~(attempts <= 0)
    )
    yield from of_queues(
        rule,
        context,
        holds,
        max_delivery_attempts=attempts,
        killed=context.queues["killed"],
    )


@finding_rule()
def no_expiry_address(rule: FindingRule, context: FindingContext) -> Found:
    expired = context.queues["expired"]
    holds = (
        context.applications
        & (context.queues["has_expiry_address"] == 0)
        & (expired > 0)
    )
    yield from of_queues(rule, context, holds, expired=expired)


def unbound(
    rule: FindingRule, context: FindingContext, target: str, makes: str, sent: str
) -> Found:
    """Addresses that queues send messages to, and that have no queue.

    target: the field with where a queue sends to, empty where nowhere. makes: the column that says whether the broker
    makes a queue there when it is needed. sent: the one that counts what was sent.
    """
    index = context.queues.index
    to = index.column(f"code of {target}", lambda row: code(getattr(row, target)))
    own = index.column("code of address", lambda row: code(row.address))
    # Thousands of queues share a few targets: their texts are compared as numbers, which the index keeps.
    at = np.flatnonzero(
        (to > 0) & context.applications & ~(context.of_address(makes) > 0)
    )
    at = at[~np.isin(to[at], own)]
    _, first, shared = np.unique(to[at], return_index=True, return_inverse=True)
    for n in np.argsort(first).tolist():
        name = getattr(index.rows[at[first[n]]], target)
        sources = at[shared == n]
        evidence = {
            "sources": float(len(sources)),
            sent: float(np.nansum(context.queues[sent][sources])),
        }
        yield Finding(rule, name, name, evidence=evidence)


def code(text: str) -> float:
    """A number for a text, by which columns can be compared; 0 for none."""
    return float(hash(text) & (2**52 - 1)) if text else 0.0


@finding_rule()
def dead_letter_address_unbound(rule: FindingRule, context: FindingContext) -> Found:
    return unbound(
        rule, context, "dead_letter_address", "makes_dead_letter_queues", "killed"
    )


@finding_rule()
def expiry_address_unbound(rule: FindingRule, context: FindingContext) -> Found:
    return unbound(rule, context, "expiry_address", "makes_expiry_queues", "expired")


@finding_rule()
def unlimited_delivery_attempts(rule: FindingRule, context: FindingContext) -> Found:
    attempts = context.addresses["max_delivery_attempts"]
    used = np.zeros(len(attempts), np.bool_)
    used[context.address[context.applications & (context.address >= 0)]] = True
    for i in np.flatnonzero(used & (attempts <= 0)).tolist():
        name = context.addresses.index.rows[i].name
        yield Finding(
            rule, name, name, evidence={"max_delivery_attempts": float(attempts[i])}
        )


@finding_rule()
def management_guard_off(rule: FindingRule, context: FindingContext) -> Found:
    if context.broker.unguarded > 0:
        yield Finding(rule, context.name)
