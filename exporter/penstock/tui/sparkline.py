"""What was seen of each row since the view began: sparklines, and rates of counters."""

import math
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

BARS = "▁▂▃▄▅▆▇█"
LEAST = 8.0
"""The height of a full bar at least: one message that comes and goes is no mountain."""
MOST = 60
"""Points kept of a row."""
STEP = 0.5
"""Seconds; what was read within them is the same poll."""

Point = tuple[float, Mapping[str, float]]


@dataclass(slots=True)
class RecentValues:
    """Points of every row that was shown; a row that was not seen for `MOST` looks is forgotten."""

    _points: dict[Hashable, deque[Point]] = field(default_factory=dict)
    _missed: dict[Hashable, int] = field(default_factory=dict)

    def note(self, rows: Mapping[Hashable, tuple[float, Mapping[str, Any]]]) -> None:
        """rows: by key, when its broker was polled and its numbers; the same poll is noted once."""
        for key, (stamp, values) in rows.items():
            points = self._points.setdefault(key, deque(maxlen=MOST))
            self._missed[key] = 0
            if not points or stamp - points[-1][0] > STEP:
                numbers = {
                    name: float(one)
                    for name, one in values.items()
                    if isinstance(one, int | float)
                }
                points.append((stamp, numbers))
        for key in self._points.keys() - rows.keys():
            self._missed[key] += 1
        for key in [key for key, count in self._missed.items() if count > MOST]:
            del self._points[key], self._missed[key]

    def values(self, key: Hashable, name: str) -> list[float]:
        """The oldest first; NaN where it was not known."""
        return [values.get(name, math.nan) for _, values in self._points.get(key, ())]

    def rate(self, key: Hashable, name: str) -> float | None:
        """Per second between the last two polls; None while there are none, or the counter started again."""
        points = self._points.get(key)
        if points is None or len(points) < 2:
            return None
        (before, first), (now, last) = points[-2], points[-1]
        change = last.get(name, math.nan) - first.get(name, math.nan)
        return change / (now - before) if change >= 0 else None


def sparkline(values: Sequence[float]) -> str:
    """Bars from zero to the largest, or to `LEAST`; a blank where a value is not known."""
    top = max([LEAST, *(value for value in values if not math.isnan(value))])
    return "".join(
        " " if math.isnan(value) else BARS[round(value / top * (len(BARS) - 1))]
        for value in values
    )
