"""Since when each queue is as it is: what conditions that last are measured by."""

from dataclasses import dataclass

from penstock.core.state import By, RowState, column, mask
from penstock.core.table import Column
from penstock.core.windows import Mask


@dataclass(frozen=True, slots=True)
class QueueTimers(RowState):
    """
    Per queue, times by the broker's clock: since when nothing moves, messages are ready, no consumer is there, nothing
    is settled, nothing comes in; NaN = not. had_consumer: one was seen at some poll, or something settled.
    """

    BY = By.QUEUE
    STORED_AS = "span_"
    still: Column = column()
    ready: Column = column()
    absent: Column = column()
    unsettled: Column = column()
    blocked: Column = column()
    had_consumer: Mask = mask(outlives=True, stored_as="had_consumer")
