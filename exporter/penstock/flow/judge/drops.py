"""What full addresses threw away or refused, which no broker counts: routed to the address, and not in its queue."""

from dataclasses import dataclass, field

import numpy as np

from penstock.flow.judge.facts import Facts, or_zero
from penstock.flow.judge.ledger import routed_beyond
from penstock.flow.judge.spans import Mask, moved
from penstock.model import QueueRow
from penstock.table import Column, Index


@dataclass(frozen=True, slots=True)
class Drops:
    """
    Per queue. dropped: messages since the agent watches; NaN where the address has other queues, or did not say.

    most: by how much more the address routed than the queue added, the most so far. full: the address dropped or
    refused at this poll. d_added: what came to the queue at this poll.
    """

    index: Index[QueueRow] = field(default_factory=Index.empty)
    most: Column = field(default_factory=lambda: np.empty(0))
    dropped: Column = field(default_factory=lambda: np.empty(0))
    full: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    d_added: Column = field(default_factory=lambda: np.empty(0))

    def follow(self, found: Facts, full: Mask) -> "Drops":
        """
        After a poll at which the addresses of these queues were `full`.

        The address is read before its queue, so what it routed lags by what comes in between: only a new most counts,
        and as the address becomes full only what the arrivals of the poll before cannot explain. Never above the truth.
        """
        index, beyond = found.queues, routed_beyond(found)
        most = np.where(found.known, moved(index, self.index, self.most, np.nan), np.nan)
        dropped = np.where(found.known, moved(index, self.index, self.dropped, 0.0), 0.0)
        was_full = moved(index, self.index, self.full, False) & found.known
        rise = np.fmax(beyond - most, 0.0)
        lag = np.where(was_full, 0.0, moved(index, self.index, self.d_added, 0.0))
        counts = (full | was_full) & (rise > lag)
        dropped = np.where(counts, dropped + rise - lag, dropped)
        dropped = np.where(np.isnan(beyond), np.nan, dropped)
        return Drops(index, np.fmax(most, beyond), dropped, full, or_zero(found.d_added))
