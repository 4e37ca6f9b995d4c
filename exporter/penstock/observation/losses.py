"""What conditions judge of an Artemis broker's account: losses that go on, and what a ring lost or would."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.core.state import RowState, column, unindexed
from penstock.core.table import Column, Mask, Matrix, Table, put
from penstock.core.windows import since
from penstock.model import ProducerRow
from penstock.observation.facts import SKEW, Facts, or_zero
from penstock.settings.constants import Constants

POLLS = 3
"""At which a loss must have grown before it is no accident."""
LINES = 8
DUPLICATE, UNWANTED, PLACELESS, TARGET, UNEXPLAINED, ROLLED_BACK, PURGED, IN_HAND = (
    range(LINES)
)
"""Sent twice; wanted by no filter; killed without a place for dead letters; dropped by an address that dead letters or
expired messages are sent to; for no reason that is known; rolled back by producers; purged by operators; and given back
by consumers that went, which is no loss."""


@dataclass(frozen=True, slots=True)
class Losses(RowState):
    """
    Per queue; lines as above. amount: messages, at least. since, last: the first and the last poll of the present spell
    at which it grew, broker's clock; polls: so many. began, came0: the amount, and what had come, before it.

    in_doubt: messages of prepared transactions, at most, NaN: not known; prepared: first sight of each by its Xid.
    unheld: messages in delivery to no consumer, at least; unheld_since: since when it is more than `SKEW`.
    """

    amount: Matrix = column(lines=LINES, saved=False)
    since: Matrix = column(lines=LINES, saved=False)
    last: Matrix = column(lines=LINES, saved=False)
    polls: Matrix = column(0.0, lines=LINES, saved=False)
    began: Matrix = column(lines=LINES, saved=False)
    came0: Matrix = column(lines=LINES, saved=False)
    came: Column = column(saved=False)
    in_doubt: Column = column(saved=False)
    unheld: Column = column(0.0, saved=False)
    unheld_since: Column = column(saved=False)
    prepared: Mapping[str, float] = unindexed(dict)
    producers: Table[ProducerRow] | None = unindexed(lambda: None)

    def advance(
        self, found: Facts, amounts: Sequence[Column], came: Column, in_doubt: Column, unheld: Column,
        prepared: Mapping[str, float], producers: Table[ProducerRow] | None,
    ) -> "Losses":  # fmt: skip
        """amounts: by line, NaN where it is not known; came: to the queue or its address, in all."""
        before = self.reindexed(found.queues)
        amount = np.stack(amounts)
        grew = amount > before.amount
        begins = (
            grew
            & ~(found.now - before.last <= Constants().window_seconds(found.interval))
            if grew.any()
            else grew
        )
        return replace(
            before,
            index=found.queues,
            amount=np.fmax(before.amount, amount),
            came=came,
            in_doubt=in_doubt,
            unheld=unheld,
            unheld_since=since(unheld > SKEW, before.unheld_since, found.now),
            prepared=prepared,
            producers=producers,
            since=put(before.since, begins, found.now),
            last=put(before.last, grew, found.now),
            polls=put(put(before.polls, grew, before.polls + 1), begins, 1.0),
            began=put(before.began, begins, before.amount),
            came0=put(before.came0, begins, before.came),
        )

    @property
    def lost(self) -> Matrix:
        """In the present spell."""
        return self.amount - self.began

    def share(self, line: int) -> Column:
        """Of what was sent in the spell. What came does not count duplicates."""
        lost = self.lost[line]
        came = or_zero(self.came - self.came0[line])
        return lost / np.fmax(came + (or_zero(lost) if line == DUPLICATE else 0.0), 1.0)

    def go_on(self, line: int, found: Facts, constants: Constants) -> Mask:
        """Where one grew at three polls or more, over 30 s or more, the last of them within the window."""
        lasts = self.last[line] - self.since[line] >= constants.persistent
        recent = found.now - self.last[line] <= constants.window_seconds(found.interval)
        return found.judged & (self.polls[line] >= POLLS) & lasts & recent


# --- rings


@dataclass(frozen=True, slots=True)
class Evictions:
    """
    The account of each queue; NaN where it cannot be known. evicted: since the broker's start. by_consumers:
    at least so many of them by consumers that went or rolled back. grew: at this poll, at least `low` by consumers;
    low_last, high_last: by them at least and at most when there were such last, by which clients of which protocols:
    `latest`, by the queue's key.
    """

    evicted: Column
    by_consumers: Column
    grew: Column
    low: Column
    low_last: Column
    high_last: Column
    latest: Mapping[int, Mapping[str, str]]


def at_risk(facts: Facts) -> Column:
    """Messages that a ring would lose if all its consumers went away now; NaN without a ring, while paging, and where
    it keeps what is acknowledged. Only what they give back finds no room.
    """
    risk = np.clip(facts.messages - facts.scheduled - facts.ring, 0.0, facts.delivering)
    return np.where((facts.address.paging > 0) | facts.keeps, np.nan, risk)


def scheduled_at_risk(facts: Facts) -> Column:
    """Scheduled messages that would find no room if they fell due now; NaN without a ring and while paging."""
    room = np.maximum(facts.ring - facts.ready, 0.0)
    return np.where(
        facts.address.paging > 0, np.nan, np.maximum(facts.scheduled - room, 0.0)
    )
