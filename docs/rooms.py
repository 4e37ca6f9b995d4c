"""Draws the rooms of the package and what each imports.

An arrow that follows from two others is left out: where a needs b, and b needs c, none goes from a to c.
An arrow that passes rows goes through a *waypoint* in each, so that it crosses no box.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from xml.etree.ElementTree import (
    Element,
    SubElement,
    fromstring,
    indent,
    tostring,
)

import grimp

PACKAGE = "penstock"
BOX_WIDTH = 104
BOX_HEIGHT = 30
GAP = 20
"""Pixels between two neighbours in a row."""
ROW = 74
"""Pixels from one row to the next."""
MARGIN = 16
SWEEPS = 8
"""How often the rows are ordered; from then on little moves."""

STYLE = (
    "rect{fill:#eef3f8;stroke:#33658a}"
    "text{font:13px sans-serif;text-anchor:middle;fill:#1b2a38}"
    "path{fill:none;stroke:#7d93a6}"
    "@media(prefers-color-scheme:dark)"
    "{rect{fill:#1f2d3a;stroke:#8fb8d8}text{fill:#e6eef5}}"
)
ARROW_HEAD = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
    'markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z" style="fill:#7d93a6"/></marker></defs>'
)

Needs = Mapping[str, frozenset[str]]
"""For each room the rooms that it imports."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A place in a row: a room, or a waypoint of an arrow from one room to another."""

    row: int
    room: str = ""
    arrow: tuple[str, str] = ("", "")

    @property
    def width(self) -> int:
        return BOX_WIDTH if self.room else 0


def rooms_picture(_: str = "") -> str:
    """Return the picture as SVG."""
    needs = direct_needs(rooms_of_package())
    rows = rows_of(needs)
    arrows = [
        arrow_between(rows, room, other)
        for room in sorted(needs)
        for other in sorted(needs[room])
    ]
    stops = {Stop(rows[room], room) for room in needs}
    stops.update(stop for arrow in arrows for stop in arrow)
    return svg(placed(stops, arrows), arrows)


def rooms_of_package() -> Needs:
    """Return what each room imports, in its own modules and in those below it."""
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    needs: dict[str, frozenset[str]] = {}
    for module in graph.find_children(PACKAGE) - {f"{PACKAGE}.__main__"}:
        room = name_of_room(module)
        imported = {
            name_of_room(target)
            for importer in {module, *graph.find_descendants(module)}
            for target in graph.find_modules_directly_imported_by(importer)
        }
        needs[room] = frozenset(imported - {room, ""})
    return needs


def name_of_room(module: str) -> str:
    """Return the room of a module; "" for the package itself."""
    return module.removeprefix(PACKAGE).removeprefix(".").partition(".")[0]


def direct_needs(needs: Needs) -> Needs:
    """Return `needs` without the arrows that follow from others."""

    def follows(room: str, other: str) -> bool:
        between = needs[room] - {other}
        return any(other in all_needs(needs, step) for step in between)

    return {
        room: frozenset(other for other in imported if not follows(room, other))
        for room, imported in needs.items()
    }


def all_needs(needs: Needs, room: str) -> frozenset[str]:
    """Return all rooms that `room` needs, also by way of others."""
    reached: set[str] = set()
    to_visit = [room]
    while to_visit:
        for other in needs[to_visit.pop()] - reached:
            reached.add(other)
            to_visit.append(other)
    return frozenset(reached)


def rows_of(needs: Needs) -> dict[str, int]:
    """Return the row of each room, 0 the highest: above all that it needs, as low as can be."""
    heights: dict[str, int] = {}

    def height(room: str) -> int:
        if room not in heights:
            below = [height(other) for other in needs[room]]
            heights[room] = 1 + max(below, default=-1)
        return heights[room]

    highest = max(map(height, needs))
    return {room: highest - height(room) for room in needs}


def arrow_between(rows: Mapping[str, int], room: str, other: str) -> list[Stop]:
    """Return the stops of an arrow: the room, a waypoint in each row between, the other room."""
    between = range(rows[room] + 1, rows[other])
    waypoints = [Stop(row, arrow=(room, other)) for row in between]
    return [Stop(rows[room], room), *waypoints, Stop(rows[other], other)]


