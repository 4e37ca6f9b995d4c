"""What full addresses threw away or refused, which no broker counts: routed to the address, and not in its queue."""

from dataclasses import dataclass

import numpy as np

from penstock.core.state import By, RowState, column, counter, mask
from penstock.core.table import Column
from penstock.core.windows import Mask
from penstock.observation.facts import Facts, or_zero
from penstock.observation.ring_ledger import routed_beyond


@dataclass(frozen=True, slots=True)
class Drops(RowState):
    """
    Per queue. dropped: messages since the agent watches; NaN where the address has other queues, or did not say.

    most: by how much more the address routed than the queue added, the most so far. full: the address dropped or
    refused at this poll. d_added: what came to the queue at this poll.
    """

    BY = By.QUEUE
    STORED_AS = "drops_"
    most: Column = column(saved=False)
    dropped: Column = counter(0.0)
    full: Mask = mask(saved=False)
    d_added: Column = column(0.0, saved=False)

    def advance(self, found: Facts, full: Mask) -> "Drops":
        """
        After a poll at which the addresses of these queues were `full`.

        The address is read before its queue, so what it routed lags by what comes in between: only a new most counts,
        and as the address becomes full only what the arrivals of the poll before cannot explain. Never above the truth.
        """
        before, beyond = self.reindexed(found.queues, found.known), routed_beyond(found)
        rise = np.fmax(beyond - before.most, 0.0)
        lag = np.where(before.full, 0.0, before.d_added)
        counts = (full | before.full) & (rise > lag)
        dropped = np.where(counts, before.dropped + rise - lag, before.dropped)
        dropped = np.where(np.isnan(beyond), np.nan, dropped)
        return Drops(found.queues, np.fmax(before.most, beyond), dropped, full, or_zero(found.d_added))


def refuses(facts: Facts) -> Mask:
    """Queues of a full address that drops or refuses: it says that it pages, and has no pages."""
    address = facts.address
    return (address.limit_percent >= 100) & (address.paging > 0) & (address.pages == 0)
