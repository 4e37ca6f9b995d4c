"""`MessageAccount`: the parts of the account of one broker, continued from poll to poll."""

from dataclasses import dataclass, field, fields, replace

import numpy as np

from penstock.account.address_books import AddressBooks, AlsoKnown, Missing
from penstock.account.bare_addresses import BareAddresses
from penstock.account.dead_letters import DeadLetters
from penstock.account.duplicates import Duplicates
from penstock.account.given_back import GivenBack
from penstock.account.in_doubt import InDoubt
from penstock.account.moves import Moves
from penstock.account.queue_books import QueueBooks
from penstock.account.reading import read
from penstock.account.ring_losses import RingLosses
from penstock.account.rollbacks import Rollbacks, Tenure
from penstock.account.unlisted import UnlistedRows, came_back, joined, with_rows
from penstock.account.visits import Visits
from penstock.account.wildcards import Wildcards
from penstock.core.state import By, RowState, with_fields
from penstock.core.table import Column, Mask, Positions
from penstock.model import Observation, Snapshot
from penstock.observation.facts import SKEW, AddressJoin, Facts, Seen
from penstock.observation.losses import Losses

LISTED = {"queues", "addresses"}
"""What a budget may hide, so that a poll is in part."""
WHOLE = {"address_books", "dead_letters"}
"""Parts of which all is kept for a queue that is not listed: the numbers that they rest on go on without it."""


