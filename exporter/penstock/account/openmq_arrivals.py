"""How many dead letters of an OpenMQ broker have no known source, from poll to poll.

A message that expires in the buffer of a client leaves its destination like one that the client acknowledged. Only the
dead message queue shows it: more dead letters arrive than messages left destinations without an acknowledgement. Such
messages do not all become dead letters: a full store refused them, a sender rolled them back, or a client that no poll
saw acknowledged them. So those of one kind explain dead letters only as long as both numbers agree.
"""

from dataclasses import dataclass, field

import numpy as np

from penstock.core.table import Column, Mask, Matrix
from penstock.observation.openmq import MARGIN

AGREES = 8
"""Polls in which the numbers of letters and of messages agreed, after which the one explains the other."""


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
        overdue_letters = self.letters - old_letters
        overdue_messages = self.messages - old_messages
        matched_late = old_letters + old_messages
        return Matching(
            letters=new_letters - both_new,
            messages=new_messages - both_new,
            matched=matched_late + both_new,
            overdue=overdue_letters + overdue_messages,
        )

    def without_more_than(self, most: Column) -> "Matching":
        """What is left over of more than `most` is overdue at once: no later poll explains it."""
        left_over = self.letters + self.messages
        is_more = left_over > most
        given_up = np.where(is_more, left_over, 0.0)
        return Matching(
            letters=np.where(is_more, 0.0, self.letters),
            messages=np.where(is_more, 0.0, self.messages),
            matched=self.matched,
            overdue=self.overdue + given_up,
        )


@dataclass(frozen=True, slots=True)
class Explanations:
    """Messages of one poll that left destinations, or never were in them, and that no consumer acknowledged.

    What left while consumers came and went explains nothing: one that no poll saw may have acknowledged it.

    Attributes:
        sure: those that surely became dead letters.
        alone: that left while the consumers stayed.
        refused: that never were in a destination: refused, or expired as they came.
    """

    sure: float = 0.0
    alone: float = 0.0
    refused: float = 0.0

    def __add__(self, other: "Explanations") -> "Explanations":
        return Explanations(
            sure=self.sure + other.sure,
            alone=self.alone + other.alone,
            refused=self.refused + other.refused,
        )

    def column(self) -> Column:
        """What may explain all dead letters: first what surely does, then one kind, or both."""
        return np.array(
            [self.sure, self.alone, self.refused, self.alone + self.refused]
        )


KINDS = len(Explanations().column())


@dataclass(frozen=True, slots=True)
class DeadLetterArrivals:
    """All of a broker, at the last poll.

    Attributes:
        matching: with a row for each of `Explanations.column`.
        overdue: of these, at the last polls; a line for each.
        unexplained: dead letters that may have come out of the buffers of clients, at most.
    """

    matching: Matching = field(default_factory=lambda: Matching.empty(KINDS))
    overdue: Matrix = field(default_factory=lambda: np.zeros((AGREES, KINDS)))
    unexplained: float = 0.0

    def advance(
        self, letters: float, explanations: Explanations, share_apart: float
    ) -> "DeadLetterArrivals":
        """With another poll.

        Args:
            letters: that arrived at the dead message queue.
            explanations: of this poll.
            share_apart: of both, the part that may have moved between the reads of two destinations; from 0 to 1.
        """
        messages = explanations.column()
        most_moving = share_apart * np.maximum(messages, letters)
        matching = self.matching.after(np.full(KINDS, letters), messages)
        matching = matching.without_more_than(MARGIN + most_moving)
        overdue = np.vstack([self.overdue[1:], matching.overdue])
        agrees: Mask = overdue.sum(axis=0) <= MARGIN
        agrees[0] = True  # what is sure needs no agreement
        unexplained = np.maximum(letters - matching.matched, 0.0)
        least = unexplained[agrees].min()
        return DeadLetterArrivals(matching, overdue, float(least))
