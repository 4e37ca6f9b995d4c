"""The losses of an Artemis broker as conditions judge them: which go on, and what a ring evicted or has at risk.

A *spell* is a time in which the loss of a queue grows without a break that is longer than the window of the rules. A
loss that grows after such a break begins a new spell.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from penstock.core.state import RowState, column, unindexed
from penstock.core.table import Column, Mask, Matrix, Table, put
from penstock.core.windows import since
from penstock.model import ProducerRow
from penstock.observation.facts import SKEW, Facts, or_zero
from penstock.settings.constants import Constants

POLLS = 3
"""Polls at which a loss must have grown, before it is no accident."""
LINES = 8
DUPLICATE, UNWANTED, PLACELESS, TARGET, UNEXPLAINED, ROLLED_BACK, PURGED, IN_HAND = (
    range(LINES)
)
"""Reasons: a message was sent twice; no filter wanted it; it was killed without a place for dead letters; an address
that dead letters or expired messages are sent to dropped it; no reason is known; its producer rolled back; an operator
purged it; and, which is no loss, a consumer gave it back when it went.
"""


@dataclass(frozen=True, slots=True)
class Losses(RowState):
    """The losses of each queue, by reason: a line for each reason."""

    amount: Matrix = column(lines=LINES, saved=False)
    """Messages lost, at least."""
    since: Matrix = column(lines=LINES, saved=False)
    """The first poll of the present spell at which the amount grew, by the broker's clock."""
    last: Matrix = column(lines=LINES, saved=False)
    """The last poll of it at which the amount grew."""
    polls: Matrix = column(0.0, lines=LINES, saved=False)
    """At how many polls of it the amount grew."""
    began: Matrix = column(lines=LINES, saved=False)
    """The amount before the spell."""
    came0: Matrix = column(lines=LINES, saved=False)
    """The messages that had come before the spell."""
    came: Column = column(saved=False)
    """Messages that came to the queue or its address, in all."""
    in_doubt: Column = column(saved=False)
    """Messages of prepared transactions, at most; NaN: not known."""
    unheld: Column = column(0.0, saved=False)
    """Messages that are delivered, but to no consumer, at least."""
    unheld_since: Column = column(saved=False)
    """Since when these are more than `SKEW`."""
    prepared: Mapping[str, float] = unindexed(dict)
    """When each prepared transaction was seen first, by its Xid."""
    producers: Table[ProducerRow] | None = unindexed(lambda: None)

    def advance(
        self,
        facts: Facts,
        amounts: Sequence[Column],
        arrived: Column,
        in_doubt: Column,
        unheld: Column,
        prepared: Mapping[str, float],
        producers: Table[ProducerRow] | None,
    ) -> "Losses":
        """Return the losses after a poll. An amount never falls: one that is lower than before was known less well.

        Args:
            facts: The numbers of the poll.
            amounts: The lines of `amount`, NaN where one is not known.
            arrived: As `came` in the state; the other arguments have the names of their columns.
        """
        before = self.reindexed(facts.queues)
        amount = np.stack(amounts)
        grew = amount > before.amount
        losses = before.with_growth(grew, facts)
        return replace(
            losses,
            index=facts.queues,
            amount=np.fmax(before.amount, amount),
            came=arrived,
            in_doubt=in_doubt,
            unheld=unheld,
            unheld_since=since(unheld > SKEW, before.unheld_since, facts.now),
            prepared=prepared,
            producers=producers,
        )

    def with_growth(self, grew: NDArray[np.bool_], facts: Facts) -> "Losses":
        """Return the losses with the spells that begin or go on at this poll.

        Where an amount grew, a spell goes on if it grew within the window before, else a new one begins.

        grew: (LINES, queues) Whether the amount grew at this poll.
        """
        begins = grew
        if grew.any():
            longest_break = Constants().window_seconds(facts.interval)
            goes_on = facts.now - self.last <= longest_break
            begins = grew & ~goes_on
        polls = put(
            self.polls,
            grew,
            self.polls + 1,
        )
        return replace(
            self,
            since=put(self.since, begins, facts.now),
            last=put(self.last, grew, facts.now),
            polls=put(polls, begins, 1.0),
            began=put(self.began, begins, self.amount),
            came0=put(self.came0, begins, self.came),
        )

    @property
    def lost(self) -> Matrix:
        """(LINES, queues) Messages lost in the present spell."""
        return self.amount - self.began

    def share(self, line: int) -> Column:
        """(queues,) Which share of the messages that were sent in the present spell was lost by the reason `line`."""
        lost = self.lost[line]
        sent = or_zero(self.came - self.came0[line])
        if line == DUPLICATE:
            # The broker drops a duplicate and does not count it among the messages that came.
            sent = sent + or_zero(lost)
        return lost / np.fmax(sent, 1.0)

    def go_on(self, line: int, facts: Facts, constants: Constants) -> Mask:
        """(queues,) Whether a loss goes on: its spell has three polls and 30 s at least, the last within the window.

        line: The reason of the loss.
        """
        spell_seconds = self.last[line] - self.since[line]
        seconds_ago = facts.now - self.last[line]
        has_polls = self.polls[line] >= POLLS
        lasts = spell_seconds >= constants.persistent
        is_recent = seconds_ago <= constants.window_seconds(facts.interval)
        return facts.judged & has_polls & lasts & is_recent


# --- rings: queues with a limit, which evict their oldest messages when they are full


@dataclass(frozen=True, slots=True)
class Evictions:
    """The account of each ring; NaN where a number cannot be known.

    Attributes:
        evicted: Messages evicted since the broker's start.
        by_consumers: How many of them, at least, by consumers that went or rolled back.
        grew: Messages evicted at this poll.
        low: How many of those, at least, by consumers.
        low_last: `low` of the last poll that had any.
        high_last: How many it may have been at most at that poll.
        latest: By the queue's key the clients that did it then, with their protocol.
    """

    evicted: Column
    by_consumers: Column
    grew: Column
    low: Column
    low_last: Column
    high_last: Column
    latest: Mapping[int, Mapping[str, str]]


def at_risk(facts: Facts) -> Column:
    """(queues,) Messages that a ring would evict if all its consumers went away now: they find no room.

    NaN without a ring, while paging, and where the queue keeps acknowledged messages.
    """
    beyond_limit = facts.messages - facts.scheduled - facts.ring
    risk = np.clip(beyond_limit, 0.0, facts.delivering)
    evicts_nothing = (facts.address.paging > 0) | facts.keeps
    return np.where(evicts_nothing, np.nan, risk)


def scheduled_at_risk(facts: Facts) -> Column:
    """(queues,) Scheduled messages without room if they were due now; NaN without a ring, and while paging."""
    room = np.maximum(facts.ring - facts.ready, 0.0)
    without_room = np.maximum(facts.scheduled - room, 0.0)
    return np.where(
        facts.address.paging > 0,
        np.nan,
        without_room,
    )
