"""`MessageAccount`: the parts of the account of one broker, continued from poll to poll."""

from dataclasses import dataclass, field

from penstock.account.address_books import AddressBooks
from penstock.account.dead_letters import DeadLetters
from penstock.account.duplicates import Duplicates
from penstock.account.moves import Moves
from penstock.account.queue_books import QueueBooks
from penstock.account.ring_losses import RingLosses
from penstock.account.rollbacks import Rollbacks
from penstock.model import Observation, Snapshot
from penstock.observation.facts import Facts, Seen

LISTED = {"queues", "addresses"}


@dataclass(frozen=True, slots=True)
class MessageAccount:
    """watched: the process of the last poll is still the same, so that what is new was made since."""

    books: QueueBooks = field(default_factory=QueueBooks)
    address_books: AddressBooks = field(default_factory=AddressBooks)
    duplicates: Duplicates = field(default_factory=Duplicates)
    ring_losses: RingLosses = field(default_factory=RingLosses)
    dead_letters: DeadLetters = field(default_factory=DeadLetters)
    moves: Moves = field(default_factory=Moves)
    rollbacks: Rollbacks = field(default_factory=Rollbacks)
    watched: bool = False

    def advance(self, found: Facts, snapshot: Snapshot, before: Seen, now: Seen) -> "MessageAccount":
        """before, now: as seen at the poll before and at this one; `found` is the difference."""
        if in_part(snapshot.observation):  # what comes into view has a past; an address has queues that are not seen
            books = self.books.advance(found, watched=False)
            losses = self.ring_losses.advance(found, before, books)
            return MessageAccount(
                books,
                self.address_books.begun_anew(),
                self.duplicates.begun_anew(),
                losses,
                self.dead_letters.reindexed(found.queues).begun_anew(),
                self.moves.reindexed(found.queues).begun_anew(),
                self.rollbacks.begun_anew(),
            )
        watched, join = self.watched and not found.restarted, now.addresses
        books = self.books.advance(found, watched=watched)
        arrivals = self.address_books.advance(found, snapshot, join, books, watched=watched)
        duplicates = self.duplicates.advance(found, snapshot, join, arrivals)
        dead_letters = self.dead_letters.advance(found, snapshot, join, books, arrivals, duplicates.rose)
        fresh = len(duplicates.rose) > 0 and dead_letters.visited is not self.dead_letters.visited
        moves = self.moves.advance(found, snapshot, books, dead_letters, fresh=fresh)
        return MessageAccount(
            books,
            arrivals,
            duplicates,
            self.ring_losses.advance(found, before, books),
            dead_letters,
            moves,
            self.rollbacks.advance(found, snapshot, join, arrivals, duplicates.producers, moves.strangers),
            watched=True,
        )

    def begun_anew(self) -> "MessageAccount":
        """Another process counts from now on: what was counted stays."""
        return MessageAccount(
            self.books.begun_anew(),
            self.address_books.begun_anew(),
            self.duplicates.begun_anew(),
            self.ring_losses.begun_anew(),
            self.dead_letters.begun_anew(),
            self.moves.begun_anew(),
            self.rollbacks.begun_anew(),
        )


def in_part(observation: Observation) -> bool:
    """Whether a budget hides queues or addresses at this poll, or did at the one before."""
    return bool(LISTED & ({one.what for one in observation.left_out} | observation.late.keys()))
