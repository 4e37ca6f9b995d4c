"""Charts as SVG: drawn here, so that the report needs no script and prints. Colours come from the page's style."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from itertools import pairwise
from typing import Final

WIDTH = 720
HEIGHT = 200
LEFT = 64
RIGHT = 10
TOP = 10
BOTTOM = 24
INNER_WIDTH: Final = WIDTH - LEFT - RIGHT
INNER_HEIGHT: Final = HEIGHT - TOP - BOTTOM
HOURS = 168
STEPS = 4
DATES: Final = 6
"""Below the time axis."""
DAY_SECONDS: Final = 86400
CELL_WIDTH: Final = INNER_WIDTH / 24
CELL_HEIGHT: Final = 18
"""Of an hour in a heat map."""
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
ROUND: Final = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
UNITS: Final = ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))
"""Smallest number that gets the unit, the unit as a number, and its sign."""
Point = tuple[float, float]
"""Seconds since 1970, value."""
BandPoint = tuple[float, float, float]
"""Seconds since 1970, low, high."""
Attributes = Mapping[str, str | float]


def short_number(value: float) -> str:
    """The number for an axis or a cell, short: 950, 1.2 k, 3.4 M."""
    size = abs(value)
    for smallest, unit, sign in UNITS:
        if size >= smallest:
            number = f"{value / unit:.1f}".removesuffix(".0")
            return f"{number} {sign}"
    if size >= 10 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.2g}"


@dataclass(frozen=True, slots=True)
class Axes:
    """Where times and values are in the picture.

    Attributes:
        first: Time at the left edge, seconds since 1970.
        last: Time at the right edge.
        step: Between two lines of the grid; the picture has STEPS of them above 0.
    """

    first: float
    last: float
    step: float

    def x(self, time: float) -> float:
        """Pixels from the left."""
        share = (time - self.first) / max(self.last - self.first, 1)
        return LEFT + share * INNER_WIDTH

    def y(self, value: float) -> float:
        """Pixels from above; of a negative value those of 0."""
        top = self.step * STEPS
        return HEIGHT - BOTTOM - max(value, 0.0) / top * INNER_HEIGHT

    def point(self, time: float, value: float) -> Point:
        """Pixels from the left and from above."""
        return self.x(time), self.y(value)


def lines(
    series: Sequence[tuple[str, Sequence[Point]]],
    title: str,
    band: Sequence[BandPoint] = (),
    limit: float | None = None,
    marks: Sequence[tuple[float, str]] = (),
) -> str:
    """Lines over time, with a point a day, from 0 up. Days without a point are shaded.

    Args:
        series: Style and points of each line.
        title: For people who cannot see the picture.
        band: Between which values a forecast lies.
        limit: Drawn from edge to edge.
        marks: Times, with what happened then.
    """
    axes = axes_around(series, band, limit)
    parts = [*_grid(axes), *_dates(axes)]
    if band:
        parts.append(_band(band, axes))
    for style, line in series:
        pieces = runs(line)
        parts += [_gap(before, after, axes) for before, after in pairwise(pieces)]
        parts += [_polyline(style, piece, axes) for piece in pieces]
    for time, text in marks:
        parts += _mark(axes.x(time), text)
    if limit is not None:
        parts.append(_horizontal("limit", axes.y(limit)))
    return _svg(title, parts, HEIGHT)


def axes_around(
    series: Sequence[tuple[str, Sequence[Point]]],
    band: Sequence[BandPoint],
    limit: float | None,
) -> Axes:
    """Axes that show all points, the band and the limit."""
    points = [point for _, line in series for point in line]
    points += [(time, high) for time, _, high in band]
    times = [time for time, _ in points]
    values = [value for _, value in points]
    highest = max([*values, limit or 0.0])
    return Axes(
        first=min(times),
        last=max(times),
        step=round_step(highest),
    )


def runs(line: Sequence[Point]) -> list[list[Point]]:
    """The line in pieces, between which days are missing."""
    pieces: list[list[Point]] = []
    last_time = -math.inf
    for time, value in line:
        if time - last_time > 1.5 * DAY_SECONDS:
            pieces.append([])
        pieces[-1].append((time, value))
        last_time = time
    return pieces


def heat_map(profile: Sequence[float | None], title: str) -> str:
    """Hours across, days of the week down; the darker the more. None: that hour was not polled."""
    highest = max((value or 0.0 for value in profile), default=0.0) or 1.0
    cells = [
        _cell(hour_of_week, value / highest)
        for hour_of_week, value in enumerate(profile[:HOURS])
        if value is not None
    ]
    height = TOP + 7 * CELL_HEIGHT + BOTTOM
    return _svg(title, [*cells, *_days_and_hours()], height)


def round_step(highest: float) -> float:
    """A round number between two lines of the grid, so that STEPS of them reach `highest`."""
    if highest <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(highest / STEPS))
    steps = (unit * times for times in ROUND)
    return next(step for step in steps if step * STEPS >= highest)


# --- parts of a picture


def _grid(axes: Axes) -> list[str]:
    """Horizontal lines with their values."""
    parts = []
    for number in range(STEPS + 1):
        value = axes.step * number
        y = axes.y(value)
        place: Attributes = {"x": LEFT - 6, "y": y + 4, "text-anchor": "end"}
        parts.append(_horizontal("grid", y))
        parts.append(_text(short_number(value), place))
    return parts


def _dates(axes: Axes) -> list[str]:
    """The dates below the time axis, from edge to edge."""
    parts = []
    last = DATES - 1
    for number in range(DATES):
        time = axes.first + (axes.last - axes.first) * number / last
        place: Attributes = {
            "x": axes.x(time),
            "y": HEIGHT - 6,
            "text-anchor": {0: "start", last: "end"}.get(number, "middle"),
        }
        date = datetime.fromtimestamp(time, UTC)
        parts.append(_text(date.strftime("%d %b"), place))
    return parts


def _band(band: Sequence[BandPoint], axes: Axes) -> str:
    """The area between low and high."""
    upper = [axes.point(time, high) for time, _, high in band]
    lower = [axes.point(time, low) for time, low, _ in reversed(band)]
    return _element(
        "polygon",
        {"class": "band", "points": _points(upper + lower)},
    )


def _gap(before: Sequence[Point], after: Sequence[Point], axes: Axes) -> str:
    """The shaded area between two pieces of a line."""
    begin = axes.x(before[-1][0])
    end = axes.x(after[0][0])
    return _element(
        "rect",
        {
            "class": "gap",
            "x": begin,
            "y": TOP,
            "width": end - begin,
            "height": INNER_HEIGHT,
        },
    )


def _polyline(style: str, piece: Sequence[Point], axes: Axes) -> str:
    """A piece of a line."""
    points = [axes.point(time, value) for time, value in piece]
    if len(points) == 1:
        points *= 2  # else it would not be seen
    return _element(
        "polyline",
        {"class": style, "points": _points(points)},
    )


def _mark(x: float, text: str) -> list[str]:
    """A vertical line and a text beside it."""
    line: Attributes = {
        "class": "mark",
        "x1": x,
        "x2": x,
        "y1": TOP,
        "y2": HEIGHT - BOTTOM,
    }
    return [
        _element("line", line),
        _text(escape(text), {"x": x + 3, "y": TOP + 10}),
    ]


def _horizontal(style: str, y: float) -> str:
    """A line from edge to edge."""
    return _element(
        "line",
        {
            "class": style,
            "x1": LEFT,
            "x2": WIDTH - RIGHT,
            "y1": y,
            "y2": y,
        },
    )


def _cell(hour_of_week: int, share: float) -> str:
    """An hour of a heat map. share: 1 is the darkest."""
    day, hour = divmod(hour_of_week, 24)
    return _element(
        "rect",
        {
            "class": "heat",
            "x": LEFT + hour * CELL_WIDTH,
            "y": TOP + day * CELL_HEIGHT,
            "width": CELL_WIDTH - 1,
            "height": CELL_HEIGHT - 1,
            "fill-opacity": f"{0.04 + 0.96 * share:.2f}",
        },
    )


def _days_and_hours() -> list[str]:
    """The names of the days left of a heat map, and the hours below it."""
    parts = []
    for day, name in enumerate(DAYS):
        place: Attributes = {
            "x": LEFT - 6,
            "y": TOP + day * CELL_HEIGHT + 13,
            "text-anchor": "end",
        }
        parts.append(_text(name[:3], place))
    for hour in range(0, 24, 3):
        place = {
            "x": LEFT + hour * CELL_WIDTH,
            "y": TOP + 7 * CELL_HEIGHT + 14,
        }
        parts.append(_text(f"{hour:02d}:00", place))
    return parts


# --- SVG


def _element(name: str, attributes: Attributes) -> str:
    return f"<{name}{_attributes(attributes)}/>"


def _text(content: str, attributes: Attributes) -> str:
    return f"<text{_attributes(attributes)}>{content}</text>"


def _attributes(attributes: Attributes) -> str:
    """The attributes as SVG writes them; a float has one decimal."""
    written = ""
    for name, value in attributes.items():
        text = f"{value:.1f}" if isinstance(value, float) else value
        written += f' {name}="{text}"'
    return written


def _points(points: Sequence[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _svg(title: str, parts: Sequence[str], height: int) -> str:
    label = escape(title, quote=True)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">'
        f"<title>{escape(title)}</title>"
        f"{''.join(parts)}</svg>"
    )
