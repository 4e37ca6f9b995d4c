"""What is normal for each queue in the present hour of the week, as the rules read it; `learned.normal` makes it.

The *pace* is the number of messages that one consumer settles in an hour; a *pause* is a time without new messages.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from penstock.core.state import RowState, column, mask
from penstock.core.table import Column, Mask

CLOCK, EXPIRED, KILLED, PEAK, SERVICE, PACE, BACKLOG = range(7)
"""Kinds of the highest number of a day: messages that should have come in a pause + 1; thousandths of the messages that
left in five minutes + 1, expired and killed; messages that came in five minutes; milliseconds of a consumer for a
message; messages an hour and consumer; depth.
"""
HIGHS = 7
SOME_WEEKS = 3
"""From so many weeks on it is known by how much weeks differ."""
HOURS_DIFFER = 1.5
"""An hour may have so many times the highest inflow of the weeks before, or the lowest divided by it."""
DEVIATIONS = 3
"""And so many standard deviations of messages that come by chance more or less: the square root of their number."""
DAY = 86400.0
"""Seconds after which the best pace so far is conclusive."""
WINDOWS = 20
"""Windows with a backlog that a usual service time must rest on."""


@dataclass(frozen=True, slots=True)
class Expected(RowState):
    """What is normal for each queue in the present hour; NaN where nothing is known."""

    weeks: Column = column(0.0, saved=False)
    """How many weeks it rests on, 0 in the first one."""
    pause: Column = column(saved=False)
    """Longest pause, seconds."""
    silence: Column = column(saved=False)
    """How long a pause may be, seconds."""
    regular: Mask = mask(saved=False)
    """Whether messages come in a rhythm that a missing message breaks."""
    low: Column = column(saved=False)
    """Messages a second that come at least."""
    inflow: NDArray[np.float64] = column(lines=2, saved=False)
    """(2, queues) Lowest and highest inflow, messages an hour."""
    outflow: NDArray[np.float64] = column(lines=2, saved=False)
    """(2, queues) Lowest and highest outflow, messages an hour."""
    guesses: NDArray[np.float64] = column(lines=2, saved=False)
    """(2, queues) Likely inflow, as learned and by history, messages an hour."""
    absence: Column = column(saved=False)
    """How long consumers may be away, seconds; NaN where their absences are irregular."""
    highs: NDArray[np.float64] = column(lines=HIGHS, saved=False)
    """(HIGHS, queues) The highest numbers of 28 days."""
    service: NDArray[np.float64] = column(lines=2, saved=False)
    """(2, queues) By history: usual seconds of a consumer for a message, and on how many windows they rest."""
    from_history: Mask = mask(saved=False)
    """Whether the rates are those of history."""

    def more_lenient(self, other: "Expected") -> "Expected":
        """Return for each limit the one of two hours that raises fewer conditions; NaN where one hour is not known.

        It is for a day that may be as one or the other, such as a holiday: `maximum` and `minimum` keep NaN. Where it
        is not sure which day it is, no rhythm can be broken.
        """
        return replace(
            self,
            pause=np.maximum(self.pause, other.pause),
            silence=np.maximum(self.silence, other.silence),
            absence=np.maximum(self.absence, other.absence),
            inflow=wider_range(self.inflow, other.inflow),
            outflow=wider_range(self.outflow, other.outflow),
            regular=np.zeros(len(self.regular), np.bool_),
            low=np.minimum(self.low, other.low),
        )


def wider_range(
    low_and_high: NDArray[np.float64], other: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(2, queues) The range of lowest and highest numbers that contains two such ranges."""
    low = np.minimum(low_and_high[0], other[0])
    high = np.maximum(low_and_high[1], other[1])
    return np.stack([low, high])