@dataclass(frozen=True, slots=True)
class MessageAccount:
    """All parts of the account of one Artemis broker; each goes on by its own rules."""

    books: QueueBooks = field(default_factory=QueueBooks)
    address_books: AddressBooks = field(default_factory=AddressBooks)
    duplicates: Duplicates = field(default_factory=Duplicates)
    ring_losses: RingLosses = field(default_factory=RingLosses)
    in_doubt: InDoubt = field(default_factory=InDoubt)
    losses: Losses = field(default_factory=Losses)
    visits: Visits = field(default_factory=Visits)
    dead_letters: DeadLetters = field(default_factory=DeadLetters)
    moves: Moves = field(default_factory=Moves)
    wildcards: Wildcards = field(default_factory=Wildcards)
    bare: BareAddresses = field(default_factory=BareAddresses)
    rollbacks: Rollbacks = field(default_factory=Rollbacks)
    tenure: Tenure = field(default_factory=Tenure)
    returns: GivenBack = field(default_factory=GivenBack)
    unlisted: UnlistedRows = field(default_factory=UnlistedRows)
    watched: bool = False
    """The process of the last poll is still the same, so that what is new was made since."""

    def advance(
        self,
        facts: Facts,
        snapshot: Snapshot,
        before: Seen,
        now: Seen,
        rings: tuple[Facts, Seen] | None = None,
    ) -> "MessageAccount":
        """Return the account after one more poll.

        Args:
            facts: the differences between the poll before and this one.
            snapshot: of this poll.
            before: the numbers of the poll before.
            now: the numbers of this poll.
            rings: facts and numbers since the last poll in between, which only rings know.
        """
        returning = self.unlisted.returning(facts.queues, self.books.index)
        returned = came_back(facts.queues, self.unlisted.index.keys[returning])
        # Kept as the last poll left them: before their books go on with this one.
        unlisted = self.unlisted.after(self.by_queue, self.books.index, facts.queues)
        account = self.with_returned(returning) if len(returning) else self
        if in_part(snapshot.observation):
            account = account.advanced_in_part(facts, snapshot, before)
        else:
            since_rings = rings or (facts, before)
            account = account.advanced(
                facts, snapshot, before, now.addresses, since_rings, returned
            )
        return replace(account, unlisted=unlisted)

    def with_returned(self, returning: Positions) -> "MessageAccount":
        """Return the account with the books of queues that are listed again, as if the poll before had listed them.

        returning: their positions among the unlisted queues.
        """
        listed = self.books.index
        unlisted = self.unlisted
        index = with_rows(unlisted.index, returning, listed, np.arange(len(listed)))
        parts = {
            name: joined(
                unlisted.parts[name],
                part,
                index,
                saved_only=name not in WHOLE,
            )
            for name, part in self.by_queue.items()
        }
        return with_fields(self, parts)

    @property
    def by_queue(self) -> dict[str, RowState]:
        """The parts by queue of which something outlives the agent, by field: these are kept for unlisted queues."""
        parts = {part.name: getattr(self, part.name) for part in fields(self)}
        return {
            name: part
            for name, part in parts.items()
            if isinstance(part, RowState) and part.BY is By.QUEUE
        }

    def advanced_in_part(
        self, facts: Facts, snapshot: Snapshot, before: Seen
    ) -> "MessageAccount":
        """Return the account after a poll that a budget kept from listing all queues or addresses.

        Only books and ring losses go on, which need nothing but the queue's own row. A queue that comes into view has
        an unknown past, and addresses have queues that are not listed: all else begins again.
        """
        books = self.books.advance(facts, watched=False)
        ring_losses = self.ring_losses.advance(facts, before, books, snapshot)
        account = replace(
            self.begun_anew(),
            books=books,
            ring_losses=ring_losses,
            returns=self.returns,
        )
        account = account.without_addresses(facts, snapshot)
        return account.finished(self, facts, snapshot, before, watched=False)

    def advanced(
        self,
        facts: Facts,
        snapshot: Snapshot,
        before: Seen,
        join: AddressJoin,
        rings: tuple[Facts, Seen],
        returned: Mask,
    ) -> "MessageAccount":
        """Return the account after a poll that listed all queues and addresses.

        returned: (queues,) True where the queue is listed again, and its books have been brought back.
        """
        watched = self.watched and not facts.restarted
        account = replace(self, books=self.books.advance(facts, watched=watched))
        account = account.with_arrivals(
            facts, snapshot, join, returned, watched=watched
        )
        ring_losses = self.ring_losses.advance(*rings, account.books, snapshot)
        account = replace(account, ring_losses=ring_losses, watched=True)
        if read(snapshot, snapshot.addresses, "addresses") is None:
            account = account.without_addresses(facts, snapshot)
        else:
            account = account.with_operators(facts, snapshot, join, watched=watched)
        return account.finished(self, facts, snapshot, before, watched=watched)

    def with_arrivals(
        self,
        facts: Facts,
        snapshot: Snapshot,
        join: AddressJoin,
        returned: Mask,
        *,
        watched: bool,
    ) -> "MessageAccount":
        """Return the account with what addresses routed, with and without queues, and with duplicates."""
        addresses = read(snapshot, snapshot.addresses, "addresses")
        wildcards = self.wildcards
        bare = self.bare
        if addresses is not None:
            wildcards = wildcards.advance(
                snapshot, facts.queues, addresses, watched=watched
            )
            bare = bare.advance(
                facts, snapshot, join, addresses, wildcards, watched=watched
            )
        also = AlsoKnown(wildcards, self.bare.by_queue(join), returned)
        arrivals = self.address_books.advance(
            facts, snapshot, join, self.books, also, watched=watched
        )
        if addresses is not None:
            bare = bare.with_queues(join, arrivals)
        return replace(
            self,
            wildcards=wildcards,
            bare=bare,
            address_books=arrivals,
            duplicates=self.duplicates.advance(facts, snapshot, join, arrivals),
        )

    def finished(
        self,
        before: "MessageAccount",
        facts: Facts,
        snapshot: Snapshot,
        last: Seen,
        *,
        watched: bool,
    ) -> "MessageAccount":
        """Return the account with what was given back and is in doubt, and with the losses that conditions judge.

        before: the account of the poll before. last: the numbers of that poll. watched: as for `QueueBooks.advance`.
        """
        returns = self.returns.advance(
            facts, snapshot, last, self.books, self.moves, watched=watched
        )
        in_doubt = before.in_doubt.advance(facts, snapshot, self.books)
        account = replace(self, returns=returns, in_doubt=in_doubt)
        arrivals = self.address_books
        # An index is one object for one listing: else the address books have not gone on with this poll.
        has_arrivals = arrivals.index is facts.queues
        _, most_in_doubt = in_doubt.bounds
        least_held_by_none = in_doubt.rest[0]
        losses = before.losses.advance(
            facts,
            account.amounts(facts, snapshot),
            arrivals.routed if has_arrivals else self.books.came,
            most_in_doubt,
            least_held_by_none,
            in_doubt.since if in_doubt.read else {},
            snapshot.producers,
        )
        return replace(account, losses=losses)

    def amounts(self, facts: Facts, snapshot: Snapshot) -> tuple[Column, ...]:
        """(queues,) The messages of each kind of loss that conditions judge, in the order of the lines of `Losses`.

        NaN where a part of the account was not continued at this poll (its index is another), so it is not known. What
        is dropped counts for dead-letter and expiry queues only.
        """
        arrivals = self.address_books
        duplicates = self.duplicates.duplicate
        unwanted = arrivals.unwanted
        dropped = arrivals.dropped
        rolled_back = self.rollbacks.rolled_back
        nothing = np.full(len(facts.queues), np.nan)
        if arrivals.index is facts.queues:
            # Of dead letters and expired messages that a full address drops nothing is left.
            is_target = facts.parked & (arrivals.policy == Missing.DROPPED)
            dropped = np.where(is_target, dropped, np.nan)
        else:
            unwanted = nothing
            dropped = nothing
        if self.duplicates.index is not facts.queues:
            duplicates = nothing
        if self.rollbacks.index is not facts.queues:
            rolled_back = nothing
        is_placeless = self.placeless(facts, snapshot)
        return (
            duplicates,
            unwanted,
            np.where(is_placeless, self.books.killed, np.nan),
            dropped,
            self.unexplained(facts),
            rolled_back,
            self.dead_letters.reindexed(facts.queues).purged,
            self.returns.from_rows,
        )

    def unexplained(self, facts: Facts) -> Column:
        """(queues,) Messages that no reason explains; NaN where it is not known.

        It is 0 while messages come or leave and the gap is no more than `SKEW`: the numbers of one row are not read at
        the same moment.
        """
        gap = np.abs(self.books.unexplained)
        changes = facts.d_added + facts.d_settled + facts.d_expired + facts.d_killed
        noise = np.where(changes > 0, SKEW, 0.0)
        return np.where(gap > noise, gap, 0.0 * gap)

    def placeless(self, facts: Facts, snapshot: Snapshot) -> Mask:
        """(queues,) True where messages are lost after their last delivery attempt.

        No dead-letter address is set, or it has no queue. They are not lost where that address makes a queue for each
        dead letter, or has ever routed a message and so passes them on. Dead-letter and expiry queues do not count.
        """
        addresses = snapshot.addresses
        targets = self.visits.targets
        nowhere = np.zeros(len(facts.queues), np.bool_)
        # The targets must have been found for the listings of this poll.
        if addresses is None or targets.queues is not facts.queues:
            return nowhere
        if targets.addresses is not addresses.index:
            return nowhere
        has_arrivals = addresses["messages_added"] > 0
        makes_queues = addresses["makes_dead_letter_queues"] > 0
        # The last element is for queues without a dead-letter address: position -1.
        is_used = np.append(has_arrivals | makes_queues, np.False_)[targets.dead]
        return np.asarray(self.dead_letters.placeless & ~facts.parked & ~is_used)

    def without_addresses(self, facts: Facts, snapshot: Snapshot) -> "MessageAccount":
        """Return the account after a poll that did not read addresses."""
        pages = self.returns.pages(facts)
        return replace(
            self,
            moves=self.moves.advance(facts, snapshot, self.books, None, pages),
            dead_letters=self.dead_letters.unsure(facts.queues),
        )

    def with_operators(
        self,
        facts: Facts,
        snapshot: Snapshot,
        join: AddressJoin,
        *,
        watched: bool,
    ) -> "MessageAccount":
        """Return the account with what operators may have done, and with rollbacks, which show at addresses, too.

        Two counters count what operators do like something else: K moves and acknowledgements, X purges and dead
        letters. In this order: letters need the visits, strangers need the letters, moves need the strangers.
        """
        assert snapshot.queues is not None  # noqa: S101 - there are facts of them
        sent = self.duplicates.rose
        visits = self.visits.advance(
            facts,
            snapshot,
            join,
            self.books,
            sent,
            self.wildcards.reaches,
            watched=watched,
        )
        letters = self.dead_letters.advance(
            facts,
            snapshot.queues["has_dead_letter_address"],
            self.books,
            self.visits,
            visits,
            watched=watched,
            unlisted=self.ring_losses.unlisted,
        )
        producers_were_read = len(sent) > 0
        if producers_were_read:
            visits = visits.with_strangers(letters.dead)
        moves = self.moves.advance(
            facts,
            snapshot,
            self.books,
            visits if producers_were_read else None,
            self.returns.pages(facts),
        )
        rollbacks, tenure = self.rollbacks.advance(
            facts,
            snapshot,
            join,
            self.address_books,
            self.duplicates,
            visits,
            self.tenure,
        )
        if moves.proven:
            # These arrivals are explained: they must not explain a second move.
            visits = replace(visits, grew=np.zeros_like(visits.grew))
        return replace(
            self,
            visits=visits,
            dead_letters=letters,
            moves=moves,
            rollbacks=rollbacks,
            tenure=tenure,
        )

    def glanced(
        self, facts: Facts, snapshot: Snapshot, before: Seen, *, goes_on: bool = False
    ) -> "MessageAccount":
        """Return the account after a poll between two that are judged: with what rings lose.

        Its rows stay those of the queues that were judged last.

        goes_on: this is not the first poll since then, so that losses add up until the next one that is judged.
        """
        judged = self.books.index
        books = self.books.advance(facts, watched=self.watched)
        losses = self.ring_losses.advance(facts, before, books, snapshot)
        if goes_on:
            losses = losses.with_growth_of(self.ring_losses)
        # What is sure only when several polls have seen it counts polls that are judged.
        books = replace(
            books.reindexed(judged), gaps=self.books.gaps, unheld=self.books.unheld
        )
        letters = (
            self.dead_letters.unsure(judged) if losses.unlisted else self.dead_letters
        )
        return replace(
            self,
            books=books,
            ring_losses=losses.reindexed(judged),
            dead_letters=letters,
        )

    @property
    def late(self) -> Column:
        """(queues,) Messages that expired before they were added, at most.

        A message that expires on arrival was routed by the address and reached no queue: besides the sure ones they
        cannot be more than are missing there. Where these are not known, only the queue's own books limit them.
        """
        books = self.books
        arrivals = self.address_books
        if arrivals.index is not books.index:  # no address books of this poll
            # Infinite, and NaN where `on_arrival` is: `fmin` takes `late` in both cases.
            return np.fmin(books.late, books.on_arrival + np.inf)
        to_no_queue = np.where(arrivals.partly > 0, np.inf, arrivals.most)
        return np.fmin(books.late, books.on_arrival + to_no_queue)

    def begun_anew(self) -> "MessageAccount":
        """Return the account for another process: what was counted stays, but nothing by the keys of its addresses."""
        # The keys of visits and of unlisted queues are those of the old process.
        ends = {"visits", "watched", "unlisted"}
        parts = {
            part.name: getattr(self, part.name).begun_anew()
            for part in fields(self)
            if part.name not in ends
        }
        return MessageAccount(**parts)


def in_part(observation: Observation) -> bool:
    """Return whether a budget hides queues or addresses at this poll, or did at the one before."""
    hidden = {part.what for part in observation.left_out}
    return bool(LISTED & (hidden | observation.late.keys()))
