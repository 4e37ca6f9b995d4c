"""Whether the settlements of a queue count: a non-destructive queue keeps what is acknowledged."""

from penstock.core.windows import Mask
from penstock.observation.facts import Facts


def destructive(facts: Facts, asked: Mask) -> Mask:
    """
    Of the queues `asked`, those whose settlements are known to count.

    A non-destructive one settles nothing and attempts nothing; a loop delivers more than was ever added.
    """
    consumer = facts.consumer
    at = consumer.of(asked)
    queue = consumer.queue[at]
    again = facts.queues_of(at[consumer.delivered[at] > facts.added[queue]])
    return (facts.settled > 0) | (facts.attempts > 0) | again


def may_keep(facts: Facts, asked: Mask) -> Mask:
    """Of the queues `asked`, those whose consumers let go of messages though nothing shows that this counts."""
    consumer = facts.consumer
    at = consumer.of(asked)
    let_go = facts.queues_of(at[consumer.left[at] - consumer.uncommitted[at] > 0])
    return let_go & ~destructive(facts, asked)
