"""What is normal for each queue in the present hour of the week, as the rules read it; `learned.normal` makes it."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from penstock.core.state import RowState, column, mask
from penstock.core.table import Column, Mask

CLOCK, EXPIRED, KILLED, PEAK, SERVICE, PACE, BACKLOG = range(7)
"""By day the highest: messages that should have come in a pause + 1; thousandths of what left in five minutes + 1;
messages that came in five minutes; milliseconds of a consumer for a message; messages an hour and consumer; depth."""
HIGHS = 7
SOME_WEEKS = 3
"""From so many on a spread between weeks is known."""
DAY = 86400.0
"""Seconds after which the best pace so far is conclusive."""
WINDOWS = 20
"""With a backlog, on which a usual service time must rest."""


@dataclass(frozen=True, slots=True)
class Expected(RowState):
    """Per queue what is normal in the present hour, NaN where nothing is known of it.

    weeks: on how many it rests, 0 in the first. pause: the longest; silence: how long a pause may be, seconds.
    regular: with a rhythm that a missed message breaks. low: messages a second that come at least. inflow, outflow:
    lowest and highest messages an hour. guesses: of what was learned and of history, messages an hour. absence:
    seconds that consumers may be away; irregular ones NaN. highs: of the days, as packed there. service: of
    history, the usual seconds of a consumer for a message, and on how many windows that rests.
    """

    weeks: Column = column(0.0, saved=False)
    pause: Column = column(saved=False)
    silence: Column = column(saved=False)
    regular: Mask = mask(saved=False)
    low: Column = column(saved=False)
    inflow: NDArray[np.float64] = column(lines=2, saved=False)
    outflow: NDArray[np.float64] = column(lines=2, saved=False)
    guesses: NDArray[np.float64] = column(lines=2, saved=False)
    absence: Column = column(saved=False)
    highs: NDArray[np.float64] = column(lines=HIGHS, saved=False)
    service: NDArray[np.float64] = column(lines=2, saved=False)
    from_history: Mask = mask(saved=False)
    """Rates are."""

    def more_lenient(self, other: "Expected") -> "Expected":
        """Of two hours that may be meant: nothing where one of them is not known."""
        columns = ("pause", "silence", "absence", "inflow", "outflow")
        highest = {
            name: np.maximum(getattr(self, name), getattr(other, name))
            for name in columns
        }
        for name in ("inflow", "outflow"):
            highest[name][0] = np.minimum(
                getattr(self, name)[0], getattr(other, name)[0]
            )
        regular = np.zeros(len(self.regular), np.bool_)
        low = np.minimum(self.low, other.low)
        return replace(self, **highest, regular=regular, low=low)


@dataclass(frozen=True, slots=True)
class Usual:
    """Per queue. began, arrival: when the first message was seen, and the last one or the end of a gap since. longest:
    of the pauses that ended. clock: messages that should have come since the last. shares: of what left in five minutes
    those that expired and were killed. holiday_end: of the last holiday that has begun. service: seconds of a consumer
    for a message, NaN without a backlog; its usual, and on how many windows that rests; pace: the best, messages an
    hour.
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
        """(low and high, queues): messages a second in which nineteen of twenty hours lie."""
        low, high = self.expected.inflow
        within = (
            np.maximum(low / 1.5 - 3 * np.sqrt(low), 0.0),
            high * 1.5 + 3 * np.sqrt(high) + 3,
        )
        return np.stack(within) / 3600

    @property
    def pause(self) -> Column:
        """Seconds: the longest at this hour, of all while this hour is not known."""
        return np.where(self.expected.weeks > 0, self.expected.pause, self.longest)

    @property
    def inflow(self) -> Column:
        """Messages a second: the most of this hour of the week."""
        return self.expected.inflow[1] / 3600

    @property
    def outflow(self) -> Column:
        """The same of what goes."""
        return self.expected.outflow[1] / 3600

    @property
    def backlog(self) -> Column:
        """The highest of 28 days."""
        return self.expected.highs[BACKLOG]

    @property
    def peak(self) -> Column:
        """Messages a second: the most of five minutes of 28 days."""
        return self.expected.highs[PEAK] / 300

    @property
    def base(self) -> Column:
        """Seconds of a consumer for a message: the usual, or what the best pace allows."""
        return np.where(self.windows >= WINDOWS, self.usual_service, 3600 / self.pace)

    @property
    def times(self) -> Column:
        """As long as usual a message takes."""
        return self.service / self.base

    def known_for(self, now: float, seconds: float) -> Mask:
        """Queues that were seen for so long, or are known from history."""
        with np.errstate(invalid="ignore"):
            return np.asarray((now - self.began >= seconds) | (self.expected.weeks > 0))


def unusual_share(highest: Column) -> Column:
    """What is beyond it is unusual; highest: of 28 days as packed, NaN where it is not known."""
    share = (highest - 1) / 1000
    return share + np.clip(share, 0.05, 0.7 * (1 - share))
