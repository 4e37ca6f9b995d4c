"""Why messages wait: who would read them, and whether more consumers would get any, by the kind of queue."""

from operator import attrgetter

import numpy as np

from penstock.causes.slowness import ALIKE
from penstock.causes.verdict import AGAINST, Verdicts, judged, possible
from penstock.core.windows import halves
from penstock.model import QueueKind
from penstock.observation.activity import FLOW_OUT
from penstock.observation.poll import RuleInputs
from penstock.observation.usual import DAY, WINDOWS

STUCK = 60.0
"""Seconds without an acknowledgement, after which a consumer that buffers messages has no share in the pace."""


def grows(poll: RuleInputs, queue: int) -> Verdicts:
    """More consumers help where those that are there work, and each gets whatever comes."""
    found, columns = poll.found, {} if poll.snapshot.queues is None else poll.snapshot.queues.columns
    said = ("exclusive", "max_consumers", "groups", "grouped")
    exclusive, most, groups, shared = (columns[name][queue] if name in columns else 0.0 for name in said)
    there, number = np.flatnonzero(found.consumer.queue == queue), found.consumers[queue]
    chosen = {found.consumer.index.rows[i].filter for i in there.tolist()}
    stuck = there[found.now - poll.unacked.unacked_since[there] >= STUCK]
    first, second = (half.sum() for half in halves(poll.activity.trend.of(FLOW_OUT, np.array([queue]))))
    needed = np.ceil(number * poll.trend.comes[queue] / poll.trend.rate_out[queue])
    holds = f"{len(stuck)} of {number:.0f} consumers buffer {found.consumer.held[stuck].sum():.0f} messages"
    slower = f"{first:.0f} were acknowledged in the first half of the time, {second:.0f} in the second"
    own = found.queues.rows[queue].kind is QueueKind.SUBSCRIPTION
    where = "that share this subscription" if own else "without message groups, or with as many groups"
    idle = {
        "exclusive": "further consumers stand by" if exclusive > 0 else "",
        "max_consumers": f"{number:.0f} are there" if 0 < most <= number else "",
        "groups": f"it has {groups:.0f} message groups, which stay with the consumers that they have"
        if groups > 0 and not shared > 0
        else "",
    }
    selectors = f"their selectors: {', '.join(sorted(chosen)[:3])}" if chosen and "" not in chosen else ""
    free = bool(selectors) and not found.consumer.held[there].any()
    times, stands = poll.usual.times[queue], len(stuck) > 0
    founded = poll.usual.windows[queue] >= WINDOWS or poll.usual.known_for(found.now, DAY)[queue]
    known = times >= ALIKE or (founded and not np.isnan(times))
    slowed = times >= ALIKE or (not known and second < first / 2)
    if known:
        slower = f"a message takes {times:.1f} times as long as usual"
    gave_back, settled = poll.returns.returned[queue], poll.returns.settled[queue]
    fails = bool(poll.returns.persistent[queue]) and gave_back > settled
    back = f"{gave_back:.0f} messages came back, {settled:.0f} were settled"
    fix = holds if stands else back if fails else slower if slowed else ""
    more = f"first fix these: {fix}" if fix else f"{needed:.0f} at this pace keep up, {where}"
    return {
        **{name: judged(fact, True, fact, "it is not so") for name, fact in idle.items()},
        "selector": judged(selectors, free, selectors, "it is not so"),
        "holders": judged(stands, True, holds, "all acknowledge"),
        "became_slower": judged(slowed or not known, times >= ALIKE, slower, slower),
        "too_few_consumers": judged(not any(idle.values()) and not free, False, more, "more would get none"),
    }


def unread(poll: RuleInputs, queue: int) -> Verdicts:
    """Who was refused is only in the broker's log."""
    refused, read = poll.broker.authentication_failures, poll.timers.had_consumer[queue]
    logins = f"{refused:.0f} logins were refused since the broker's start" if refused > 0 else ""
    known = "consumers read it before" if read else "consumers are expected"
    unmeant = not read and not poll.expected[queue] > 0
    return {
        "login_refused": judged(refused != 0, False, logins, "no login was refused since the broker's start")._replace(
            likely=bool(refused > 0)
        ),
        "other_queue": possible(f"{AGAINST}a consumer read this queue before" if read else ""),
        "meant_for_nobody": judged(unmeant, False, "no consumer was ever seen, and none is expected", known),
    }


def gone(poll: RuleInputs, client: str) -> Verdicts:
    """Of a consumer that went: what ended it, an operator, the network or its process, no broker shows."""
    connections = poll.snapshot.connections
    there = connections is None or len(connections.index.where("client", attrgetter("client"), {client})) > 0
    back = "" if connections is None else "a connection of the client is listed: it kept that, or has come back since"
    none = "no connection of the client is listed: it closed it, lost it, or an operator closed it"
    return {
        "connection_died": judged(True, False, back if there else none, ""),
        "consumer_closed": judged(there, False, back, none),
    }


def paused(poll: RuleInputs, queue: int) -> Verdicts:
    found, number = poll.found, sum(row.address == poll.found.queues.rows[queue].address for row in poll.found.queues)
    address = f"its address, which stops {number} queues" if found.address.paused[queue] > 0 else ""
    itself = "the queue itself" if found.paused[queue] > 0 else ""
    return {"paused": judged(True, True, " and ".join(filter(None, (itself, address))), "")}
