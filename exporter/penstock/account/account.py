"""`MessageAccount`: the parts of the account of one broker, continued from poll to poll."""

from dataclasses import dataclass, field, fields, replace
from typing import Any

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
from penstock.core.state import By, RowState
from penstock.core.table import Column, Mask, Positions
from penstock.model import Observation, Snapshot
from penstock.observation.facts import SKEW, AddressJoin, Facts, Seen
from penstock.observation.losses import Losses

LISTED = {"queues", "addresses"}
WHOLE = {"address_books", "dead_letters"}
"""Parts of which all is kept of a queue that is not listed: what they rest on goes on without it."""


@dataclass(frozen=True, slots=True)
class MessageAccount:
    """watched: the process of the last poll is still the same, so that what is new was made since."""

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

    def advance(
        self,
        found: Facts,
        snapshot: Snapshot,
        before: Seen,
        now: Seen,
        rings: tuple[Facts, Seen] | None = None,
    ) -> "MessageAccount":
        """before, now: as seen at the poll before and at this one; `found` is the difference. rings: the same since the
        last poll in between, which rings alone know.
        """
        returning = self.unlisted.returning(found.queues, self.books.index)
        returned = came_back(found.queues, self.unlisted.index.keys[returning])
        kept = self.unlisted.after(self.by_queue, self.books.index, found.queues)
        account = self.with_returned(returning) if len(returning) else self
        return replace(
            account.advanced(found, snapshot, before, now, rings, returned),
            unlisted=kept,
        )

    def with_returned(self, returning: Positions) -> "MessageAccount":
        """With the books of queues that are listed again, as if the poll before had listed them."""
        known = self.books.index
        unlisted = self.unlisted
        index = with_rows(unlisted.index, returning, known, np.arange(len(known)))
        parts: dict[str, Any] = {
            name: joined(
                unlisted.parts[name], part, index, saved_only=name not in WHOLE
            )
            for name, part in self.by_queue.items()
        }
        return replace(self, **parts)

    @property
    def by_queue(self) -> dict[str, RowState]:
        """The parts that have a row for each queue, and of which something outlives the agent."""
        parts = {one.name: getattr(self, one.name) for one in fields(self)}
        return {
            name: part
            for name, part in parts.items()
            if isinstance(part, RowState) and part.BY is By.QUEUE
        }

    def advanced(
        self,
        found: Facts,
        snapshot: Snapshot,
        before: Seen,
        now: Seen,
        rings: tuple[Facts, Seen] | None,
        returned: Mask,
    ) -> "MessageAccount":
        """As `advance`, which has brought back the books of the queues that are `returned`."""
        if in_part(
            snapshot.observation
        ):  # what comes into view has a past; an address has queues that are not seen
            books = self.books.advance(found, watched=False)
            by_rings = self.ring_losses.advance(found, before, books, snapshot)
            part = replace(
                self.begun_anew(),
                books=books,
                ring_losses=by_rings,
                returns=self.returns,
            )
            return part.without_addresses(found, snapshot).finished(
                self, found, snapshot, before, watched=False
            )
        ring_found, ring_before = rings or (found, before)
        watched = self.watched and not found.restarted
        join = now.addresses
        books = self.books.advance(found, watched=watched)
        addresses = read(snapshot, snapshot.addresses, "addresses")
        wildcards = self.wildcards
        bare = self.bare
        if addresses is not None:
            wildcards = wildcards.advance(
                snapshot, found.queues, addresses, watched=watched
            )
            bare = bare.advance(
                found, snapshot, join, addresses, wildcards, watched=watched
            )
        known = AlsoKnown(wildcards, self.bare.by_queue(join), returned)
        arrivals = self.address_books.advance(
            found, snapshot, join, books, known, watched=watched
        )
        account = replace(
            self,
            books=books,
            wildcards=wildcards,
            bare=bare if addresses is None else bare.with_queues(join, arrivals),
            address_books=arrivals,
            duplicates=self.duplicates.advance(found, snapshot, join, arrivals),
            ring_losses=self.ring_losses.advance(
                ring_found, ring_before, books, snapshot
            ),
            watched=True,
        )
        if addresses is None:
            account = account.without_addresses(found, snapshot)
        else:
            account = account.with_operators(
                found, snapshot, self.visits, join, watched=watched
            )
        return account.finished(self, found, snapshot, before, watched=watched)

    def finished(
        self,
        before: "MessageAccount",
        found: Facts,
        snapshot: Snapshot,
        last: Seen,
        *,
        watched: bool,
    ) -> "MessageAccount":
        """With what was given back and is in doubt, and which losses that conditions judge go on since `last`."""
        returns = self.returns.advance(
            found, snapshot, last, self.books, self.moves, watched=watched
        )
        in_doubt = before.in_doubt.advance(found, snapshot, self.books)
        of = self.address_books
        duplicates = self.duplicates
        compared = of.index is found.queues
        nothing = np.full(len(found.queues), np.nan)
        drops = found.parked & (of.policy == Missing.DROPPED) if compared else False
        moves = found.d_added + found.d_settled + found.d_expired + found.d_killed > 0
        gap = np.abs(self.books.unexplained)
        amounts = (
            duplicates.duplicate if duplicates.index is found.queues else nothing,
            of.unwanted if compared else nothing,
            np.where(self.placeless(found, snapshot), self.books.killed, np.nan),
            np.where(drops, of.dropped, np.nan) if compared else nothing,
            np.where(gap > np.where(moves, SKEW, 0.0), gap, 0.0 * gap),
            self.rollbacks.rolled_back
            if self.rollbacks.index is found.queues
            else nothing,
            self.dead_letters.reindexed(found.queues).purged,
            returns.from_rows,
        )
        came = of.routed if compared else self.books.came
        prepared = in_doubt.since if in_doubt.read else {}
        in_hands = in_doubt.bounds[1], in_doubt.rest[0]
        going_on = before.losses.advance(
            found, amounts, came, *in_hands, prepared, snapshot.producers
        )
        return replace(self, returns=returns, in_doubt=in_doubt, losses=going_on)

    def placeless(self, found: Facts, snapshot: Snapshot) -> Mask:
        """Queues whose messages are gone after their last delivery: none that a dead-letter address without a queue
        makes one for, or that was ever sent any and passes them on.
        """
        addresses = snapshot.addresses
        targets = self.visits.targets
        if (
            addresses is None
            or targets.queues is not found.queues
            or targets.addresses is not addresses.index
        ):
            return np.zeros(len(found.queues), np.bool_)
        used = (addresses["messages_added"] > 0) | (
            addresses["makes_dead_letter_queues"] > 0
        )
        placeless: Mask = (
            self.dead_letters.placeless
            & ~found.parked
            & ~np.append(used, np.False_)[targets.dead]
        )
        return placeless

    def without_addresses(self, found: Facts, snapshot: Snapshot) -> "MessageAccount":
        moves = self.moves.advance(
            found, snapshot, self.books, None, self.returns.pages(found)
        )
        return replace(
            self, moves=moves, dead_letters=self.dead_letters.unsure(found.queues)
        )

    def with_operators(
        self,
        found: Facts,
        snapshot: Snapshot,
        last: Visits,
        join: AddressJoin,
        *,
        watched: bool,
    ) -> "MessageAccount":
        """With what one counter of the broker counts in two ways. last: of the poll before."""
        assert snapshot.queues is not None  # noqa: S101 - there are facts of them
        sent = self.duplicates.rose
        has_address = snapshot.queues["has_dead_letter_address"]
        to_wildcard = self.wildcards.reaches
        visits = last.advance(
            found, snapshot, join, self.books, sent, to_wildcard, watched=watched
        )
        unlisted = self.ring_losses.unlisted
        letters = self.dead_letters.advance(
            found,
            has_address,
            self.books,
            last,
            visits,
            watched=watched,
            unlisted=unlisted,
        )
        visits = visits.with_strangers(letters.dead) if len(sent) else visits
        known = visits if len(sent) else None
        pages = self.returns.pages(found)
        moves = self.moves.advance(found, snapshot, self.books, known, pages)
        rollbacks, tenure = self.rollbacks.advance(
            found,
            snapshot,
            join,
            self.address_books,
            self.duplicates,
            visits,
            self.tenure,
        )
        if moves.proven:
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
        self, found: Facts, snapshot: Snapshot, before: Seen, *, goes_on: bool = False
    ) -> "MessageAccount":
        """After a poll between two that are judged: what rings lose, of the queues that were judged last. goes_on: it
        is not the first since then.
        """
        judged = self.books.index
        books = self.books.advance(found, watched=self.watched)
        losses = self.ring_losses.advance(found, before, books, snapshot)
        losses = losses.with_growth_of(self.ring_losses) if goes_on else losses
        # What counts when it is seen at several polls is of those that are judged.
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
        """Per queue, what expired before it was added, at most: no more than what its address routed to none."""
        of = self.address_books
        nowhere = (
            np.where(of.partly > 0, np.inf, of.most)
            if of.index is self.books.index
            else np.inf
        )
        return np.fmin(self.books.late, self.books.on_arrival + nowhere)

    def begun_anew(self) -> "MessageAccount":
        """Another process counts from now on: what was counted stays, but nothing by the keys of its addresses."""
        ends = {"visits", "watched", "unlisted"}
        parts = {
            one.name: getattr(self, one.name)
            for one in fields(self)
            if one.name not in ends
        }
        return MessageAccount(
            **{name: part.begun_anew() for name, part in parts.items()}
        )


def in_part(observation: Observation) -> bool:
    """Whether a budget hides queues or addresses at this poll, or did at the one before."""
    return bool(
        LISTED & ({one.what for one in observation.left_out} | observation.late.keys())
    )
