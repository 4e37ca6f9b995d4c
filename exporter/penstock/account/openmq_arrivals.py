"""How many dead letters of an OpenMQ broker have no known source, from poll to poll.

A message that expires in the buffer of a client leaves its destination like one that the client acknowledged. Only the
dead message queue shows it: more dead letters arrive than messages left destinations without an acknowledgement. Such
messages do not all become dead letters: a full store refused them, a sender rolled them back, or a client that no poll
saw acknowledged them. So they explain dead letters only as long as both numbers agree.
"""

from dataclasses import dataclass, field

import numpy as np

from penstock.core.table import Column
from penstock.observation.openmq import MARGIN

DOUBTED = 600.0
"""Seconds for which, once both numbers have differed, only what is surely a dead letter explains one."""


@dataclass(frozen=True, slots=True)
class Matching:
    """Dead letters, one by one against messages of which each may be one; a row each for what is matched.

    Destinations and the dead message queue are not read at one moment: a dead letter and its message belong to the
    same poll, or to two that follow each other.

    Attributes:
        letters: of the last poll, without a message that explains them.
        messages: of the last poll, that explain no dead letter yet.
        matched: pairs that the last poll has completed.
        overdue: letters and messages of the poll before that have found no match.
    """

    letters: Column
    messages: Column
    matched: Column
    overdue: Column

    @classmethod
    def empty(cls, rows: int) -> "Matching":
        """Before the first poll."""
        nothing = np.zeros(rows)
        return cls(letters=nothing, messages=nothing, matched=nothing, overdue=nothing)

    def after(self, letters: Column, messages: Column) -> "Matching":
        """With those of another poll."""
        old_letters = np.minimum(self.letters, messages)
        old_messages = np.minimum(self.messages, letters)
        new_letters = letters - old_messages
        new_messages = messages - old_letters
        both_new = np.minimum(new_letters, new_messages)
        return Matching(
            letters=new_letters - both_new,
            messages=new_messages - both_new,
            matched=old_letters + old_messages + both_new,
            overdue=self.letters - old_letters + self.messages - old_messages,
        )


@dataclass(frozen=True, slots=True)
class DeadLetterArrivals:
    """All of a broker, at the last poll; the matchings have one row.

    Attributes:
        possibly: with all that may have become dead letters.
        surely: with what surely did.
        doubted_at: when the numbers of `possibly` last differed, in seconds.
        unexplained: dead letters that may have come out of the buffers of clients, at most.
    """

    possibly: Matching = field(default_factory=lambda: Matching.empty(1))
    surely: Matching = field(default_factory=lambda: Matching.empty(1))
    doubted_at: float = float("-inf")
    unexplained: float = 0.0

    def advance(
        self, letters: float, possible: float, sure: float, share_apart: float, now: float
    ) -> "DeadLetterArrivals":
        """With another poll.

        Args:
            letters: that arrived at the dead message queue.
            possible: messages that left destinations, or never were in them, and that no consumer acknowledged.
            sure: those of `possible` that surely became dead letters.
            share_apart: of both, the part that may have moved between the reads of two destinations; from 0 to 1.
            now: of the poll, in seconds.
        """
        possibly = self.possibly.after(np.array([letters]), np.array([possible]))
        surely = self.surely.after(np.array([letters]), np.array([sure]))
        left_over = max(float(possibly.letters[0]), float(possibly.messages[0]))
        most_apart = MARGIN + share_apart * max(letters, possible)
        differs = possibly.overdue[0] > 0 or left_over > most_apart
        doubted_at = now if differs else self.doubted_at
        explained = surely if now - doubted_at <= DOUBTED else possibly
        unexplained = max(letters - float(explained.matched[0]), 0.0)
        return DeadLetterArrivals(possibly, surely, doubted_at, unexplained)
