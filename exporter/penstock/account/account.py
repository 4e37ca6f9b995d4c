"""`MessageAccount`: the parts of the account of one broker, continued from poll to poll."""

from dataclasses import dataclass, field, replace

from penstock.account.address_books import AddressBooks
from penstock.account.duplicates import Duplicates
from penstock.account.in_doubt import InDoubt
from penstock.account.losing import losses
from penstock.account.queue_books import QueueBooks
from penstock.account.ring_losses import RingLosses
from penstock.model import Observation, Snapshot
from penstock.observation.facts import Facts, Seen
from penstock.observation.losses import Losses

LISTED = {"queues", "addresses"}


@dataclass(frozen=True, slots=True)
class MessageAccount:
    """watched: the process of the last poll is still the same, so that what is new was made since."""

    books: QueueBooks = field(default_factory=QueueBooks)
    address_books: AddressBooks = field(default_factory=AddressBooks)
    duplicates: Duplicates = field(default_factory=Duplicates)
    ring_losses: RingLosses = field(default_factory=RingLosses)
    in_doubt: InDoubt = field(default_factory=InDoubt)
    losses: Losses = field(default_factory=Losses)
    watched: bool = False

    def advance(self, found: Facts, snapshot: Snapshot, before: Seen, now: Seen) -> "MessageAccount":
        """before, now: as seen at the poll before and at this one; `found` is the difference."""
        if in_part(snapshot.observation):  # what comes into view has a past; an address has queues that are not seen
            books = self.books.advance(found, watched=False)
            by_rings = self.ring_losses.advance(found, before, books, snapshot)
            in_doubt = self.in_doubt.advance(found, snapshot, books)
            of, duplicates = self.address_books.begun_anew(), self.duplicates.begun_anew()
            going_on = losses(self.losses, found, snapshot, books, of, duplicates, in_doubt)
            return MessageAccount(books, of, duplicates, by_rings, in_doubt, going_on)
        watched = self.watched and not found.restarted
        books = self.books.advance(found, watched=watched)
        arrivals = self.address_books.advance(found, snapshot, now.addresses, books, watched=watched)
        duplicates = self.duplicates.advance(found, snapshot, now.addresses, arrivals)
        in_doubt = self.in_doubt.advance(found, snapshot, books)
        return MessageAccount(
            books,
            arrivals,
            duplicates,
            self.ring_losses.advance(found, before, books, snapshot),
            in_doubt,
            losses(self.losses, found, snapshot, books, arrivals, duplicates, in_doubt),
            watched=True,
        )

    def glanced(self, found: Facts, snapshot: Snapshot, before: Seen) -> "MessageAccount":
        """After a poll between two that are judged: what rings lose, of the queues that were judged last."""
        judged = self.books.index
        books = self.books.advance(found, watched=self.watched)
        losses = self.ring_losses.advance(found, before, books, snapshot).with_growth_of(self.ring_losses)
        # What counts when it is seen at several polls is of those that are judged.
        books = replace(books.reindexed(judged), gaps=self.books.gaps, unheld=self.books.unheld)
        return replace(self, books=books, ring_losses=losses.reindexed(judged))

    def begun_anew(self) -> "MessageAccount":
        """Another process counts from now on: what was counted stays."""
        return MessageAccount(
            self.books.begun_anew(),
            self.address_books.begun_anew(),
            self.duplicates.begun_anew(),
            self.ring_losses.begun_anew(),
            self.in_doubt.begun_anew(),
            self.losses.begun_anew(),
        )


def in_part(observation: Observation) -> bool:
    """Whether a budget hides queues or addresses at this poll, or did at the one before."""
    return bool(LISTED & ({one.what for one in observation.left_out} | observation.late.keys()))
