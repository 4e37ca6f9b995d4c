"""The account of each queue: what was there at first and what came is there now, or left by a reason.

All numbers of a queue come from one row of one listing, so the sums are exact: A = K + E + X + content + lost. Letters
as in `observation.facts`. What a ring evicts and a last value replaces has no counter: it is what the sum lacks.
"""

from dataclasses import dataclass

import numpy as np

from penstock.core.state import By, RowState, column, counter
from penstock.core.table import Column, Mask, Matrix, put
from penstock.model import QueueKind
from penstock.observation.facts import Facts, or_zero

BASE = ("account_a0", "account_k0", "account_e0", "account_x0")


@dataclass(frozen=True, slots=True)
class QueueBooks(RowState):
    """Per queue, messages since `since` (broker's clock), over restarts of the broker.

    base: the broker's counters A, K, E, X when its process was first polled, less what was counted before it. opening:
    content at `since`. adjusted: what restarts and counters set back added to the content, or took. partly: they began
    again, and what came and left before was not polled. lost_at_restart: gone with the broker's process, at least, as
    messages that are not persistent are; lost: evicted or replaced, as seen at two polls; NaN where it
    cannot be known. on_arrival: expired before they were added, at least; late: at most. evicted: of `lost`, with what
    the process had lost before it was polled; lost0: `lost` less that. lacking: what the sum of this poll lacks;
    negative: more left than came. At the last polls: gaps, what no reason explains; unheld, in delivery to no consumer
    that is listed.

    passed_on: to other brokers of the cluster: what was acknowledged while there was no consumer, and no more than came
    to links meanwhile. consumers, came_last, passed_last (of a link: what left it): at the poll before.
    """

    BY = By.QUEUE
    STORED_AS = "account_"
    since: Column = counter(outlives=True)
    base: Matrix = counter(lines=4, stored_as=BASE)
    opening: Column = counter(outlives=True)
    adjusted: Column = counter(outlives=True)
    partly: Column = counter(0.0, outlives=True, stored_as="account_begun_anew")
    lost_at_restart: Column = counter(0.0, outlives=True)
    on_arrival: Column = counter(outlives=True)
    late: Column = column(0.0, outlives=True, saved=False)
    lost: Column = counter(outlives=True)
    lost0: Column = counter()
    evicted: Column = counter(stored_as="ledger_evicted")
    added: Column = column(0.0, outlives=True, saved=False)
    acknowledged: Column = column(0.0, outlives=True, saved=False)
    expired: Column = column(0.0, outlives=True, saved=False)
    killed: Column = column(0.0, outlives=True, saved=False)
    content: Column = column(outlives=True, saved=False)
    lacking: Column = column()
    gaps: Matrix = column(lines=3, saved=False)
    unheld: Matrix = column(lines=4, saved=False)
    passed_on: Column = counter(0.0, outlives=True)
    consumers: Column = column(outlives=True, saved=False)
    came_last: Column = column(0.0, saved=False)
    passed_last: Column = column(0.0, saved=False)

    def advance(self, found: Facts, *, watched: bool) -> "QueueBooks":
        """watched: the same process was polled before, so that a queue not seen then was created since."""
        before = self.reindexed(found.queues)
        past = before.totals
        content = contents(found)
        held_by_none = unheld(found)
        numbers = np.stack([found.added, found.settled, found.expired, found.killed])
        readable = np.isfinite(numbers).all(axis=0) & np.isfinite(content)
        first = np.isnan(before.opening) & readable
        # Also in a checkpoint without some column.
        incomplete = np.isnan(before.base).any(axis=0) | np.isnan(before.adjusted)
        begins = (incomplete | (numbers - before.base < past).any(axis=0)) & readable
        # A broker's counters begin with it, a queue's with the queue; those of one found running go on.
        at_start = begins & (first & watched | found.restarted)
        reloaded = put(np.fmin(found.added, or_zero(before.content)), first, 0.0)
        in_doubt = put(reloaded_in_doubt(found, content, held_by_none), first, 0.0)
        began = put(
            numbers,
            at_start,
            np.stack([reloaded, in_doubt, 0 * reloaded, 0 * reloaded]),
        )
        opened = put(content, at_start, reloaded)
        base = put(before.base, begins, began - past)
        totals = np.fmax(past, numbers - base)
        on_arrival = put(or_zero(before.on_arrival), first, 0.0)
        lost = put(before.lost, first, 0.0)
        opening = put(before.opening, first, opened)
        carried = (
            before.opening
            + past[0]
            + before.on_arrival
            - past[1:].sum(axis=0)
            - or_zero(lost)
        )
        adjusted = put(put(before.adjusted, begins, opened - carried), first, 0.0)
        # Where no consumer was there to take them, what is not there after the start is gone.
        not_reloaded = np.fmax(carried + or_zero(before.adjusted) - opened, 0.0)
        restarted = begins & ~first & found.restarted
        at_restart = np.where(restarted & (before.consumers == 0), not_reloaded, 0.0)
        lacking = opening + adjusted + totals[0] - totals[1:].sum(axis=0) - content
        # The first poll of a process has none before it: what was lost at its start shows at the second.
        loses = ledgered(found)
        late = np.minimum(
            or_zero(lost) - np.maximum(before.lacking, lacking), totals[2]
        )
        on_arrival = np.fmax(on_arrival, late)
        seen_twice = np.minimum(before.lacking, lacking) + on_arrival
        lost = np.where(loses, np.fmax(lost, seen_twice), lost)
        lost = put(lost, found.keeps & ~np.isnan(found.ring), np.nan)
        # What a process that was found running has lost is what its own sum lacks.
        already = np.fmax(
            numbers[0] - numbers[1:].sum(axis=0) - content, np.fmax(before.evicted, 0.0)
        )
        lost0 = np.where(
            np.isnan(before.lost0),
            or_zero(before.lost) - np.where(at_start, 0.0, already),
            before.lost0,
        )
        lost0 = np.where(loses & (readable | ~np.isnan(before.lost0)), lost0, np.nan)
        # What expired on arrival since the poll before is in no other sum yet.
        gap = np.minimum(lacking + totals[2], 0.0) + np.where(
            loses, 0.0, np.maximum(lacking + on_arrival, 0.0)
        )
        linked = (
            found.queues.column("is_link", lambda row: row.kind is QueueKind.LINK) > 0
        )
        passed = np.where(
            (found.consumers == 0) & (before.consumers == 0) & ~linked,
            or_zero(found.d_settled),
            0.0,
        )
        forwarded = float((found.d_added + before.came_last)[linked].sum())
        passed = np.floor(passed * min(1.0, forwarded / max(float(passed.sum()), 1.0)))
        return QueueBooks(
            index=found.queues,
            since=put(before.since, first, found.now),
            base=base,
            opening=opening,
            adjusted=adjusted,
            partly=put(before.partly, begins & ~first, 1.0),
            lost_at_restart=before.lost_at_restart + or_zero(at_restart),
            on_arrival=on_arrival,
            late=np.where(
                loses, totals[2], np.fmax(on_arrival, np.fmin(-lacking, totals[2]))
            ),
            lost=lost,
            lost0=lost0,
            evicted=np.where(
                loses,
                np.fmax(before.evicted, np.maximum(seen_twice - lost0, 0.0)),
                np.nan,
            ),
            added=totals[0],
            acknowledged=totals[1],
            expired=totals[2],
            killed=totals[3],
            content=put(content, ~readable, before.content),
            lacking=lacking,
            gaps=np.vstack([before.gaps[1:], gap]),
            unheld=np.vstack([before.unheld[1:], held_by_none]),
            passed_on=before.passed_on + passed,
            consumers=found.consumers,
            came_last=found.d_added,
            passed_last=np.where(linked, or_zero(found.d_settled), passed),
        )

    @property
    def totals(self) -> Matrix:
        """Lines: added, acknowledged, expired, killed."""
        return np.stack([self.added, self.acknowledged, self.expired, self.killed])

    @property
    def came(self) -> Column:
        """With what expired on arrival."""
        return self.added + self.on_arrival

    @property
    def unexplained(self) -> Column:
        """What no reason explains at three polls: its least amount; NaN before."""
        least = np.min(np.abs(self.gaps), axis=0)
        same = (self.gaps > 0).all(axis=0) | (self.gaps < 0).all(axis=0)
        return np.where(
            np.isnan(least), np.nan, np.where(same, np.sign(self.gaps[2]) * least, 0.0)
        )


