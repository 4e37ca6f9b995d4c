"""The limit and the resume level of OpenMQ consumers, measured from outside: no attribute has them.

A client asks for messages in portions of one size, its *window*. The broker pauses the consumer when it has sent as
many as were asked for, and resumes when the client has taken a window of them. So the messages that are delivered
between two pauses are whole windows, and their greatest common divisor is the window. The limit is the least number
that is not below the messages buffered while paused, and that has the same remainder by the window as the messages
delivered at a pause: the first portion is the limit itself, all later ones are windows.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.core.state import By, RowState, column
from penstock.core.table import Column, Index, Mask

STEPS = 6
"""So many times messages must have come between two pauses before the divisor counts: one that is twice too large
passes by chance once in 32 times.
"""


@dataclass(frozen=True, slots=True)
class WindowEstimate(RowState):
    """What the pauses of each consumer show about its window."""

    BY = By.CONSUMER
    STORED_AS = "window_"
    at: Column = column()
    """Messages that had been delivered at the last pause, in all."""
    divisor: NDArray[np.int64] = column(0, dtype=np.int64)
    """Greatest common divisor of the messages delivered between two pauses."""
    steps: NDArray[np.int64] = column(0, dtype=np.int64)
    """How many times messages were delivered between two pauses."""
    most: Column = column(0.0)
    """The most messages buffered while paused."""

    def advance(
        self, index: Index[object], delivered: Column, buffered: Column, paused: Mask
    ) -> "WindowEstimate":
        """Return the estimate after a poll.

        Args:
            index: The consumers.
            delivered: (consumers,) Messages delivered to each, in all.
            buffered: (consumers,) Messages that each buffers.
            paused: (consumers,) Whether its own limit pauses it.
        """
        before = self.reindexed(index)
        got_since_pause = paused & (delivered > before.at)
        windows = np.where(
            got_since_pause,
            delivered - before.at,
            0,
        )
        divisor = np.gcd(before.divisor, windows.astype(np.int64))
        most = np.fmax(before.most, buffered)
        return WindowEstimate(
            index=index,
            at=np.where(paused, delivered, before.at),
            divisor=np.where(got_since_pause, divisor, before.divisor),
            steps=before.steps + got_since_pause,
            most=np.where(paused, most, before.most),
        )

    def limits(self) -> tuple[Column, Column]:
        """(consumers,) Limit and resume level in messages, NaN until they are known; a divisor of 1 proves nothing.

        The resume level is a window below the limit.
        """
        has_divisor = (self.steps >= STEPS) & (self.divisor > 1)
        is_known = has_divisor & ~np.isnan(self.at)
        window = np.where(
            is_known,
            self.divisor.astype(np.float64),
            1.0,
        )
        remainder = np.where(is_known, self.at, 0.0) % window
        most = np.where(is_known, self.most, 0.0)
        # Up from `most` to the next number with this remainder.
        limit = most + (remainder - most) % window
        # A limit below its window cannot be: the divisor is still too large.
        is_known &= limit >= self.divisor
        limit = np.where(is_known, limit, np.nan)
        return limit, limit - window
