"""Counters of one thing that are torn: read one after the other, while the thing counts on."""

import numpy as np

from penstock.core.table import Matrix

SMALL_FALL = 3.0
"""Messages by which a counter may seem to fall, as it was read while it changed."""


def without_torn_counters(now: Matrix, before: Matrix) -> Matrix:
    """Return the counters, with the value of the poll before in place of each one that seems to have fallen.

    Messages that were delivered, and how many of them were acknowledged, are two numbers. A message between the two
    reads makes the second seem to fall. A counter falls in truth only where its thing has begun again: then the first
    counter fell to 0, or by more messages than can come between two reads.

    Args:
        now: of shape (counters, things), in messages; the first counter is the one that the others rest on. NaN where
            nothing is known.
        before: the same at the poll before.

    Returns:
        `now` itself where no counter is torn.
    """
    fell_by = before[0] - now[0]
    is_small = fell_by <= SMALL_FALL
    is_small &= now[0] > 0
    begins_again = fell_by > 0
    begins_again &= ~is_small
    torn = now < before  # &= in place of &: no further array of this size
    torn &= ~begins_again
    if not torn.any():
        return now
    return np.where(torn, before, now)
