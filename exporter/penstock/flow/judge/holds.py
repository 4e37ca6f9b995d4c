"""Who holds messages, since when each has settled nothing, and what that teaches about its client."""

from dataclasses import dataclass, field

import numpy as np

from penstock.flow.judge.facts import ConsumerFacts, Facts
from penstock.flow.judge.spans import Mask, moved, since
from penstock.model import ConsumerRow
from penstock.table import Column, Index


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
class Holds:
    """
    Per consumer, times by the broker's clock, NaN = not.

    settled: its last settlement. hold_since: since when it holds something without a break. idle_since: since when it
    holds nothing. seen_since: since when it is known.
    """

    index: Index[ConsumerRow] = field(default_factory=Index.empty)
    settled: Column = field(default_factory=lambda: np.empty(0))
    hold_since: Column = field(default_factory=lambda: np.empty(0))
    idle_since: Column = field(default_factory=lambda: np.empty(0))
    seen_since: Column = field(default_factory=lambda: np.empty(0))
    gaps: Column = field(default_factory=lambda: np.empty(0))
    """The gap that ended at this poll, NaN where none did."""
    mark: Column = field(default_factory=lambda: np.empty(0))
    """Since when a holding consumer has settled nothing; NaN where it holds nothing. Deliveries do not move it."""

    def follow(self, facts: Facts, progress: Progress) -> "Holds":
        consumers, now = facts.consumer, facts.now
        before = {
            name: moved(consumers.index, self.index, getattr(self, name), np.nan)
            for name in ("settled", "hold_since", "idle_since", "seen_since")
        }
        settles, at = progress.settles, progress.at
        gaps = at - np.fmax(before["settled"], before["hold_since"])
        gaps = np.where(settles & ~np.isnan(before["hold_since"]), np.fmax(gaps, 0.0), np.nan)
        holding = consumers.held + consumers.uncommitted > 0
        hold_since = np.where(
            holding, np.where(np.isnan(before["hold_since"]), progress.begun, before["hold_since"]), np.nan
        )
        settled = np.where(settles, at, before["settled"])
        return Holds(
            index=consumers.index,
            settled=settled,
            hold_since=hold_since,
            idle_since=since(~holding, before["idle_since"], now),
            seen_since=np.where(np.isnan(before["seen_since"]), now, before["seen_since"]),
            gaps=gaps,
            mark=np.where(np.isnan(hold_since), np.nan, np.fmax(settled, hold_since)),
        )


def progress_of(consumers: ConsumerFacts, now: float) -> Progress:
    """Rule of progress: more left its hands than it acknowledged without committing."""
    settles = consumers.d_left - consumers.d_uncommitted > 0
    at = np.where(consumers.uncommitted > 0, now, np.fmin(consumers.last_acknowledgement, now))
    # Nothing happened since the later of the two: who holds now held then. A read may be older than the rows in it.
    begun = np.fmin(np.fmax(consumers.last_acknowledgement, consumers.last_delivery), now)
    return Progress(settles, np.where(np.isnan(at), now, at), np.where(np.isnan(begun), now, begun))
