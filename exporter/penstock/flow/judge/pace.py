"""How fast each consumer works."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from penstock.flow.judge.facts import Facts
from penstock.flow.judge.spans import moved
from penstock.model import ConsumerRow
from penstock.table import Column, Index

POLLS = 3


@dataclass(frozen=True, slots=True)
class Pace:
    """rates: (polls, consumers), what each settled per second at the last polls, newest first; NaN before it came."""

    index: Index[ConsumerRow] = field(default_factory=Index.empty)
    rates: NDArray[np.float32] = field(default_factory=lambda: np.empty((POLLS, 0), np.float32))

    def follow(self, found: Facts, step: float) -> "Pace":
        """step: seconds since the poll before."""
        index = found.consumer.index
        rates = np.empty((POLLS, len(index)), np.float32)
        rates[0] = found.consumer.d_left / step if step > 0 else 0.0
        rates[1:] = moved(index, self.index, self.rates[:-1], np.nan)
        return Pace(index, rates)

    def best(self) -> Column:
        """The highest of each."""
        return np.fmax.reduce(self.rates, axis=0).astype(np.float64)
