"""The account of each poll as rows of history: how many messages of a queue or an address had which fate, and how many
a client lost.

Totals of one account are one life (`inc`). Each has the total of the poll before beside it (`before`): what is counted
for the first time then counts in full, and what is older than the history not at all.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.account import openmq
from penstock.account.account import MessageAccount
from penstock.account.fates import (
    ADDRESS_FATES,
    Bounds,
    address_fates,
    lost_to_clients,
    queue_fates,
)
from penstock.account.openmq import OpenmqAccount
from penstock.core.table import Column, Index, Positions, Table, take_or_fill
from penstock.history.schema import FateRow, series_id
from penstock.history.snapshots import MILLI
from penstock.model import QueueRow
from penstock.observation.facts import JUDGED

MOST_FATES = 64


@dataclass(frozen=True, slots=True)
class Part:
    """Fates by the rows of `index`. shown: of these. since: when their account began. name: address and queue."""

    index: Index[Any]
    shown: Positions
    since: Column
    fates: Mapping[str, Bounds]
    name: Callable[[Any], tuple[str, str]]

    def chosen(self, last: "Totals | None") -> "Iterator[Chosen]":
        """Of each fate the rows that have some. last: of this part; None at the first poll."""
        at = self.index.positions_in(last[0]) if last else np.empty(0, np.intp)
        for fate, (low, high) in self.fates.items():
            rows = self.shown[
                (low[self.shown] > 0)
                | ((high[self.shown] > 0) & np.isfinite(high[self.shown]))
            ]
            # A queue that came into view since has an account that began then.
            known = (
                take_or_fill(last[1][fate], at, 0.0)
                if last and fate in last[1]
                else low
            )
            before = np.where(np.isnan(known), low, known)
            yield (
                self,
                rows,
                fate,
                "",
                np.stack([low, high, before, np.rint(self.since * MILLI)])[:, rows],
            )


Totals = tuple[Index[object], Mapping[str, Column]]
"""By fate and row, at least so many; NaN where that is not known."""
Chosen = tuple[Part, Positions, str, str, NDArray[np.float64]]
"""Rows of a part, their fate and client; messages, most, before and inc of each."""


def parts_of(
    account: MessageAccount | OpenmqAccount, queues: Table[QueueRow]
) -> list[Part]:
    """Of queues, and of addresses; empty where this poll has no account."""
    if isinstance(account, OpenmqAccount):
        return parts_of_openmq(account, queues)
    index = queues.index
    since = account.books.since
    if not (account.watched and account.books.index is index):
        return []
    shown = np.flatnonzero(index.column("judged", lambda row: row.kind in JUDGED) > 0)
    parts = [
        Part(
            index,
            shown,
            since,
            queue_fates(account, queues),
            lambda row: (row.address, row.name),
        )
    ]
    if account.address_books.index is index:
        # The first queue of each address has all that came to none.
        names = index.column("address", lambda row: float(series_id(row.address)))[
            shown
        ]
        once = shown[np.unique(names, return_index=True)[1]]
        bounds = address_fates(account)
        fates = {fate: bounds[fate] for fate in ADDRESS_FATES}
        parts.append(Part(index, once, since, fates, lambda row: (row.address, "")))
        bare = account.bare
        of_bare = {"unrouted": (bare.unrouted, bare.unrouted)}
        parts.append(
            Part(
                bare.index,
                np.flatnonzero(bare.bare),
                bare.since,
                of_bare,
                lambda row: (row.name, ""),
            )
        )
    return parts


def parts_of_openmq(account: OpenmqAccount, queues: Table[QueueRow]) -> list[Part]:
    """Of queues and subscriptions, and of topics."""
    index = queues.index
    topics = account.topics.index
    if not (account.watched and account.queues.index is index):
        return []
    shown = np.flatnonzero(index.column("judged", lambda row: row.kind in JUDGED) > 0)
    fates = openmq.queue_fates(account, queues)
    since = account.queues.since
    every = np.arange(len(topics))
    return [
        Part(index, shown, since, fates, lambda row: (row.address, row.name)),
        Part(
            topics,
            every,
            account.topics.since,
            openmq.topic_fates(account),
            lambda row: (row.name, ""),
        ),
    ]


@dataclass(frozen=True, slots=True)
class Fates:
    """Of one broker. totals: of each part at the last poll. by_client: at least so many by key of the queue, fate and
    client. begun: of the first poll, milliseconds since 1970. rows: of this poll.
    """

    totals: Mapping[int, Totals] = field(default_factory=dict)
    by_client: Mapping[tuple[int, str, str], float] = field(default_factory=dict)
    begun: float = 0.0
    rows: Table[FateRow] = field(default_factory=lambda: Table(Index.empty()))

    def advance(
        self,
        account: MessageAccount | OpenmqAccount | None,
        queues: Table[QueueRow] | None,
        stamp: float,
    ) -> "Fates":
        """There are no rows where this poll has no account."""
        parts = [] if account is None or queues is None else parts_of(account, queues)
        if account is None or queues is None or not parts:
            return replace(self, rows=Table(Index.empty()))
        begun = self.begun or np.rint(stamp * MILLI)
        totals = {
            i: (part.index, {fate: low for fate, (low, _) in part.fates.items()})
            for i, part in enumerate(parts)
        }
        chosen = [
            one
            for i, part in enumerate(parts)
            for one in part.chosen(self.totals.get(i))
        ]
        keys = [
            MOST_FATES * part.index.keys[rows] + i
            for i, (part, rows, *_) in enumerate(chosen)
        ]
        by_client: dict[tuple[int, str, str], float] = {}
        known = (
            lost_to_clients(account, queues.index)
            if isinstance(account, MessageAccount)
            else ()
        )
        for key, fate, client, least, most in known:
            before = min(
                self.by_client.get((key, fate, client), 0.0 if self.totals else least),
                least,
            )
            by_client[key, fate, client] = least
            at = queues.index.positions(np.array([key]))
            chosen.append(
                (
                    parts[0],
                    at,
                    fate,
                    client,
                    np.array([[least], [most], [before], [begun]]),
                )
            )
            keys.append(np.array([-series_id(str(key), fate, client)]))
        starts = np.cumsum([0, *map(len, keys)])

        def label(new: list[int]) -> list[FateRow]:
            made = []
            for n, i in zip(
                new,
                (np.searchsorted(starts, new, side="right") - 1).tolist(),
                strict=True,
            ):
                part, rows, fate, client, _ = chosen[i]
                address, queue = part.name(part.index.rows[rows[n - starts[i]]])
                made.append(FateRow(address, queue, fate, client))
            return made

        labels, order = self.rows.index.advance(np.concatenate(keys), label)
        low, most, before_, inc = np.concatenate(
            [numbers for *_, numbers in chosen], axis=1
        )[:, order]
        columns = {
            "messages": np.nan_to_num(low),
            "most": np.where(np.isfinite(most), most, np.nan),
        }
        columns |= {"before": np.nan_to_num(before_), "inc": inc}
        return Fates(
            {**self.totals, **totals}, by_client, begun, Table(labels, columns)
        )
