"""The limit and the resume level of OpenMQ consumers, measured from outside: no attribute shows them.

The broker pauses a consumer when it has sent what was asked for. So between two pauses lie whole windows: their
greatest common divisor is the window, the limit is the least number not below what was held that leaves the same rest.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.state import By, RowState, column
from penstock.core.table import Column, Index, Mask

STEPS = 6
"""Moves between pauses before a divisor is believed: a wrong one, twice too large, is seen by chance once in 32."""


@dataclass(frozen=True, slots=True)
class WindowEstimate(RowState):
    """By the rows of `index`: N at the last pause, divisor of its moves, moves seen, the most held while paused."""

    BY = By.CONSUMER
    STORED_AS = "window_"
    at: Column = column()
    divisor: NDArray[np.int64] = column(0, dtype=np.int64)
    steps: NDArray[np.int64] = column(0, dtype=np.int64)
    most: Column = column(0.0)

    def advance(
        self, index: Index[Any], delivered: Column, held: Column, paused: Mask
    ) -> "WindowEstimate":
        before = self.reindexed(index)
        moves = paused & (delivered > before.at)
        step = np.where(moves, delivered - before.at, 0).astype(np.int64)
        return WindowEstimate(
            index,
            np.where(paused, delivered, before.at),
            np.where(moves, np.gcd(before.divisor, step), before.divisor),
            before.steps + moves,
            np.where(paused, np.fmax(before.most, held), before.most),
        )

    def limits(self) -> tuple[Column, Column]:
        """Limit and resume level, NaN until known. A divisor of 1 proves nothing."""
        window = self.divisor.astype(np.float64)
        known = (self.steps >= STEPS) & (self.divisor > 1) & ~np.isnan(self.at)
        rest = np.where(known, self.at, 0.0) % np.where(known, window, 1.0)
        most = np.where(known, self.most, 0.0)
        limit = most + (rest - most) % np.where(known, window, 1.0)
        known &= limit >= window
        return np.where(known, limit, np.nan), np.where(known, limit - window, np.nan)
