"""Messages that are routed to a wildcard address: those of all addresses that it matches.

The broker counts a message as routed at the address it was sent to, never at a wildcard address whose queues get it. So
the account of the queues on `orders.#` compares what came to them with the sum over `orders.new`, `orders.eu.paid` ...
R is the broker's counter of messages that an address has routed.
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
    """Pairs of a wildcard address that has a queue, and an address that it matches.

    Attributes:
        queues, addresses, diverts: what the pairs were made of.
        wildcard, matched: (pairs,) positions of both among the addresses.
        sure: (pairs,) 1 where each message of the matched address comes to the queues of the wildcard address, as it
            has no other way to go; else 0.
        complete: False where there are more pairs than `MOST_MATCHES`, and none is known.
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
        """Return the matches, made again where a queue, an address or a divert is new or gone.

        An index is the same object as long as its rows stay.
        """
        same_rows = queues is self.queues and addresses is self.addresses
        if same_rows and diverts == self.diverts:
            return self
        patterns = sorted({row.address for row in queues if is_wildcard(row.address)})
        if not patterns:
            return Matches(queues, addresses, diverts)
        positions = {row.name: position for position, row in enumerate(addresses)}
        plain_names = sorted(name for name in positions if not is_wildcard(name))
        names: list[str] = []
        wildcards: list[int] = []
        for pattern in patterns:
            if pattern not in positions:
                continue
            matched_names = [*matching(pattern, plain_names)]
            names += matched_names
            wildcards += [positions[pattern]] * len(matched_names)
            if len(names) > MOST_MATCHES:
                return Matches(queues, addresses, diverts, complete=False)
        return Matches(
            queues,
            addresses,
            diverts,
            wildcard=np.array(wildcards, np.intp),
            matched=np.array([positions[name] for name in names], np.intp),
            sure=are_sure(names, queues, diverts),
        )


def are_sure(
    names: Sequence[str],
    queues: Index[QueueRow],
    diverts: tuple[tuple[str, str], ...],
) -> Column:
    """(names,) 1 for addresses whose messages have no other way to go than to the queues of a wildcard, else 0.

    Another way is a queue of the address itself or a divert; what the broker does with its internal addresses is not
    known.
    """
    have_other_ways = {row.address for row in queues}
    have_other_ways.update(source for source, _ in diverts)
    sure = [
        name not in have_other_ways and not name.startswith(INTERNAL) for name in names
    ]
    return np.array(sure, np.float64)


@dataclass(frozen=True, slots=True)
class Wildcards(RowState):
    """Messages that were routed to the addresses that a wildcard address matches; all columns are by address."""

    own: Column = column(saved=False)
    """R of each address itself at the last poll that read it."""
    total: Column = column(0.0, saved=False)
    """Messages of the addresses that this wildcard address matches, since it is known; 0 for other addresses."""
    unsure: Column = column(0.0, saved=False)
    """The part of `total` that may have gone elsewhere."""
    matches: Matches = unindexed(Matches)

    def advance(
        self,
        snapshot: Snapshot,
        queues: Index[QueueRow],
        addresses: Table[AddressRow],
        *,
        watched: bool,
    ) -> "Wildcards":
        """Return the state after one more poll: each wildcard gets what R of its matched addresses rose by.

        watched: as for `QueueBooks.advance`: R of a new address began at 0.
        """
        before = self.reindexed(addresses.index)
        matches = self.matches.advance(queues, addresses.index, snapshot.diverts)
        routed = addresses["messages_added"]
        if not len(matches.wildcard):
            return replace(before, own=routed, matches=matches)
        starts_at_zero = new_rows(addresses.index, self.index) & watched
        rose = rises(before.own, routed, starts_at_zero)
        rose_by_pair = rose[matches.matched]
        unsure_by_pair = rose_by_pair * (1.0 - matches.sure)
        size = len(addresses)
        total = sum_by(matches.wildcard, rose_by_pair, size)
        unsure = sum_by(matches.wildcard, unsure_by_pair, size)
        return replace(
            before,
            own=np.where(np.isnan(routed), before.own, routed),
            total=before.total + total,
            unsure=before.unsure + unsure,
            matches=matches,
        )

    @property
    def reaches(self) -> Mask:
        """(addresses,) True where a queue of a wildcard address gets its messages; all, where that is not known."""
        reaches = np.full(len(self.index), not self.matches.complete)
        reaches[self.matches.matched] = True
        return reaches

    def begun_anew(self) -> "Wildcards":
        return Wildcards()


def rises(before: Column, now: Column, starts_at_zero: Mask) -> Column:
    """(rows,) By how much a counter rose since the poll before; 0 where one of the two numbers is missing.

    A counter that fell has begun at 0 again, so that it rose by all that it shows. Of a counter that is polled first it
    is not known since when it has risen: it counts only where it began since the poll before.

    before: NaN where it is polled first. starts_at_zero: (rows,) True where it began since the poll before.
    """
    rose = np.where(now >= before, now - before, now)
    is_first = np.isnan(before)
    return or_zero(np.where(is_first & ~starts_at_zero, 0.0, rose))


def new_rows(addresses: Index[AddressRow], before: Index[AddressRow]) -> Mask:
    """(addresses,) True where it is not among those of `before`."""
    is_new = np.zeros(len(addresses), np.bool_)
    is_new[addresses.new_since(before)] = True
    return is_new


def is_wildcard(address: str) -> bool:
    return "#" in address or "*" in address


def matching(pattern: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the names that a wildcard address matches.

    names: sorted, so that those with the part of the pattern before its first wildcard stand together, and only these
        are tried.
    """
    expression = expression_of(pattern)
    prefix = re.split(r"[#*]", pattern, maxsplit=1)[0].removesuffix(".")
    for name in names[bisect_left(names, prefix) :]:
        if not name.startswith(prefix):
            return
        if expression.fullmatch(name):
            yield name


def expression_of(pattern: str) -> re.Pattern[str]:
    """Return the regular expression for a wildcard address in the broker's default syntax.

    Dots stand between its words; `*` is one word, `#` any number of words.
    """
    expression = ""
    for position, word in enumerate(pattern.split(".")):
        dot = r"\." if position else ""
        if word == "#":
            expression += rf"(?:{dot}.*)?"
        else:
            expression += dot + re.escape(word).replace(r"\*", r"[^.]+")
    return re.compile(expression)
