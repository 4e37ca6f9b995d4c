"""Who holds messages and since when it has settled none (Artemis: both times come from the broker)."""

import numpy as np

from penstock.table import Column


def holding(buffered: Column, awaiting_commit: Column) -> Column:
    """1 where a consumer has messages that are not settled for good: in its hands, or acknowledged and uncommitted."""
    return (np.nan_to_num(buffered) + np.nan_to_num(awaiting_commit) > 0).astype(np.float64)


def hold_since(held: Column, before: Column, last_acknowledgement: Column, last_delivery: Column) -> Column:
    """
    Since when each consumer holds something without a break, NaN where it holds nothing.

    before: the same at the poll before. Nothing happened since the last delivery or acknowledgement: who holds now
    held then, so the later of the two is a lower bound of the beginning.
    """
    begun = np.fmax(last_acknowledgement, last_delivery)
    return np.where(held > 0, np.where(np.isnan(before), begun, before), np.nan)


def unsettled_since(since: Column, last_acknowledgement: Column) -> Column:
    """Since when a holding consumer has settled nothing, NaN for those that hold nothing."""
    return np.where(np.isnan(since), np.nan, np.fmax(since, last_acknowledgement))