def placed(
    stops: set[Stop], arrows: Sequence[Sequence[Stop]]
) -> dict[Stop, tuple[float, float]]:
    """Return the middle of the upper side of each stop: in its row near those before and behind it."""
    neighbours = neighbours_of(stops, arrows)
    rows = rows_with(stops)
    width = max(map(width_of, rows))
    places: dict[Stop, tuple[float, float]] = {}
    for _ in range(SWEEPS):
        for number, row in enumerate(rows):
            if places:
                row.sort(key=lambda stop: mean_x(neighbours[stop], places))
            left_side = MARGIN + (width - width_of(row)) / 2
            for stop in row:
                x = left_side + stop.width / 2
                y = MARGIN + number * ROW
                places[stop] = (x, y)
                left_side += stop.width + GAP
    return places


def neighbours_of(
    stops: set[Stop], arrows: Sequence[Sequence[Stop]]
) -> dict[Stop, set[Stop]]:
    """Return for each stop those before and behind it on its arrows."""
    neighbours: dict[Stop, set[Stop]] = {stop: set() for stop in stops}
    for arrow in arrows:
        for stop, following in pairwise(arrow):
            neighbours[stop].add(following)
            neighbours[following].add(stop)
    return neighbours


def rows_with(stops: set[Stop]) -> list[list[Stop]]:
    """Return the stops of each row, in the order of their names."""
    lowest = max(stop.row for stop in stops)
    rows: list[list[Stop]] = [[] for _ in range(lowest + 1)]
    for stop in sorted(stops, key=attrgetter("room", "arrow")):
        rows[stop.row].append(stop)
    return rows


def width_of(row: Sequence[Stop]) -> int:
    """Return the pixels that a row takes."""
    return sum(stop.width + GAP for stop in row) - GAP


def mean_x(neighbours: set[Stop], places: Mapping[Stop, tuple[float, float]]) -> float:
    """Return the mean x of those neighbours that have a place."""
    xs = [places[stop][0] for stop in neighbours if stop in places]
    return sum(xs) / len(xs) if xs else 0.0


def svg(
    places: Mapping[Stop, tuple[float, float]], arrows: Sequence[Sequence[Stop]]
) -> str:
    """Return the SVG of the boxes and arrows."""
    right_sides = [x + stop.width / 2 for stop, (x, _) in places.items()]
    upper_sides = [y for _, y in places.values()]
    width = max(right_sides) + MARGIN
    height = max(upper_sides) + BOX_HEIGHT + MARGIN
    picture = Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": numbers(0, 0, width, height),
            "role": "img",
            "aria-label": "The rooms of Penstock and what each imports",
        },
    )
    style = SubElement(picture, "style")
    style.text = STYLE
    picture.append(fromstring(ARROW_HEAD))  # noqa: S314 - a constant
    for arrow in arrows:
        points = [places[stop] for stop in arrow]
        add_arrow(picture, points)
    for stop in sorted(places, key=attrgetter("room")):
        if stop.room:
            x, y = places[stop]
            add_box(picture, stop.room, x, y)
    indent(picture)
    return tostring(picture, encoding="unicode") + "\n"


def add_arrow(picture: Element, points: Sequence[tuple[float, float]]) -> None:
    """Draw from below the first box, through the waypoints, to the last box."""
    x, upper_side = points[0]
    y = upper_side + BOX_HEIGHT
    curve = "M" + numbers(x, y)
    for next_x, next_y in points[1:]:
        bend = (next_y - y) / 2
        curve += "C" + numbers(
            x,
            y + bend,
            next_x,
            next_y - bend,
            next_x,
            next_y,
        )
        x = next_x
        y = next_y + BOX_HEIGHT
        is_waypoint = (next_x, next_y) != points[-1]
        if is_waypoint:
            curve += "V" + numbers(y)
    SubElement(
        picture,
        "path",
        {
            "d": curve,
            "marker-end": "url(#tip)",
        },
    )


def add_box(picture: Element, room: str, x: float, y: float) -> None:
    """Draw a box with the name of its room."""
    SubElement(
        picture,
        "rect",
        {
            "x": numbers(x - BOX_WIDTH / 2),
            "y": numbers(y),
            "width": numbers(BOX_WIDTH),
            "height": numbers(BOX_HEIGHT),
            "rx": "5",
        },
    )
    text = SubElement(
        picture,
        "text",
        {
            "x": numbers(x),
            "y": numbers(y + BOX_HEIGHT / 2 + 5),
        },
    )
    text.text = room


def numbers(*values: float) -> str:
    """Return values as SVG has them."""
    return " ".join(f"{value:g}" for value in values)
