"""Consumers that come and go: clients that reconnect without progress, clients that crash, consumers that leave.

A client crashes again and again, in a *crash loop*, if its consumers vanish with messages, and have settled none, while
other consumers of the queue work. A *streak* is a time in which a client reconnects and its queue settles nothing. A
*departure* is a consumer that was idle for long and left with messages. Only few clients are looked at: those with a
new consumer on a queue without progress, and those of which a consumer vanished that buffered messages.

No poll sees an acknowledgement just before a consumer goes, but then its queue settles more than its consumers show:
these messages are settled *unseen*.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from penstock.core.state import RowState, column, mask, unindexed
from penstock.core.table import Column, Mask, Positions
from penstock.observation.facts import CONSUMER_NUMBERS, Facts, Seen, or_zero
from penstock.observation.poll import RuleInputs
from penstock.observation.unacked import Unacked
from penstock.series.labels import ClientSeries, Grouping
from penstock.settings.constants import POLLS

OLD = 3
"""Polls at which consumers of a streak came, before it can be a condition."""
KEEP = 3600.0
"""Seconds after which a streak without new consumers is forgotten."""
SHOWN = 300.0
"""Seconds for which a departure is kept."""
LONG = 30.0
"""Seconds; a consumer that had settled nothing for a shorter time and leaves with messages is not reported."""
SECONDS = 600.0
"""Consumers that vanished longer ago do not count."""
LEAST = 5
LEAST_POLLS = 3
"""Consumers that vanished, and polls at which some did, at least: a pool that stops once is no loop."""
MORE = 2
"""So many consumers more for each one that had settled messages: instances that are stopped in their first job are no
loop.
"""
UNSEEN = 3.0
UNSEEN_SHARE = 0.2
"""So many messages of the queue, and so many for each consumer, may seem to be settled unseen only because numbers are
not read at one moment.
"""
SWEEP_SECONDS = 60.0
"""Between two times at which all loops are looked at."""
MOST = 10_000
"""Clients that are followed."""
HELD = CONSUMER_NUMBERS.index("buffered")
"""Line of the buffered messages in the numbers of consumers; `SETTLED` is that of the acknowledged ones."""
SETTLED = CONSUMER_NUMBERS.index("acknowledged")


class Departed(NamedTuple):
    """The consumers that vanished with messages since the poll before.

    Attributes:
        client: Position of the client of each at the poll before.
        at: Its own position at the poll before.
        queue: Position of its queue now.
        held: Messages that it buffered.
        settled: Messages that it had settled, in all.
    """

    client: Positions
    at: Positions
    queue: Positions
    held: Column
    settled: Column

    def only(self, stays: Mask) -> "Departed":
        """Return those of the consumers for which `stays` is True."""
        return Departed(
            client=self.client[stays],
            at=self.at[stays],
            queue=self.queue[stays],
            held=self.held[stays],
            settled=self.settled[stays],
        )


def departed_consumers(
    facts: Facts, clients: Grouping[ClientSeries], seen: Seen
) -> Departed:
    """Return the consumers of judged queues that vanished with messages, those of hidden clients excepted.

    Args:
        facts: The numbers of the poll.
        clients: At the poll before.
        seen: The numbers of the poll before.
    """
    vanished = facts.consumer.gone
    # At the first poll after a start of the agent no clients are known.
    has_client = vanished.at < len(clients.member)
    is_placed = has_client & (vanished.queue >= 0)
    position = vanished.at[is_placed]
    numbers = seen.consumers.numbers
    departed = Departed(
        client=clients.member[position],
        at=position,
        queue=vanished.queue[is_placed],
        held=or_zero(numbers[HELD, position]),
        settled=or_zero(numbers[SETTLED, position]),
    )
    is_shown = departed.client >= 0
    is_judged = facts.judged[departed.queue]
    return departed.only(is_shown & is_judged & (departed.held > 0))


def next_run(
    run: int, *, on: bool, holds: bool, may_come: bool = True
) -> tuple[int, bool]:
    """Return how many polls in a row a rule had the same result, and whether its condition is active.

    POLLS in a row make the condition active, and as many clear it.

    Args:
        run: The polls up to the one before: positive while the rule holds, negative while it does not.
        on: Whether the condition was active.
        holds: Whether the rule holds at this poll.
        may_come: Whether the condition may become active at this poll.
    """
    run = max(run, 0) + 1 if holds else min(run, 0) - 1
    begins = may_come and run >= POLLS
    goes_on = on and run > -POLLS
    return run, begins or goes_on


# --- crash loops


@dataclass(frozen=True, slots=True)
class Vanished:
    """Consumers of a client that vanished between two polls.

    Attributes:
        at: When they did.
        consumers: How many had settled nothing.
        settled: How many had settled messages.
        held: Messages that those without settled ones buffered.
        unseen: Messages of the queue that had been settled unseen up to the poll before.
    """

    at: float
    consumers: float
    settled: float
    held: float
    unseen: float


@dataclass(frozen=True, slots=True)
class CrashLoop:
    """A client of which consumers vanish.

    Attributes:
        queue: The key of its queue.
        vanished: The consumers, by poll.
        run: See `next_run`.
        on: Whether the condition is active.
    """

    queue: int
    vanished: tuple[Vanished, ...] = ()
    run: int = 0
    on: bool = False

    @property
    def begin(self) -> float:
        """When the first consumers vanished."""
        return self.vanished[0].at

    @property
    def consumers(self) -> float:
        """How many consumers vanished that had settled nothing."""
        return sum(event.consumers for event in self.vanished)

    @property
    def held(self) -> float:
        """Messages that these consumers buffered at the last poll that saw them: at least so many were given back."""
        return sum(event.held for event in self.vanished)

    def advance(self, now: float, unseen: float, *, served: bool) -> "CrashLoop":
        """Return the loop after a poll, without the consumers that vanished more than SECONDS ago.

        Args:
            now: When the poll was.
            unseen: Messages of its queue that were settled unseen, in all.
            served: Whether other consumers have settled messages of the queue since it began.
        """
        vanished = tuple(event for event in self.vanished if now - event.at <= SECONDS)
        is_loop = served and vanish_repeatedly(vanished, unseen)
        was_on = self.on and bool(vanished)
        run, on = next_run(self.run, on=was_on, holds=is_loop)
        return replace(self, vanished=vanished, run=run, on=on)


def vanish_repeatedly(vanished: tuple[Vanished, ...], unseen: float) -> bool:
    """Return whether enough consumers vanished without having settled a message, at enough polls.

    More are needed the more consumers vanished that had settled messages, or may have.

    Args:
        vanished: The consumers, by poll.
        unseen: Messages of the queue that were settled unseen up to now.
    """
    consumers = np.array([event.consumers for event in vanished])
    settled = np.array([event.settled for event in vanished])
    unseen_before = np.array([event.unseen for event in vanished])
    # From each poll to the next one, and from the last one until now.
    unseen_since = np.diff(unseen_before, append=unseen)
    worked = may_have_worked(consumers, unseen_since)
    idle = consumers - worked
    polls = np.count_nonzero(idle > 0)
    least = LEAST + MORE * (settled + worked).sum()
    return bool(polls >= LEAST_POLLS and idle.sum() >= least)


def may_have_worked(consumers: Column, unseen: Column) -> Column:
    """(events,) How many of the consumers that vanished may have settled a message unseen: one for each such message.

    None did if so few messages were settled unseen that the time of reading explains them.

    Args:
        consumers: (events,) How many vanished.
        unseen: (events,) Messages of the queue that were settled unseen from then to the next event.
    """
    explained_by_reading = UNSEEN + UNSEEN_SHARE * consumers.sum()
    if unseen.sum() < explained_by_reading:
        return np.zeros(len(consumers))
    return np.clip(unseen, 0.0, consumers)


@dataclass(frozen=True, slots=True)
class CrashLoops(RowState):
    """The clients of which consumers vanish."""

    unseen: Column = column(0.0, saved=False)
    """(queues,) Messages that were settled unseen, in all."""
    loops: Mapping[ClientSeries, CrashLoop] = unindexed(dict)
    pending: tuple[ClientSeries, ...] = unindexed(tuple)
    """The clients whose condition is active, or may be from the next poll on."""
    swept: float = unindexed(lambda: -np.inf)
    """When all loops were looked at last."""

    def advance(
        self,
        facts: Facts,
        departed: Departed,
        clients: Grouping[ClientSeries],
        unsettled: Column,
    ) -> "CrashLoops":
        """Return the loops after a poll.

        Only loops that may change are looked at: those with an event, and pending ones. Once a minute all are, so that
        old events are forgotten.

        Args:
            facts: The numbers of the poll.
            departed: The consumers that vanished with messages.
            clients: At the poll before.
            unsettled: (queues,) Since when nothing is settled, NaN where it is.
        """
        before = self.reindexed(facts.queues).unseen
        settled = or_zero(facts.d_settled)
        unseen = before + settled - facts.d_left + facts.d_uncommitted
        events = vanished_by_client(facts, departed, clients, before)
        loops = with_events(self.loops, events)
        is_sweep = facts.now - self.swept > SWEEP_SECONDS
        looked_at = [*loops]
        if not is_sweep:
            may_change = {*events, *self.pending}
            looked_at = [client for client in may_change if client in loops]
        advance_loops(loops, looked_at, facts, unseen, unsettled)
        return CrashLoops(
            index=facts.queues,
            unseen=unseen,
            loops=loops,
            pending=tuple(
                client for client in looked_at if is_pending(loops.get(client))
            ),
            swept=facts.now if is_sweep else self.swept,
        )

    def kept(self) -> Iterator[tuple[ClientSeries, CrashLoop]]:
        """Yield each loop as the next agent begins with it.

        That agent counts the messages settled unseen from 0, so that the numbers of the events are made smaller by as
        many as were counted up to now.
        """
        for client, loop in self.loops.items():
            unseen = self._unseen_of(loop.queue)
            vanished = tuple(
                replace(event, unseen=event.unseen - unseen) for event in loop.vanished
            )
            yield client, replace(loop, vanished=vanished)

    def _unseen_of(self, queue_key: int) -> float:
        """Return the messages of a queue that were settled unseen; 0 for one that is gone."""
        (position,) = self.index.positions(np.array([queue_key])).tolist()
        return float(self.unseen[position]) if position >= 0 else 0.0


def with_events(
    before: Mapping[ClientSeries, CrashLoop],
    events: Mapping[ClientSeries, tuple[int, Vanished]],
) -> dict[ClientSeries, CrashLoop]:
    """Return the loops with the consumers that vanished; a loop begins when one vanishes that had settled nothing.

    events: By client the key of its queue, and the consumers that vanished at this poll.
    """
    loops = dict(before)
    for client, (queue_key, event) in events.items():
        may_begin = event.consumers > 0 and len(loops) < MOST
        if client in loops or may_begin:
            loop = loops.get(client, CrashLoop(queue_key))
            vanished = (*loop.vanished, event)
            loops[client] = replace(loop, vanished=vanished)
    return loops


def advance_loops(
    loops: dict[ClientSeries, CrashLoop],
    looked_at: list[ClientSeries],
    facts: Facts,
    unseen: Column,
    unsettled: Column,
) -> None:
    """Advance the loops of some clients by a poll; a loop without recent events, or whose queue is gone, is removed.

    Args:
        loops: All loops; written to.
        looked_at: The clients whose loops are advanced.
        facts: The numbers of the poll.
        unseen: (queues,) Messages that were settled unseen, in all.
        unsettled: (queues,) Since when nothing is settled, NaN where it is.
    """
    queue_keys = np.array([loops[client].queue for client in looked_at], np.int64)
    positions = facts.queues.positions(queue_keys).tolist()
    for client, queue in zip(looked_at, positions, strict=True):
        loop = loops.pop(client)
        is_gone = queue < 0
        if is_gone:
            continue
        # Where the queue has settled nothing since the loop began, not only this client does not work. The comparison
        # of NaN is False: the queue settles.
        served = not unsettled[queue] <= loop.begin
        loop = loop.advance(
            facts.now,
            float(unseen[queue]),
            served=served,
        )
        if loop.vanished:
            loops[client] = loop


def is_pending(loop: CrashLoop | None) -> bool:
    """Return whether the condition of a loop is active, or may be from the next poll on."""
    return loop is not None and (loop.on or loop.run > 0)


def vanished_by_client(
    facts: Facts,
    departed: Departed,
    clients: Grouping[ClientSeries],
    unseen: Column,
) -> dict[ClientSeries, tuple[int, Vanished]]:
    """Return by client the key of its queue and the consumers that vanished with messages.

    None soon after a start of the broker, when all clients reconnect, and none on queues that keep what is
    acknowledged, which show no settled messages.

    Args:
        facts: The numbers of the poll.
        departed: The consumers.
        clients: At the poll before.
        unseen: (queues,) Messages that had been settled unseen up to the poll before.
    """
    departed = departed.only(~facts.keeps[departed.queue])
    if not len(departed.client) or facts.settling:
        return {}
    members, first, client = np.unique(
        departed.client, return_index=True, return_inverse=True
    )
    queues = departed.queue[first].tolist()
    worked = departed.settled > 0
    idle_consumers = np.bincount(client, ~worked)
    settled_consumers = np.bincount(client, worked)
    buffered = np.bincount(client, departed.held * ~worked)
    return {
        clients.index.rows[member]: (
            int(facts.queues.keys[queue]),
            Vanished(
                at=facts.now,
                consumers=float(idle_consumers[row]),
                settled=float(settled_consumers[row]),
                held=float(buffered[row]),
                unseen=float(unseen[queue]),
            ),
        )
        for row, (member, queue) in enumerate(zip(members, queues, strict=True))
    }


# --- clients without progress, and consumers that leave with messages


@dataclass(frozen=True, slots=True)
class Streak:
    """A time in which a client reconnects and its queue settles nothing.

    Attributes:
        begin: When it began.
        queue: The name of the queue.
        ids: How many consumers buffered or received messages in it.
        polls: At how many polls such consumers came.
        last: When the last of these polls was.
        patience: Stall threshold of the client, seconds.
        run: See `next_run`.
        on: Whether the condition is active.
    """

    begin: float
    queue: str
    ids: int = 0
    polls: int = 0
    last: float = 0.0
    patience: float = np.nan
    run: int = 0
    on: bool = False


@dataclass(frozen=True, slots=True)
class Departure:
    """A consumer that left with messages.

    Attributes:
        at: When it left.
        begin: Since when it had settled nothing.
        held: Messages that it buffered.
        age: For how long it had settled nothing, seconds.
        returned: Messages that went back to the queue, at least.
    """

    at: float
    begin: float
    held: float
    age: float
    returned: float


@dataclass(frozen=True, slots=True)
class Churn(RowState):
    """What is known about consumers that come and go."""

    counted: Mask = mask(saved=False)
    """(consumers,) Whether the streak of its client has counted it."""
    streaks: Mapping[ClientSeries, Streak] = unindexed(dict)
    left: Mapping[ClientSeries, Departure] = unindexed(dict)
    """The last departure of each client, for SHOWN seconds."""
    clients: Grouping[ClientSeries] = unindexed(Grouping)
    """The clients at the poll before: the one of a vanished consumer is among them."""
    ended: Mapping[ClientSeries, Streak] = unindexed(dict)
    """Streaks with a condition that ended at this poll: it takes a second one to clear it."""
    first: float = unindexed(lambda: np.nan)
    """The first poll: a consumer that it found may have received its messages long before."""
    crash_loops: CrashLoops = unindexed(CrashLoops)

    def advance(self, poll: RuleInputs, seen: Seen, unacked_before: Unacked) -> "Churn":
        """Return the state after a poll: streaks, departures and crash loops.

        Args:
            poll: The poll.
            seen: The numbers of the poll before.
            unacked_before: Since when consumers had settled nothing, at the poll before.
        """
        facts = poll.found
        lasting, ended = self._lasting(facts)
        departed = departed_consumers(facts, self.clients, seen)
        first = facts.now if np.isnan(self.first) else self.first
        # Progress on a queue ends the streak, and with it the counting of consumers.
        counted = self.reindexed(facts.consumer.index).counted
        holders = judged_holders(poll, first)
        # Only consumers that have just come show that the client reconnects.
        is_recent = facts.now - poll.unacked.seen_since <= 3 * facts.interval
        new = np.flatnonzero(holders & is_recent & ~counted)
        streaks = with_new_consumers(lasting, new, poll)
        return Churn(
            index=facts.consumer.index,
            counted=holders & (is_recent | counted),
            streaks=streaks | advanced_streaks(streaks, poll),
            left=self._left(facts, departed, seen.times.now, unacked_before),
            clients=poll.groups.clients,
            ended=ended,
            first=first,
            crash_loops=self.crash_loops.advance(
                facts, departed, self.clients, poll.timers.unsettled
            ),
        )

    def _lasting(
        self, facts: Facts
    ) -> tuple[dict[ClientSeries, Streak], dict[ClientSeries, Streak]]:
        """Return the streaks that go on, and those that were active and have ended.

        A streak goes on while its queue settles nothing, for an hour after the last new consumer.
        """
        if not self.streaks:
            return {}, {}
        is_idle = ~(facts.d_settled > 0) & facts.known
        idle_queues = {row.name for row in facts.queues.rows[is_idle].tolist()}
        lasting = {}
        ended = {}
        for client, streak in self.streaks.items():
            is_kept = facts.now - streak.last <= KEEP
            if is_kept and streak.queue in idle_queues:
                lasting[client] = streak
            elif streak.on:
                ended[client] = streak
        return lasting, ended

    def _left(
        self,
        facts: Facts,
        departed: Departed,
        previous: float,
        unacked_before: Unacked,
    ) -> dict[ClientSeries, Departure]:
        """Return the departures of the last SHOWN seconds, with those of this poll.

        One is reported if the consumer had settled nothing for LONG seconds, and if the queue has not settled as many
        messages at this poll: then some went back to it.

        Args:
            facts: The numbers of the poll.
            departed: The consumers that vanished with messages.
            previous: When the poll before was, which saw these consumers last.
            unacked_before: Since when consumers had settled nothing, at the poll before.
        """
        left = {
            client: departure
            for client, departure in self.left.items()
            if facts.now - departure.at <= SHOWN
        }
        age = previous - unacked_before.unacked_since[departed.at]
        returned = departed.held - facts.d_settled[departed.queue]
        is_reported = (age >= LONG) & (returned > 0)
        for row in np.flatnonzero(is_reported).tolist():
            client = self.clients.index.rows[departed.client[row]]
            left[client] = Departure(
                at=facts.now,
                begin=previous - float(age[row]),
                held=float(departed.held[row]),
                age=float(age[row]),
                returned=float(returned[row]),
            )
        return left

    def standing(self) -> dict[ClientSeries, Streak]:
        """Return the streaks whose condition is active, with those that ended at this poll.

        A condition is cleared by two polls: the first of them still needs the streak.
        """
        active = {
            client: streak for client, streak in self.streaks.items() if streak.on
        }
        return {**self.ended, **active}


def judged_holders(poll: RuleInputs, first: float) -> Mask:
    """(consumers,) Whether it is judged, and has messages of a queue that settles nothing. first: The first poll."""
    came_later = poll.unacked.seen_since > first
    holders = idle_holders(poll.found, poll.groups.clients, came_later)
    return holders & ~np.isnan(poll.client_patience)


def idle_holders(
    facts: Facts, clients: Grouping[ClientSeries], came_later: Mask
) -> Mask:
    """(consumers,) Whether it buffers messages of a queue that settles nothing, or has received some.

    For one that was there at the first poll it is not known when it received them: only what it buffers counts.

    came_later: (consumers,) Whether it came after the first poll.
    """
    consumer = facts.consumer
    is_idle_queue = (facts.d_settled <= 0) & facts.known
    is_on_idle_queue = consumer.at_queue(is_idle_queue, np.False_)
    has_received = (consumer.delivered > 0) & came_later
    has_messages = (consumer.held > 0) | has_received
    return is_on_idle_queue & (clients.member >= 0) & has_messages


def with_new_consumers(
    streaks: dict[ClientSeries, Streak], new: Positions, poll: RuleInputs
) -> dict[ClientSeries, Streak]:
    """Return `streaks` with the consumers that are new; the first one of a client begins its streak."""
    facts = poll.found
    rows = facts.consumer.index.rows
    for client, consumers in by_client(new, poll.groups.clients).items():
        streak = streaks.get(client)
        if streak is None:
            begin = begin_of(facts, poll.unacked.hold_since[consumers])
            streak = Streak(begin, rows[consumers[0]].queue)
        streaks[client] = replace(
            streak,
            ids=streak.ids + len(consumers),
            polls=streak.polls + 1,
            last=facts.now,
            patience=float(poll.client_patience[consumers[0]]),
        )
    return streaks


def by_client(
    consumers: Positions, clients: Grouping[ClientSeries]
) -> dict[ClientSeries, list[int]]:
    """Return the positions of these consumers by their client."""
    consumers_of: dict[ClientSeries, list[int]] = {}
    for consumer in consumers.tolist():
        client = clients.index.rows[clients.member[consumer]]
        consumers_of.setdefault(client, []).append(consumer)
    return consumers_of


def begin_of(facts: Facts, hold_since: Column) -> float:
    """Return when a streak began: when the first of its consumers got the messages that it buffers.

    Not before the poll before: up to then the queue may have settled messages.
    """
    previous = facts.now - np.nan_to_num(facts.interval)
    earliest = np.fmin.reduce(hold_since, initial=facts.now)
    return float(np.clip(earliest, previous, facts.now))


def advanced_streaks(
    streaks: Mapping[ClientSeries, Streak], poll: RuleInputs
) -> dict[ClientSeries, Streak]:
    """Return the streaks that are old enough to be judged, after this poll.

    A streak that is younger cannot be a condition. After a start of the agent each client of a large broker has one.
    """
    old = {
        client: streak
        for client, streak in streaks.items()
        if streak.polls >= OLD or streak.on or streak.run > 0
    }
    if not old:
        return {}
    clients = poll.groups.clients
    counts = clients.count()
    least = poll.constants.churn_ids
    return {
        client: advance_streak(
            streak, poll.found, clients.number_of(client, counts), least
        )
        for client, streak in old.items()
    }


def advance_streak(streak: Streak, facts: Facts, present: float, ids: int) -> Streak:
    """Return the streak after a poll, which decides whether it is active.

    It is if consumers came at three polls, over longer than their stall threshold, and if they are enough: more than
    twice as many as the client has now, so that each was replaced.

    Args:
        streak: After the poll before.
        facts: The numbers of the poll.
        present: How many consumers of the client there are.
        ids: The fewest that must have come.
    """
    age = facts.now - streak.begin
    # Two polls must agree. The first may be an interval early, so that the condition begins at the threshold.
    is_old = age >= streak.patience - facts.interval and streak.polls >= OLD
    has_enough = streak.ids >= max(ids, 2 * present + 1)
    holds = is_old and has_enough and not facts.settling
    may_come = age >= streak.patience
    run, on = next_run(
        streak.run,
        on=streak.on,
        holds=holds,
        may_come=may_come,
    )
    return replace(streak, run=run, on=on)
