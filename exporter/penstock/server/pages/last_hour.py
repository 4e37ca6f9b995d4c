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
"""Of a line's coordinates: it is stretched to its place."""
STRIP = 1000
"""Width of a strip's coordinates."""

Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Sparkline:
    """line, area: paths, gaps where nothing was read. most: the upper end of the scale. said: the same as text."""

    line: str
    area: str
    most: float
    said: str


def line(
    values: Values, step: float, most: float | None = None, *, stale: bool = False
) -> Sparkline | None:
    """The values, oldest first, `step` seconds apart; None: not read. most: of a shared scale. stale: not of now."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    top = most or max(known) or 1.0
    drawn = [
        None
        if value is None
        else (
            i * WIDTH / max(len(values) - 1, 1),
            HEIGHT - value / top * (HEIGHT - HEADROOM),
        )
        for i, value in enumerate(values)
    ]
    runs = [
        [point for point in run if point]
        for there, run in groupby(drawn, bool)
        if there
    ]
    covered = (
        len(values) - next(i for i, value in enumerate(values) if value is not None)
    ) * step
    last = "last known" if stale or values[-1] is None else "now"
    hour = (
        f"the {duration(covered)} before" if stale else f"the last {duration(covered)}"
    )
    area = "".join(f"{_path(run)}V{HEIGHT}H{run[0][0]:.1f}Z" for run in runs)
    least = number_text(min(known))
    most_ = number_text(max(known))
    said = f"{last} {number_text(known[-1])}, lowest {least}, highest {most_} in {hour}"
    return Sparkline("".join(map(_path, runs)), area, top, said)


def percent(values: Values | None) -> Values | None:
    """Of ratios."""
    return values and [None if value is None else 100 * value for value in values]


def thinned(values: Values, points: int = 60) -> Values:
    """At most so many: of several neighbours the highest, so that no peak is lost."""
    each = -(-len(values) // points)
    groups = [values[max(end - each, 0) : end] for end in range(len(values), 0, -each)]
    return [
        max((value for value in group if value is not None), default=None)
        for group in reversed(groups)
    ]


def _path(points: Sequence[tuple[float, float]]) -> str:
    (x, y), *rest = points
    drawn = (
        "".join(f"L{a:.1f} {b:.1f}" for a, b in rest) or "h.01"
    )  # one point alone is a dot
    return f"M{x:.1f} {y:.1f}{drawn}"


Strip = tuple[str, str, list[tuple[float, float, SeverityEpisode]]]
"""A condition and its client; when it was active: left end and width, of STRIP."""


def strips(
    episodes: Iterable[SeverityEpisode], begin: float, end: float
) -> list[Strip]:
    """One for each condition and client, in the order of their names."""
    name = attrgetter("condition", "client")
    span = max(end - begin, 1.0)

    def bar(one: SeverityEpisode) -> tuple[float, float, SeverityEpisode]:
        left = max(one.since, begin)
        right = min(one.to or end, end)
        width = max((right - left) / span * STRIP, 3.0)  # what was short is seen too
        return min((left - begin) / span * STRIP, STRIP - width), width, one

    ordered = sorted(episodes, key=attrgetter("condition", "client", "since"))
    return [(*of, list(map(bar, run))) for of, run in groupby(ordered, name)]
