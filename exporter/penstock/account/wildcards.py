"""What is routed to a wildcard address: the messages of all addresses that it matches.

The broker counts a message as routed at the address it was sent to, never at a wildcard address whose queues get it. So
the account of the queues on `orders.#` compares what came to them with the sum over `orders.new`, `orders.eu.paid` ...
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.core.state import RowState, column, unindexed
from penstock.core.table import Column, Index, Mask, Positions, Table
from penstock.model import AddressRow, QueueRow, Snapshot
from penstock.observation.facts import or_zero
from penstock.series.labels import sum_by

MOST_MATCHES = 200_000
"""Pairs of a wildcard address and an address that it matches. Beyond them nothing is known of wildcard addresses."""
INTERNAL = ("$", "activemq.")
"""What the names of the broker's own addresses begin with: it is not known whether a wildcard gets their messages."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Positions of addresses, pair by pair: a wildcard address that has a queue, and an address that it matches.

    sure: each message of that address comes to the queues of the wildcard address, as it has no other way to go.
    """

    queues: Index[QueueRow] | None = None
    addresses: Index[AddressRow] | None = None
    diverts: tuple[tuple[str, str], ...] = ()
    wildcard: Positions = field(default_factory=lambda: np.empty(0, np.intp))
    matched: Positions = field(default_factory=lambda: np.empty(0, np.intp))
    sure: Column = field(default_factory=lambda: np.empty(0))
    complete: bool = True

    def advance(
        self,
        queues: Index[QueueRow],
        addresses: Index[AddressRow],
        diverts: tuple[tuple[str, str], ...],
    ) -> "Matches":
        """The matches again, where a queue, an address or a divert came or went."""
        if (
            queues is self.queues
            and addresses is self.addresses
            and diverts == self.diverts
        ):
            return self
        patterns = sorted({row.address for row in queues if is_wildcard(row.address)})
        if not patterns:
            return Matches(queues, addresses, diverts)
        place = {row.name: position for position, row in enumerate(addresses)}
        in_order = sorted(name for name in place if not is_wildcard(name))
        names: list[str] = []
        wildcard: list[int] = []
        for pattern in patterns:
            if pattern not in place:
                continue
            matched_names = [*matching(pattern, in_order)]
            names += matched_names
            wildcard += [place[pattern]] * len(matched_names)
            if len(names) > MOST_MATCHES:
                return Matches(queues, addresses, diverts, complete=False)
        have_other_ways = {row.address for row in queues} | {
            source for source, _ in diverts
        }
        sure = [
            name not in have_other_ways and not name.startswith(INTERNAL)
            for name in names
        ]
        return Matches(
            queues,
            addresses,
            diverts,
            wildcard=np.array(wildcard, np.intp),
            matched=np.array([place[name] for name in names], np.intp),
            sure=np.array(sure, np.float64),
        )


@dataclass(frozen=True, slots=True)
class Wildcards(RowState):
    """Per address. own: its R at the last poll. total: routed in all to the addresses that a wildcard address matches,
    since it is known; unsure: the part that may have gone elsewhere. Both are 0 of other addresses.
    """

    own: Column = column(saved=False)
    total: Column = column(0.0, saved=False)
    unsure: Column = column(0.0, saved=False)
    matches: Matches = unindexed(Matches)

    def advance(
        self,
        snapshot: Snapshot,
        queues: Index[QueueRow],
        addresses: Table[AddressRow],
        *,
        watched: bool,
    ) -> "Wildcards":
        """watched: as of `QueueBooks.advance`: an address that is new began at 0."""
        before = self.reindexed(addresses.index)
        matches = self.matches.advance(queues, addresses.index, snapshot.diverts)
        routed = addresses["messages_added"]
        if not len(matches.wildcard):
            return replace(before, own=routed, matches=matches)
        rose = rises(before.own, routed, self.index, addresses.index, watched=watched)
        of_pairs = rose[matches.matched]
        unsure_of_pairs = of_pairs * (1.0 - matches.sure)
        total = before.total + sum_by(matches.wildcard, of_pairs, len(addresses))
        unsure = before.unsure + sum_by(
            matches.wildcard, unsure_of_pairs, len(addresses)
        )
        own = np.where(np.isnan(routed), before.own, routed)
        return Wildcards(
            index=addresses.index, own=own, total=total, unsure=unsure, matches=matches
        )

    @property
    def reaches(self) -> Mask:
        """Per address, whether a queue of a wildcard address gets its messages, or may."""
        reaches = np.full(len(self.index), not self.matches.complete)
        reaches[self.matches.matched] = True
        return reaches

    def begun_anew(self) -> "Wildcards":
        return Wildcards()


def rises(
    before: Column,
    now: Column,
    known: Index[AddressRow],
    addresses: Index[AddressRow],
    *,
    watched: bool,
) -> Column:
    """By how much a counter rose at each address since the poll before. known: the addresses of that poll."""
    rose = np.where(now >= before, now - before, now)
    is_first = np.isnan(before)
    counts_from_zero = new_rows(addresses, known) & watched
    return or_zero(np.where(is_first & ~counts_from_zero, 0.0, rose))


def new_rows(addresses: Index[AddressRow], known: Index[AddressRow]) -> Mask:
    """Addresses that are not among those `known`."""
    new = np.zeros(len(addresses), np.bool_)
    new[addresses.new_since(known)] = True
    return new


def is_wildcard(address: str) -> bool:
    return "#" in address or "*" in address


def matching(pattern: str, names: Sequence[str]) -> Iterator[str]:
    """The names that a wildcard address matches. names: sorted: only those with its first words are looked at."""
    expression = expression_of(pattern)
    prefix = re.split(r"[#*]", pattern, maxsplit=1)[0].removesuffix(".")
    for name in names[bisect_left(names, prefix) :]:
        if not name.startswith(prefix):
            return
        if expression.fullmatch(name):
            yield name


def expression_of(pattern: str) -> re.Pattern[str]:
    """Of a wildcard address in the broker's default syntax: words with dots between, `*` one word, `#` any number."""
    expression = ""
    for position, word in enumerate(pattern.split(".")):
        dot = r"\." if position else ""
        if word == "#":
            expression += rf"(?:{dot}.*)?"
        else:
            expression += dot + re.escape(word).replace(r"\*", r"[^.]+")
    return re.compile(expression)
