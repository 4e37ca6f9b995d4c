"""The values of each row since the view began: sparklines, and rates of counters."""

import math
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

BARS = "▁▂▃▄▅▆▇█"
LEAST = 8.0
"""A full bar stands for this value at least: else one message that comes and goes would be a mountain."""
MOST = 60
"""So many points of a row are remembered."""
STEP = 0.5
"""Seconds: values that were read within them are from the same poll."""

Point = tuple[float, Mapping[str, float]]
"""When a row was polled, and its numbers."""


@dataclass(slots=True)
class RecentValues:
    """The points of every row that was shown; a row is forgotten after `MOST` refreshes without it."""

    _points: dict[Hashable, deque[Point]] = field(default_factory=dict)
    _missed: dict[Hashable, int] = field(default_factory=dict)

    def note(self, rows: Mapping[Hashable, tuple[float, Mapping[str, object]]]) -> None:
        """Remember the values of the rows; the same poll is remembered once.

        rows: By key, when its broker was polled, and its values.
        """
        for key, (stamp, values) in rows.items():
            points = self._points.setdefault(key, deque(maxlen=MOST))
            self._missed[key] = 0
            if not points or stamp - points[-1][0] > STEP:
                points.append((stamp, numbers_in(values)))
        for key in self._points.keys() - rows.keys():
            self._missed[key] += 1
            if self._missed[key] > MOST:
                del self._points[key]
                del self._missed[key]

    def values(self, key: Hashable, name: str) -> list[float]:
        """Return the values of a row under a name, the oldest first; NaN where one is missing."""
        points = self._points.get(key, ())
        return [numbers.get(name, math.nan) for _, numbers in points]

    def rate(self, key: Hashable, name: str) -> float | None:
        """Return the growth per second between the last two polls.

        None while there are none, or where the counter started again.
        """
        points = self._points.get(key)
        if points is None or len(points) < 2:
            return None
        before, numbers_before = points[-2]
        now, numbers = points[-1]
        value = numbers.get(name, math.nan)
        value_before = numbers_before.get(name, math.nan)
        change = value - value_before
        return change / (now - before) if change >= 0 else None


def numbers_in(values: Mapping[str, object]) -> dict[str, float]:
    """Return the values that are numbers."""
    return {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float)
    }


def sparkline(values: Sequence[float]) -> str:
    """Return bars from zero to the largest value, or to `LEAST`; a blank where a value is missing."""
    present = [value for value in values if not math.isnan(value)]
    top = max([LEAST, *present])
    return "".join(bar(value, top) for value in values)


def bar(value: float, top: float) -> str:
    """Return the bar of one value; a full one at the top, a blank where the value is missing."""
    if math.isnan(value):
        return " "
    height = value / top * (len(BARS) - 1)
    return BARS[round(height)]
