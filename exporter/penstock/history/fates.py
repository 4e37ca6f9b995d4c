"""
The account of each poll as rows of history: how many messages of a queue or an address had which fate, and how many a
client lost.

Totals of one account are one life (`inc`). Each has the total of the poll before beside it (`before`): what is counted
for the first time then counts in full, and what is older than the history not at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.account.account import MessageAccount
from penstock.account.fates import ADDRESS_FATES, FATES, address_fates, lost_to_clients, queue_fates
from penstock.core.table import Column, Index, Positions, Table, take_or_fill
from penstock.history.schema import FateRow, series_id
from penstock.model import QueueRow
from penstock.observation.facts import JUDGED

MILLI = 1000.0


@dataclass(frozen=True, slots=True)
class Fates:
    """
    Of one broker. totals: by fate, at least so many of each queue at the last poll, NaN where that was not known; empty
    before the first. by_client: the same by key of the queue, fate and client. begun: of the first poll, ms since 1970.
    rows: of this poll.
    """

    queues: Index[QueueRow] = field(default_factory=Index.empty)
    totals: Mapping[str, Column] = field(default_factory=dict)
    by_client: Mapping[tuple[int, str, str], float] = field(default_factory=dict)
    begun: float = 0.0
    rows: Table[FateRow] = field(default_factory=lambda: Table(Index.empty()))

    def advance(self, account: MessageAccount | None, queues: Table[QueueRow] | None, stamp: float) -> "Fates":
        """There are no rows where this poll has no account."""
        if account is None or queues is None or not (account.watched and account.books.index is queues.index):
            return replace(self, rows=Table(Index.empty()))
        index, begun = queues.index, self.begun or np.rint(stamp * MILLI)
        bounds = queue_fates(account, queues)
        if account.address_books.index is index:
            bounds |= address_fates(account)
        at, since = index.positions_in(self.queues), np.rint(account.books.since * MILLI)
        shown = np.flatnonzero(index.column("judged", lambda row: row.kind in JUDGED) > 0)
        once = one_of_each_address(index, shown, at)
        chosen, keys, named, parts = [], [], [], []
        for number, fate in enumerate(FATES):
            if fate in bounds:
                low, high = bounds[fate]
                rows = once if fate in ADDRESS_FATES else shown
                rows = rows[(low[rows] > 0) | ((high[rows] > 0) & np.isfinite(high[rows]))]
                chosen.append(rows)
                keys.append(len(FATES) * index.keys[rows] + number)
                parts.append(np.stack([low, high, self._before(fate, at, low), since])[:, rows])
        plain = sum(map(len, chosen))
        by_client: dict[tuple[int, str, str], float] = {}
        for key, fate, client, least, most in lost_to_clients(account, index):
            before = self.by_client.get((key, fate, client), 0.0 if self.totals else least)
            by_client[key, fate, client] = least
            named.append((fate, client))
            chosen.append(index.positions(np.array([key])))
            keys.append(np.array([-series_id(str(key), fate, client)]))
            parts.append(np.array([[least], [most], [min(before, least)], [begun]]))
        where, numbers = np.concatenate(chosen), np.concatenate(keys)

        def label(new: list[int]) -> list[FateRow]:
            made = []
            for n in new:
                fate, client = (FATES[numbers[n] % len(FATES)], "") if n < plain else named[n - plain]
                row = index.rows[where[n]]
                made.append(FateRow(row.address, "" if fate in ADDRESS_FATES else row.name, fate, client))
            return made

        labels, order = self.rows.index.advance(numbers, label)
        low, most, before, inc = np.concatenate(parts, axis=1)[:, order]
        columns = {
            "messages": np.nan_to_num(low), "most": np.where(np.isfinite(most), most, np.nan), "before": before,
            "inc": inc,
        }  # fmt: skip
        totals = {fate: low for fate, (low, _) in bounds.items()}
        return Fates(index, totals, by_client, begun, Table(labels, columns))

    def _before(self, fate: str, at: Positions, low: Column) -> Column:
        """
        What of each queue was counted before this poll. Nothing of a queue that came into view since: its account
        began then.
        """
        last = self.totals.get(fate)
        known = np.full(len(low), np.nan) if last is None else take_or_fill(last, at, 0.0)
        known = np.where(np.isnan(known), low, known)
        return np.nan_to_num(np.where(known > low, 0.0, known))  # more than now: it began again


def one_of_each_address(index: Index[QueueRow], shown: Positions, at: Positions) -> Positions:
    """Of these queues one for each address, of which each has all; one that was there before (`at`) where there is."""
    names = index.column("address", lambda row: float(series_id(row.address)))[shown]
    order = np.lexsort((at[shown] < 0, names))
    first = np.append(True, np.diff(names[order]) != 0)[: len(order)]
    chosen: Positions = shown[order[first]]
    return chosen
