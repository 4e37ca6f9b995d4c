"""What the settings of addresses, and of the broker, lose or let through."""

import numpy as np

from penstock.core.table import Column, Index, Mask
from penstock.findings.finding import (
    Finding,
    FindingRule,
    Found,
    finding_rule,
    of_queues,
)
from penstock.findings.usage import FindingContext, sums
from penstock.model import QueueRow


@finding_rule()
def ring_on_paging_address(rule: FindingRule, context: FindingContext) -> Found:
    """Find queues with a ring limit on an address that pages when it is full: a ring does not evict paged messages.

    The evidence compares the bytes of all rings of the address when full with the limit of the address, or with the
    broker's memory, if that is lower.
    """
    ring = context.queues["ring_limit"]
    is_ring = ~np.isnan(ring)
    mean_bytes = context.mean_bytes
    own_limit = context.of_address("limit_bytes")
    limit = np.fmin(own_limit, context.broker.memory_limit_bytes)
    each_one = np.ones(len(ring))
    evidence = {
        "ring": ring,
        "rings": sum_over_address(context, is_ring, each_one),
        "mean_bytes": mean_bytes,
        "needed_bytes": sum_over_address(context, is_ring, ring * mean_bytes),
        "limit_bytes": limit,
    }
    applies = context.applications & is_ring & pages_when_full(context)
    yield from of_queues(rule, context, applies, evidence)


def pages_when_full(context: FindingContext) -> Mask:
    """(queues,) Whether the queue's address pages messages when it is full."""
    column = context.addresses.index.column(
        "pages when full", lambda address: address.policy == "page"
    )
    pages = column > 0
    # One more at the end, where the position -1 of an unknown address is.
    return np.append(pages, np.False_)[context.address]


def sum_over_address(context: FindingContext, chosen: Mask, values: Column) -> Column:
    """(queues,) The sum of the values over the chosen queues of its address; 0 where the address is not known."""
    is_counted = chosen & (context.address >= 0)
    size = (
        len(context.addresses) + 1
    )  # the last one, always 0, is for unknown addresses
    by_address = sums(context.address[is_counted], values[is_counted], size)
    return by_address[context.address]


@finding_rule()
def no_dead_letter_address(rule: FindingRule, context: FindingContext) -> Found:
    """Find queues that drop a message after its last delivery attempt, as they have no dead-letter address."""
    attempts = context.of_address("max_delivery_attempts")
    has_none = context.queues["has_dead_letter_address"] == 0
    is_unlimited = attempts <= 0
    applies = context.applications & has_none & ~is_unlimited
    evidence = {
        "max_delivery_attempts": attempts,
        "killed": context.queues["killed"],
    }
    yield from of_queues(rule, context, applies, evidence)


@finding_rule()
def no_expiry_address(rule: FindingRule, context: FindingContext) -> Found:
    """Find queues that have dropped expired messages, as they have no expiry address."""
    expired = context.queues["expired"]
    has_none = context.queues["has_expiry_address"] == 0
    some_expired = expired > 0
    applies = context.applications & has_none & some_expired
    evidence = {"expired": expired}
    yield from of_queues(rule, context, applies, evidence)


def unbound(
    rule: FindingRule,
    context: FindingContext,
    target: str,
    makes_queue: str,
    counter: str,
) -> Found:
    """Return a finding for each address that queues send messages to, and that has no queue.

    Args:
        rule: The rule.
        context: What the rule reads.
        target: The field with the address that a queue sends to; empty where it sends nothing.
        makes_queue: The column that tells whether the broker makes a queue there when one is needed.
        counter: The column that counts the messages sent there.
    """
    targets = codes_of_targets(context.queues.index, target)
    makes_none = ~(context.of_address(makes_queue) > 0)
    has_target = targets > 0
    applies = context.applications & makes_none & has_target
    sources = np.flatnonzero(applies)
    for one_target in in_first_order(targets[sources]):
        senders = sources[targets[sources] == one_target]
        a_sender = context.queues.index.rows[senders[0]]
        address = getattr(a_sender, target)
        messages = context.queues[counter][senders]
        sent = np.nansum(messages)
        evidence = {
            "sources": float(len(senders)),
            counter: float(sent),
        }
        yield Finding(rule, address, address, evidence=evidence)


def codes_of_targets(queues: Index[QueueRow], target: str) -> Column:
    """(queues,) A number for the address that the queue sends to; 0 where it sends nothing, or the address has a queue.

    Thousands of queues share a few targets: their texts are compared as numbers, which the index keeps.
    """

    def code_of_target(queue: QueueRow) -> float:
        return code(getattr(queue, target))

    def code_of_address(queue: QueueRow) -> float:
        return code(queue.address)

    targets = queues.column(f"code of {target}", code_of_target)
    addresses = queues.column("code of address", code_of_address)
    has_queue = np.isin(targets, addresses)
    return np.where(has_queue, 0.0, targets)


def in_first_order(values: Column) -> list[float]:
    """Return each value once, in the order in which they occur first."""
    distinct, first = np.unique(values, return_index=True)
    order = np.argsort(first)
    in_order: list[float] = distinct[order].tolist()
    return in_order


def code(text: str) -> float:
    """Return a number for a text, by which columns can be compared; 0 for an empty text."""
    if not text:
        return 0.0
    bits_of_a_float = hash(text) & (2**52 - 1)
    return float(bits_of_a_float)


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
    """Find addresses of applications that deliver a message again and again, without a limit of attempts."""
    attempts = context.addresses["max_delivery_attempts"]
    has_address = context.applications & (context.address >= 0)
    is_used = np.zeros(len(attempts), np.bool_)
    is_used[context.address[has_address]] = True
    is_unlimited = attempts <= 0
    for row in np.flatnonzero(is_used & is_unlimited).tolist():
        name = context.addresses.index.rows[row].name
        evidence = {
            "max_delivery_attempts": float(attempts[row]),
        }
        yield Finding(rule, name, name, evidence=evidence)


@finding_rule()
def management_guard_off(rule: FindingRule, context: FindingContext) -> Found:
    """Find the broker where Penstock's own account may read messages, which an exporter must not."""
    if context.broker.unguarded > 0:
        yield Finding(rule, context.name)
