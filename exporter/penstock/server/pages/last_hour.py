"""The last hour as lines and strips of SVG, with the same in words. Colours come from the style sheet."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from penstock.insight.answers import SeverityEpisode
from penstock.insight.formatting import duration, number_text

WIDTH = 240
HEIGHT = 48
HEADROOM = 2
"""Of a line's coordinates: the line is stretched to its place."""
STRIP = 1000
"""Width of a strip's coordinates."""

Values = Sequence[float | None]


Point = tuple[float, float]
"""To the right, and down."""


@dataclass(frozen=True, slots=True)
class Sparkline:
    """A line of SVG.

    Attributes:
        line: its path, with gaps where nothing was read.
        area: the path of the area below it.
        most: the upper end of the scale.
        said: the same as text.
    """

    line: str
    area: str
    most: float
    said: str


def line(
    values: Values, step: float, most: float | None = None, *, stale: bool = False
) -> Sparkline | None:
    """The values as a line; None where none was read.

    Args:
        values: the oldest first; None: not read.
        step: seconds between two of them.
        most: the upper end of a shared scale.
        stale: the last one is not of now.
    """
    read_values = [value for value in values if value is not None]
    if not read_values:
        return None
    top = most or max(read_values) or 1.0
    runs = _runs(_points(values, top))
    return Sparkline(
        line="".join(map(_path, runs)),
        area="".join(map(_area, runs)),
        most=top,
        said=_in_words(values, step, stale=stale),
    )


def _points(values: Values, top: float) -> list[Point | None]:
    """The coordinates of the values; None where nothing was read. top: the upper end of the scale."""
    steps = max(len(values) - 1, 1)
    height = HEIGHT - HEADROOM
    return [
        None if value is None else (i * WIDTH / steps, HEIGHT - value / top * height)
        for i, value in enumerate(values)
    ]


def _runs(points: Sequence[Point | None]) -> list[list[Point]]:
    """The points without gaps between them, in groups."""
    runs: list[list[Point]] = [[]]
    for point in points:
        if point is not None:
            runs[-1].append(point)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _in_words(values: Values, step: float, *, stale: bool) -> str:
    """The last, the lowest and the highest value, and of which time. One at least was read."""
    read_values = [value for value in values if value is not None]
    first = next(i for i, value in enumerate(values) if value is not None)
    covered = duration((len(values) - first) * step)
    hour = f"the {covered} before" if stale else f"the last {covered}"
    last = "last known" if stale or values[-1] is None else "now"
    latest = number_text(read_values[-1])
    lowest = number_text(min(read_values))
    highest = number_text(max(read_values))
    return f"{last} {latest}, lowest {lowest}, highest {highest} in {hour}"


def percent(values: Values | None) -> Values | None:
    """Ratios as percents."""
    return values and [None if value is None else 100 * value for value in values]


def thinned(values: Values, points: int = 60) -> Values:
    """At most so many values: the highest of several neighbours, so that no peak is lost."""
    size = -(-len(values) // points)
    highest = []
    # From the end, so that the last group is whole.
    for end in range(len(values), 0, -size):
        begin = max(end - size, 0)
        group = [value for value in values[begin:end] if value is not None]
        highest.append(max(group, default=None))
    return highest[::-1]


def _path(points: Sequence[Point]) -> str:
    """A line through the points; a single one is a dot."""
    (x, y), *others = points
    start = f"M{x:.1f} {y:.1f}"
    lines = [f"L{right:.1f} {down:.1f}" for right, down in others]
    return start + ("".join(lines) or "h.01")


def _area(points: Sequence[Point]) -> str:
    """The area below a line through the points."""
    left = points[0][0]
    return f"{_path(points)}V{HEIGHT}H{left:.1f}Z"


Bar = tuple[float, float, SeverityEpisode]
"""Left end and width of STRIP, and the episode."""
Strip = tuple[str, str, list[Bar]]
"""A condition and its client; when it was active."""
NARROWEST = 3.0
"""Width of a bar: a short episode is seen, too."""


def strips(
    episodes: Iterable[SeverityEpisode], begin: float, end: float
) -> list[Strip]:
    """One for each condition and client, in the order of their names."""
    name = attrgetter("condition", "client")
    ordered = sorted(episodes, key=attrgetter("condition", "client", "since"))
    return [
        (condition, client, [_bar(episode, begin, end) for episode in run])
        for (condition, client), run in groupby(ordered, name)
    ]


def _bar(episode: SeverityEpisode, begin: float, end: float) -> Bar:
    """An episode on a strip from `begin` to `end`."""
    span = max(end - begin, 1.0)
    first = max(episode.since, begin)
    last = min(episode.to or end, end)
    width = max((last - first) / span * STRIP, NARROWEST)
    left = min((first - begin) / span * STRIP, STRIP - width)
    return left, width, episode