def ledgered(found: Facts) -> Mask:
    """Queues that may throw messages away to keep a limit."""
    return (~np.isnan(found.ring) | lasts(found)) & ~found.keeps


def reloaded_in_doubt(found: Facts, content: Column, held_by_none: Column) -> Column:
    """Messages that the broker counted as acknowledged when it loaded them at its start: they were in doubt. Without a
    limit that evicts it is what left more often than it came; else all, where no consumer has any of them.
    """
    twice = found.settled + found.killed + content - found.added
    in_doubt = np.where(
        ledgered(found),
        np.where(found.settled <= held_by_none, found.settled, 0.0),
        twice,
    )
    return np.clip(or_zero(in_doubt), 0.0, or_zero(found.settled))


def contents(found: Facts) -> Column:
    """What is in a queue: M; with D where the last value does not count it; less D where nothing is removed by it."""
    messages = found.messages
    delivering = found.delivering
    return put(
        put(messages, lasts(found), messages + delivering),
        found.keeps,
        messages - delivering,
    )


def lasts(found: Facts) -> Mask:
    return found.last_value > 0


def unheld(found: Facts) -> Column:
    """D less what its consumers buffer or have not committed; NaN where the broker's version does not show these."""
    if not found.counted:
        return np.full(len(found.queues), np.nan)
    return found.delivering - found.held - found.uncommitted
