"""Counters of one thing that are not read at one moment."""

import numpy as np

from penstock.core.table import Matrix

SMALL_FALL = 3.0
"""Messages by which a counter may seem to fall, as it was read while it changed."""


def without_torn_counters(now: Matrix, before: Matrix) -> Matrix:
    """Counters of things, with each one that fell as it was before, unless its thing has begun again.

    What was delivered and what of it was acknowledged are two numbers: a message between the two reads makes the second
    seem to fall. A thing has begun again only where the first of its counters fell to 0, or by more than such a moment
    explains.

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
    torn = now < before
    torn &= ~begins_again
    if not torn.any():
        return now
    return np.where(torn, before, now)
