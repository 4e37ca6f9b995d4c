"""Who holds messages, since when each has settled nothing, and what that teaches about its client."""

from dataclasses import dataclass

import numpy as np

from penstock.core.state import By, RowState, column
from penstock.core.table import Column
from penstock.core.windows import Mask, since
from penstock.observation.facts import ConsumerFacts, Facts


@dataclass(frozen=True, slots=True)
class Progress:
    """
    Columns per consumer. settles: it made progress at this poll; at: when. begun: since when one that holds something
    now, and did not at the poll before, can be said to.
    """

    settles: Mask
    at: Column
    begun: Column


@dataclass(frozen=True, slots=True)
class Unacked(RowState):
    """
    Per consumer, times by the broker's clock, NaN = not.

    settled: its last settlement. hold_since: since when it holds something without a break. idle_since: since when it
    holds nothing. seen_since: since when it is known.
    """

    BY = By.CONSUMER
    STORED_AS = "hold_"
    settled: Column = column()
    hold_since: Column = column()
    idle_since: Column = column()
    seen_since: Column = column()
    gaps: Column = column(carried=False, saved=False)
    """The gap that ended at this poll, NaN where none did."""
    unacked_since: Column = column(carried=False, stored_as="hold_mark")
    """Since when a holding consumer has settled nothing; NaN where it holds nothing. Deliveries do not move it."""

    def advance(self, facts: Facts, progress: Progress) -> "Unacked":
        consumers, now = facts.consumer, facts.now
        before = self.reindexed(consumers.index)
        settles, at = progress.settles, progress.at
        gaps = at - np.fmax(before.settled, before.hold_since)
        gaps = np.where(settles & ~np.isnan(before.hold_since), np.fmax(gaps, 0.0), np.nan)
        holding = consumers.held + consumers.uncommitted > 0
        hold_since = since(holding, before.hold_since, progress.begun)
        settled = np.where(settles, at, before.settled)
        return Unacked(
            index=consumers.index,
            settled=settled,
            hold_since=hold_since,
            idle_since=since(~holding, before.idle_since, now),
            seen_since=np.where(np.isnan(before.seen_since), now, before.seen_since),
            gaps=gaps,
            unacked_since=np.where(np.isnan(hold_since), np.nan, np.fmax(settled, hold_since)),
        )


def progress_of(consumers: ConsumerFacts, now: float) -> Progress:
    """Rule of progress: more left its hands than it acknowledged without committing."""
    settles = consumers.d_left - consumers.d_uncommitted > 0
    at = np.where(consumers.uncommitted > 0, now, np.fmin(consumers.last_acknowledgement, now))
    # Nothing happened since the later of the two: who holds now held then. A read may be older than the rows in it.
    begun = np.fmin(np.fmax(consumers.last_acknowledgement, consumers.last_delivery), now)
    return Progress(settles, np.where(np.isnan(at), now, at), np.where(np.isnan(begun), now, begun))
