"""How many dead letters of an OpenMQ broker have no known source, from poll to poll.

A message that expires in the buffer of a client leaves its destination like one that the client acknowledged. Only the
dead message queue shows it: more dead letters arrive than messages left destinations without an acknowledgement. Such
messages do not all become dead letters: a full store refused them, a sender rolled them back, or a client that no poll
saw acknowledged them. So messages of one kind *explain* dead letters only as long as both numbers agree, poll by poll.
A *letter* is here a dead letter that arrived at the dead message queue.
"""

from dataclasses import dataclass, field

import numpy as np

from penstock.core.table import Column, Mask, Matrix
from penstock.observation.openmq import MARGIN

AGREES = 8
"""Messages explain dead letters once both numbers have agreed for so many polls."""


@dataclass(frozen=True, slots=True)
class Matching:
    """Dead letters, matched one to one with messages of which each may have become one; all columns have the same rows.

    Destinations and the dead message queue are not read at one moment: a dead letter and its message belong to the
    same poll, or to two that follow each other.

    Attributes:
        letters: dead letters of the last poll, which no message explains yet.
        messages: messages of the last poll, which explain no dead letter yet.
        matched: pairs of a letter and a message that were made at the last poll.
        overdue: letters and messages of the poll before that found no match until the last one: none will explain them.
    """

    letters: Column
    messages: Column
    matched: Column
    overdue: Column

    @classmethod
    def empty(cls, rows: int) -> "Matching":
        """Return the matching before the first poll."""
        nothing = np.zeros(rows)
        return cls(letters=nothing, messages=nothing, matched=nothing, overdue=nothing)

    def after(self, letters: Column, messages: Column) -> "Matching":
        """Return the matching with the letters and messages of another poll.

        Those that wait from the poll before are matched first; what they leave of the new ones is matched next.
        """
        old_letters = np.minimum(self.letters, messages)
        old_messages = np.minimum(self.messages, letters)
        new_letters = letters - old_messages
        new_messages = messages - old_letters
        matched_new = np.minimum(new_letters, new_messages)
        overdue_letters = self.letters - old_letters
        overdue_messages = self.messages - old_messages
        matched_late = old_letters + old_messages
        return Matching(
            letters=new_letters - matched_new,
            messages=new_messages - matched_new,
            matched=matched_late + matched_new,
            overdue=overdue_letters + overdue_messages,
        )

    def without_more_than(self, most: Column) -> "Matching":
        """Return the matching in which more than `most` letters or messages without a match are overdue at once.

        So many cannot be explained by reads at different moments, and no later poll will explain them.
        """
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
    """Messages of one poll that may have become dead letters: they left destinations without an acknowledgement.

    Others never were in a destination, as they had expired when they came. Messages that left while consumers came and
    went explain nothing: a consumer that no poll saw may have acknowledged them.

    Attributes:
        sure: messages that surely became dead letters.
        alone: messages that left without an acknowledgement while the consumers stayed.
        refused: messages that never were in a destination: refused, or expired as they came.
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
        """(4,) The numbers of messages that may explain all dead letters: sure; alone; refused; alone and refused."""
        return np.array(
            [self.sure, self.alone, self.refused, self.alone + self.refused]
        )


KINDS = len(Explanations().column())


@dataclass(frozen=True, slots=True)
class DeadLetterArrivals:
    """All dead letters of a broker at the last poll, against each explanation of `Explanations.column`.

    Attributes:
        matching: the letters against the messages of each explanation, one row for each.
        overdue: (polls, explanations) `Matching.overdue` at the last polls.
        unexplained: dead letters, at most, that no explanation accounts for: these may have come out of the buffers of
            clients.
    """

    matching: Matching = field(default_factory=lambda: Matching.empty(KINDS))
    overdue: Matrix = field(default_factory=lambda: np.zeros((AGREES, KINDS)))
    unexplained: float = 0.0

    def advance(
        self, letters: float, explanations: Explanations, share_apart: float
    ) -> "DeadLetterArrivals":
        """Return the arrivals after one more poll.

        An explanation counts while hardly any of its letters and messages were overdue at the last polls. The one that
        leaves the fewest letters unexplained is taken.

        Args:
            letters: dead letters that arrived at the dead message queue.
            explanations: messages of this poll that may explain them.
            share_apart: the part of letters and messages, from 0 to 1, that may have moved between the reads of two
                destinations, so that their match shows a poll later.
        """
        messages = explanations.column()
        most_moving = share_apart * np.maximum(messages, letters)
        matching = self.matching.after(np.full(KINDS, letters), messages)
        matching = matching.without_more_than(MARGIN + most_moving)
        overdue = np.vstack([self.overdue[1:], matching.overdue])
        agrees: Mask = overdue.sum(axis=0) <= MARGIN
        agrees[0] = True  # the first explanation is what is sure: it needs no agreement
        unexplained = np.maximum(letters - matching.matched, 0.0)
        least = unexplained[agrees].min()
        return DeadLetterArrivals(matching, overdue, float(least))
