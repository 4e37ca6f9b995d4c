"""Charts as SVG: drawn here, so that the report needs no script and prints. Colours come from the page's style."""

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import pairwise

WIDTH = 720
HEIGHT = 200
LEFT = 64
RIGHT = 10
TOP = 10
BOTTOM = 24
HOURS = 168
STEPS = 4
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
Scale = Callable[[float], float]


def short_number(value: float) -> str:
    """Short, for an axis or a cell: 950, 1.2 k, 3.4 M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return (
                f"{value / {'G': 1e9, 'M': 1e6, 'k': 1e3}[unit]:.1f}".removesuffix(".0")
                + f" {unit}"
            )
    return f"{value:.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.2g}"


def lines(
    series: Sequence[tuple[str, Sequence[tuple[float, float]]]],
    title: str,
    band: Sequence[tuple[float, float, float]] = (),
    limit: float | None = None,
    marks: Sequence[tuple[float, str]] = (),
) -> str:
    """Lines over time (seconds since 1970), a point a day; band: (time, low, high). From 0 up. Days without a point are
    shaded. marks: times with what happened then.
    """
    points = [point for _, line in series for point in line] + [
        (t, high) for t, _, high in band
    ]
    first = min(t for t, _ in points)
    last = max(t for t, _ in points)
    step = round_step(max([v for _, v in points] + [limit or 0.0]))
    top = step * STEPS

    def x(t: float) -> float:
        return LEFT + (t - first) / max(last - first, 1) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - max(value, 0.0) / top * (HEIGHT - TOP - BOTTOM)

    parts = [_grid(step, y), *_dates(first, last, x)]
    if band:
        ring = [(x(t), y(high)) for t, _, high in band] + [
            (x(t), y(low)) for t, low, _ in reversed(band)
        ]
        parts.append(f'<polygon class="band" points="{_points(ring)}"/>')
    for style, line in series:
        pieces = runs(line)
        parts += [
            f'<rect class="gap" x="{x(a[-1][0]):.1f}" y="{TOP}" width="{x(b[0][0]) - x(a[-1][0]):.1f}"'
            f' height="{HEIGHT - TOP - BOTTOM}"/>'
            for a, b in pairwise(pieces)
        ]
        parts += [
            f'<polyline class="{style}" points="{_points([(x(t), y(v)) for t, v in (one * 2)[: max(len(one), 2)]])}"/>'
            for one in pieces
        ]
    for t, what in marks:
        parts.append(
            f'<line class="mark" x1="{x(t):.1f}" x2="{x(t):.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
            f'<text x="{x(t) + 3:.1f}" y="{TOP + 10}">{escape(what)}</text>'
        )
    if limit is not None:
        parts.append(
            f'<line class="limit" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(limit):.1f}" y2="{y(limit):.1f}"/>'
        )
    return _svg(title, "".join(parts), HEIGHT)


def runs(line: Sequence[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """Points without a missing day between them."""
    found: list[list[tuple[float, float]]] = []
    for t, value in line:
        if not found or t - found[-1][-1][0] > 1.5 * 86400:
            found.append([])
        found[-1].append((t, value))
    return found


def heat_map(profile: Sequence[float | None], title: str) -> str:
    """Hours across, days of the week down; the darker the more."""
    top = max((value or 0.0 for value in profile), default=0.0) or 1.0
    cell = (WIDTH - LEFT - RIGHT) / 24
    high = 18
    parts = []
    for at, value in enumerate(profile[:HOURS]):
        if value is None:  # that hour was not polled
            continue
        day, hour = divmod(at, 24)
        share = value / top
        parts.append(
            f'<rect class="heat" x="{LEFT + hour * cell:.1f}" y="{TOP + day * high}" width="{cell - 1:.1f}"'
            f' height="{high - 1}" fill-opacity="{0.04 + 0.96 * share:.2f}"/>'
        )
    parts += [
        f'<text x="{LEFT - 6}" y="{TOP + day * high + 13}" text-anchor="end">{name[:3]}</text>'
        for day, name in enumerate(DAYS)
    ]
    parts += [
        f'<text x="{LEFT + hour * cell:.1f}" y="{TOP + 7 * high + 14}">{hour:02d}:00</text>'
        for hour in range(0, 24, 3)
    ]
    return _svg(title, "".join(parts), TOP + 7 * high + BOTTOM)


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in points)


def round_step(highest: float) -> float:
    """Between two lines of the grid, a round number; STEPS of them hold `highest`."""
    if highest <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(highest / STEPS))
    return next(
        unit * times
        for times in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
        if unit * times * STEPS >= highest
    )


def _grid(size: float, y: Scale) -> str:
    out = []
    for step in range(STEPS + 1):
        value = size * step
        at = y(value)
        out.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
        )
        out.append(
            f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{short_number(value)}</text>'
        )
    return "".join(out)


def _dates(first: float, last: float, x: Scale) -> list[str]:
    out = []
    for step in range(6):
        at = first + (last - first) * step / 5
        anchor = "start" if step == 0 else "end" if step == 5 else "middle"
        day = datetime.fromtimestamp(at, UTC).strftime("%d %b")
        out.append(
            f'<text x="{x(at):.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{day}</text>'
        )
    return out


def _svg(title: str, content: str, height: float) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title, quote=True)}">'
        f"<title>{escape(title)}</title>{content}</svg>"
    )