@dataclass(frozen=True, slots=True)
class Usual:
    """What is normal for each queue. Times by the broker's clock.

    Attributes:
        expected: In the present hour of the week.
        began: When the first message came.
        arrival: When the last message came, or when the last gap in the polls ended, if that is later.
        longest: Longest pause that ended, seconds.
        clock: Messages that should have come since the last one.
        shares: (2, queues) Shares that expired and were killed, of all that left in five minutes.
        holiday_end: End of the last holiday that has begun.
        service: Seconds of a consumer for a message, NaN without a backlog.
        usual_service: The usual number of these seconds.
        windows: How many windows it rests on.
        pace: The best pace of a consumer, messages an hour.
    """

    expected: Expected = field(default_factory=Expected)
    began: Column = field(default_factory=lambda: np.empty(0))
    arrival: Column = field(default_factory=lambda: np.empty(0))
    longest: Column = field(default_factory=lambda: np.empty(0))
    clock: Column = field(default_factory=lambda: np.empty(0))
    shares: NDArray[np.float64] = field(default_factory=lambda: np.empty((2, 0)))
    holiday_end: float = -np.inf
    service: Column = field(default_factory=lambda: np.empty(0))
    usual_service: Column = field(default_factory=lambda: np.empty(0))
    windows: Column = field(default_factory=lambda: np.empty(0))
    pace: Column = field(default_factory=lambda: np.empty(0))

    @property
    def band(self) -> NDArray[np.float64]:
        """(2, queues) Lowest and highest messages a second, between which 19 of 20 hours lie.

        They are the lowest and highest inflow of the weeks before, with a margin for each.
        """
        low, high = self.expected.inflow
        least = low / HOURS_DIFFER - DEVIATIONS * np.sqrt(low)
        # 3 messages more, for queues that get next to nothing.
        most = high * HOURS_DIFFER + DEVIATIONS * np.sqrt(high) + 3
        return np.stack([np.maximum(least, 0.0), most]) / 3600

    @property
    def pause(self) -> Column:
        """(queues,) Seconds of the longest pause at this hour; of all hours while this one is not known."""
        return np.where(
            self.expected.weeks > 0,
            self.expected.pause,
            self.longest,
        )

    @property
    def inflow(self) -> Column:
        """(queues,) Messages a second that come at most at this hour of the week."""
        return self.expected.inflow[1] / 3600

    @property
    def outflow(self) -> Column:
        """(queues,) Messages a second that leave at most at this hour of the week."""
        return self.expected.outflow[1] / 3600

    @property
    def backlog(self) -> Column:
        """(queues,) The highest depth of 28 days, messages."""
        return self.expected.highs[BACKLOG]

    @property
    def peak(self) -> Column:
        """(queues,) The highest inflow over five minutes of 28 days, messages a second."""
        return self.expected.highs[PEAK] / 300

    @property
    def base(self) -> Column:
        """(queues,) Seconds of a consumer for a message: the learned number, or the one of the best pace.

        The learned one needs a backlog, so that few queues have it. No message took less time than the best pace says.
        """
        of_best_pace = 3600 / self.pace
        return np.where(
            self.windows >= WINDOWS,
            self.usual_service,
            of_best_pace,
        )

    @property
    def times(self) -> Column:
        """(queues,) How many times as long as usual a message takes."""
        return self.service / self.base

    def known_for(self, now: float, seconds: float) -> Mask:
        """(queues,) Whether the first message came so long ago, or the present hour is known from weeks before."""
        with np.errstate(invalid="ignore"):
            is_old = now - self.began >= seconds
        return np.asarray(is_old | (self.expected.weeks > 0))


def unusual_share(highest: Column) -> Column:
    """(queues,) The share above which a share is unusual: twice the highest of 28 days; NaN where that is not known.

    It is at least 5 % more than the highest, and always below 1: no more than 70 % of the rest is added.

    highest: (queues,) The highest share, in thousandths + 1.
    """
    share = (highest - 1) / 1000
    largest_margin = 0.7 * (1 - share)
    margin = np.clip(share, 0.05, largest_margin)
    return share + margin
