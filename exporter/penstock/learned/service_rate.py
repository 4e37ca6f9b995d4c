"""How fast each consumer works."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.core.state import RowState, column
from penstock.core.table import Column
from penstock.observation.facts import Facts

POLLS = 3


@dataclass(frozen=True, slots=True)
class ServiceRate(RowState):
    """rates: (polls, consumers), what each settled per second at the last polls, newest first; NaN before it came."""

    rates: NDArray[np.float32] = column(lines=POLLS, dtype=np.float32, saved=False)

    def advance(self, found: Facts, step: float) -> "ServiceRate":
        """step: seconds since the poll before."""
        index = found.consumer.index
        rates = np.empty((POLLS, len(index)), np.float32)
        rates[0] = found.consumer.d_left / step if step > 0 else 0.0
        rates[1:] = self.reindexed(index).rates[:-1]
        return ServiceRate(index, rates)

    def best(self) -> Column:
        """The highest of each."""
        return np.fmax.reduce(self.rates, axis=0).astype(np.float64)
