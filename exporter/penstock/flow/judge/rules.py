"""
The rules: one small function a condition, columns in, mask out. `docs/conditions.md` says them in words.

A function's mask is what the rule says at this poll; that two polls must agree is the business of `standing`.
"""

import numpy as np

from penstock.flow.judge.constants import Constants
from penstock.flow.judge.facts import Facts
from penstock.flow.judge.history import Returns, Trend
from penstock.flow.judge.holds import Holds
from penstock.flow.judge.spans import Mask, longer
from penstock.model import Broker, QueueKind
from penstock.table import Column

# --- on a consumer


def stalled(facts: Facts, holds: Holds, patience: Column) -> Mask:
    """Holds messages, has settled none for longer than its patience, and nothing is acknowledged uncommitted."""
    return longer(holds.mark, facts.now, patience) & (facts.consumer.uncommitted == 0)


def open_transaction(facts: Facts, holds: Holds, patience: Column) -> Mask:
    """The same with acknowledgements that are not committed."""
    return longer(holds.mark, facts.now, patience) & (facts.consumer.uncommitted > 0)


def orphaned(facts: Facts) -> Mask:
    """The broker says that its session is gone. Not a browser, which is listed too: it counts nothing."""
    consumer = facts.consumer
    return consumer.orphaned & ((consumer.delivered > 0) | (consumer.held > 0))


# --- on a queue


def redelivery_loop(facts: Facts, returns: Returns) -> Mask:
    """Messages keep coming back while deliveries go on."""
    loops = facts.judged & returns.persistent & (returns.delivered > 0)
    return loops & destructive(facts, loops)


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


def only_few_fail(returns: Returns, attempts: Column) -> Mask:
    """
    Of a redelivery loop: the queue moves, and what comes back is a share that ends in the dead letters: a notice.

    Few failures in a window vary: three standard deviations above the share are still that share.
    """
    lasting = returns.returned - np.maximum(attempts - 1, 0) * returns.killed
    share = 0.02 * returns.delivered
    return (returns.settled > 0) & (lasting < share + 3 * np.sqrt(share))


def not_dispatching(facts: Facts, holds: Holds, ready_since: Column, still_since: Column, patience: Column) -> Mask:
    """Messages wait, a consumer that could take them holds nothing, and nothing has moved for longer than usual."""
    waits = longer(ready_since, facts.now, patience) & longer(still_since, facts.now, patience)
    waits = waits & facts.judged & (facts.consumers > 0)
    if not waits.any():
        return waits
    consumer, size = facts.consumer, len(waits)
    at = consumer.of(waits)
    idle = at[np.isnan(holds.hold_since[at]) & longer(holds.seen_since[at], facts.now, patience[consumer.queue[at]])]
    free = np.bincount(consumer.queue[idle], minlength=size)
    selective = np.bincount(consumer.queue[idle[consumer.selective[idle]]], minlength=size)
    nobody_holds = facts.held + facts.of_queue(consumer.uncommitted) == 0
    served = (facts.exclusive == 0) | nobody_holds
    wanted = (selective < free) | (facts.d_added > 0)
    starves = waits & (free > 0) & served & wanted
    return starves & ~may_keep(facts, starves)


def no_consumer(facts: Facts, ready_since: Column, absent_since: Column, patience: Column) -> Mask:
    """Nobody is there, nothing is settled and messages wait, for longer than an absence usually lasts."""
    waits = longer(ready_since, facts.now, patience) & longer(absent_since, facts.now, patience)
    return facts.judged & ~facts.parked & waits & (facts.consumers == 0)


def never_read(facts: Facts, was_read: Mask) -> Mask:
    """
    Of an absence: no consumer was ever seen nor anything ever settled, while messages come: a notice.

    Not of a durable subscription: its consumer made it.
    """
    subscribed = facts.queues.column("subscribed", lambda row: row.durable and row.kind is QueueKind.SUBSCRIPTION) > 0
    return ~was_read & ~subscribed


def paused(facts: Facts) -> Mask:
    """The broker says that an operator holds the queue or its address."""
    return facts.judged & ((facts.paused > 0) | (facts.address.paused > 0))


