"""What a queue passed on to other brokers of its cluster: it counts as acknowledged here, and as added there."""

from dataclasses import dataclass, replace

import numpy as np

from penstock.account.visits import movers
from penstock.core.state import By, RowState, column, counter, unindexed
from penstock.core.table import Column
from penstock.model import QueueKind, Snapshot
from penstock.observation.facts import Facts


@dataclass(frozen=True, slots=True)
class Redistribution(RowState):
    """Per queue. passed_on: acknowledged at polls between which no consumer was there, and no more than came to the
    queues of links meanwhile: a broker redistributes what nobody reads. came: to these at the poll before.
    """

    BY = By.QUEUE
    STORED_AS = "account_"
    passed_on: Column = counter(0.0, outlives=True)
    consumers: Column = column(saved=False)
    came: float = unindexed(float)

    def advance(self, found: Facts, snapshot: Snapshot) -> "Redistribution":
        before, links = self.reindexed(found.queues), snapshot.links
        if links is None or not any(row.kind == "cluster" for row in links.index):
            return before
        forwards = found.queues.column("is_link", lambda row: row.kind is QueueKind.LINK) > 0
        came = float(found.d_added[forwards].sum())
        alone = (found.consumers == 0) & (before.consumers == 0) & ~movers(found) & ~forwards
        settled = np.where(alone, found.d_settled, 0.0)
        share = min(1.0, (came + self.came) / max(float(settled.sum()), 1.0))
        passed_on = before.passed_on + np.floor(share * settled)
        return replace(before, passed_on=passed_on, consumers=found.consumers, came=came)

    def begun_anew(self) -> "Redistribution":
        return replace(super(Redistribution, self).begun_anew(), came=0.0)
