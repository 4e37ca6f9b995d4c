"""
The limit and the resume level of OpenMQ consumers, measured from outside: no attribute shows them.

The broker pauses a consumer when it has sent what was asked for. So between two pauses lie whole windows: their
greatest common divisor is the window, the limit is the least number not below what was held that leaves the same rest.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.flow.judge.spans import Mask, moved
from penstock.table import Column, Index

STEPS = 6
"""Moves between pauses before a divisor is believed: a wrong one, twice too large, is seen by chance once in 32."""


@dataclass(frozen=True, slots=True)
class WindowEstimate:
    """By the rows of `index`: N at the last pause, divisor of its moves, moves seen, the most held while paused."""

    index: Index[Any] = field(default_factory=Index.empty)
    at: Column = field(default_factory=lambda: np.empty(0))
    divisor: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    steps: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    most: Column = field(default_factory=lambda: np.empty(0))

    def follow(self, index: Index[Any], delivered: Column, held: Column, paused: Mask) -> "WindowEstimate":
        at = moved(index, self.index, self.at, np.nan)
        divisor = moved(index, self.index, self.divisor, 0)
        steps = moved(index, self.index, self.steps, 0)
        most = moved(index, self.index, self.most, 0.0)
        moves = paused & (delivered > at)
        step = np.where(moves, delivered - at, 0).astype(np.int64)
        return WindowEstimate(
            index,
            np.where(paused, delivered, at),
            np.where(moves, np.gcd(divisor, step), divisor),
            steps + moves,
            np.where(paused, np.fmax(most, held), most),
        )

    def limits(self) -> tuple[Column, Column]:
        """Limit and resume level, NaN until known. A divisor of 1 tells nothing."""
        window = self.divisor.astype(np.float64)
        known = (self.steps >= STEPS) & (self.divisor > 1) & ~np.isnan(self.at)
        rest = np.where(known, self.at, 0.0) % np.where(known, window, 1.0)
        most = np.where(known, self.most, 0.0)
        limit = most + (rest - most) % np.where(known, window, 1.0)
        known &= limit >= window
        return np.where(known, limit, np.nan), np.where(known, limit - window, np.nan)