def depaging_frozen(facts: Facts) -> Mask:
    """So much is delivered and unacknowledged that the queue reads no more pages, and all its consumers starve."""
    address = facts.address
    full = (address.page_read_bytes > 0) & (facts.delivering_bytes >= 0.9 * address.page_read_bytes)
    many = (address.page_read_messages > 0) & (facts.delivering >= address.page_read_messages)
    return facts.judged & (address.paging > 0) & (full | many) & (facts.ready > 0)


def producers_blocked(facts: Facts, broker_full: bool) -> Mask:
    """
    Nothing comes in, and the address is full under BLOCK, an operator blocks it, or the whole broker is full.

    To none of its queues: one whose filter wants nothing of it says nothing of the producers.
    """
    address = facts.address
    full = (address.limit_percent >= 100) & ~(address.paging > 0)
    return facts.judged & (address.d_added == 0) & (full | (address.producers_paused > 0) | broker_full)


def rejecting(facts: Facts) -> Mask:
    """The queues of an address that drops or refuses."""
    return facts.judged & refuses(facts)


def refuses(facts: Facts) -> Mask:
    """A full address that drops or refuses: it says it pages, and has no pages."""
    address = facts.address
    return (address.limit_percent >= 100) & (address.paging > 0) & (address.pages == 0)


def falling_behind(facts: Facts, trend: Trend) -> Mask:
    """Consumers work and the backlog keeps growing. A ring ends growing at its size: its losses are told instead."""
    return facts.judged & trend.behind & np.isnan(facts.ring)


def hoarding(facts: Facts, holds: Holds, pace: Column, stalled_on: Mask, idle: float, constants: Constants) -> Mask:
    """
    One consumer holds nearly everything that is left while a peer has had nothing for `idle` seconds.

    pace: per consumer, the most it settled per second over the last polls. It needs more than half a minute for what it
    holds, so waiting for it is worse than sharing would be. One that is stalled is told as that.
    """
    shared = facts.judged & (facts.exclusive == 0) & (facts.ready == 0) & (facts.held >= 10)
    consumer = facts.consumer
    at = consumer.of(shared)
    held = consumer.held[at]
    much = (held >= 10) & (held >= 0.8 * facts.held[consumer.queue[at]])
    at, held = at[much], held[much]
    slow = (pace[at] > 0) & (held >= constants.persistent * pace[at]) & ~stalled_on[at]
    hoards = facts.queues_of(at[slow])
    peers = consumer.of(hoards)
    starving = facts.queues_of(peers[longer(holds.idle_since[peers], facts.now, idle)])
    return hoards & starving & ~facts.queues_of(peers[consumer.selective[peers]])


def idle_since(facts: Facts, holds: Holds, asked: Mask) -> Column:
    """Of the queues `asked`: since when the first of their consumers holds nothing."""
    at = facts.consumer.of(asked)
    since = np.full(len(asked), np.nan)
    np.fmin.at(since, facts.consumer.queue[at], holds.idle_since[at])
    return since


def too_few_consumers(facts: Facts, expected: Column) -> Mask:
    """Fewer than the operator expects, while messages wait or come."""
    few = (facts.consumers > 0) & (facts.consumers < expected)
    return facts.judged & few & ((facts.ready > 0) | (facts.d_added > 0))


# --- on a ring


def at_risk(facts: Facts) -> Column:
    """
    Messages that a ring would lose if all its consumers went away now.

    Only what they give back finds no room: what a shrunk ring has too many of stays until somebody reads. NaN without a
    ring, while paging, and where it keeps what is acknowledged.
    """
    risk = np.clip(facts.messages - facts.scheduled - facts.ring, 0.0, facts.delivering)
    return np.where((facts.address.paging > 0) | facts.keeps, np.nan, risk)


def scheduled_at_risk(facts: Facts) -> Column:
    """Scheduled messages that would find no room if they fell due now; NaN without a ring and while paging."""
    room = np.maximum(facts.ring - facts.ready, 0.0)
    return np.where(facts.address.paging > 0, np.nan, np.maximum(facts.scheduled - room, 0.0))


# --- on the broker


def broker_full(broker: Broker) -> bool:
    """Disk or message memory of the whole broker at its limit: then every address blocks, whatever its policy."""
    return bool(
        broker.disk_used_ratio >= broker.disk_limit_ratio or broker.memory_used_bytes >= broker.memory_limit_bytes
    )
