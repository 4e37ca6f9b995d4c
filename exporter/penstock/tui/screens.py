"""Brokers, queues, clients, consumers: the columns of each level, and which of them fit the terminal."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from textwrap import wrap
from typing import Any, Final, Generic, TypeAlias, TypeVar

from msgspec import UNSET
from textual.binding import Binding, BindingType

from penstock.core.catalogues import read_toml
from penstock.insight.answers import (
    BrokerState,
    Client,
    ConditionSummary,
    Consumer,
    Queue,
)
from penstock.insight.formatting import duration
from penstock.tui.sparkline import RecentValues, sparkline

GAP = 2
POINTS = 30
"""The most values of a sparkline."""
MARKS: Final = {
    "down": "!!", "stale": "? ", "critical": "!!", "warning": "! ", "unknown": "? ", "notice": "i ", "watching": "~ ",
    "healthy": "  ",
}  # fmt: skip
"""By state; a color shows the same."""
STYLES: Final = {
    "down": "bold red", "stale": "dim", "critical": "bold red", "warning": "yellow", "unknown": "cyan",
    "notice": "cyan", "watching": "cyan", "healthy": "green",
}  # fmt: skip

Listed: TypeAlias = Queue | Client | Consumer
Row: TypeAlias = BrokerState | Listed
RowT = TypeVar("RowT", bound=Row)


@dataclass(frozen=True, slots=True)
class CellContext(Generic[RowT]):
    """What a cell is made of: the row, its key, its earlier values, and the time by our clock."""

    row: RowT
    key: Hashable
    trail: RecentValues
    now: float
    width: int = 0


Show = Callable[[CellContext[Any]], str]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a level.

    Attributes:
        title: The heading.
        show: Makes the text of a cell.
        width: In characters.
        rank: Columns with the lowest rank come first where the terminal is narrow.
        sort: The order that the column selects, empty where it selects none.
        most: The width where there is room.
        right: Whether texts are aligned to the right.
        given: The name that all rows have once it is chosen: then the column is left out.
    """

    title: str
    show: Show
    width: int
    rank: int = 0
    sort: str = ""
    most: int = 0
    right: bool = False
    given: str = ""


def fitted(columns: Sequence[Column], width: int) -> list[Column]:
    """Return the most needed columns that fit the width, each as wide as there is room.

    Spare room goes to the columns with the lowest rank first; of those with the same rank, to the one on the right.
    """
    chosen = _chosen(columns, width)
    spare = width - _needed(chosen)

    def rank_from_the_right(position: int) -> tuple[int, int]:
        return chosen[position].rank, -position

    for position in sorted(range(len(chosen)), key=rank_from_the_right):
        column = chosen[position]
        added = max(min(spare, column.most - column.width), 0)
        chosen[position] = replace(column, width=column.width + added)
        spare -= added
    return chosen


def _chosen(columns: Sequence[Column], width: int) -> list[Column]:
    """Return the columns that fit the width, by rank; one in any case. They keep their order."""
    positions: list[int] = []
    for position in sorted(range(len(columns)), key=lambda place: columns[place].rank):
        with_this = [columns[place] for place in [*positions, position]]
        if not positions or _needed(with_this) <= width:
            positions.append(position)
    return [columns[position] for position in sorted(positions)]


def _needed(columns: Sequence[Column]) -> int:
    """Return the characters that the columns take, with the gaps between them."""
    return sum(column.width for column in columns) + GAP * (len(columns) - 1)


# --- cells


def cell(name: str, form: Callable[[Any], str]) -> Show:
    """Return a function that shows what the row has under this name; empty where it has nothing."""

    def show(seen: CellContext[Row]) -> str:
        value = getattr(seen.row, name)
        return "" if value is None or value is UNSET else form(value)

    return show


def ago(name: str) -> Show:
    """Return a function that shows how long ago a time of the row is."""

    def show(seen: CellContext[Row]) -> str:
        age = cell(name, lambda time: brief(max(seen.now - time, 0.0)))
        return age(seen)

    return show


def rate(name: str) -> Show:
    """Return a function that shows the growth of a counter per second, from the values since the view began."""

    def show(seen: CellContext[Row]) -> str:
        value = seen.trail.rate(seen.key, name)
        return "" if value is None else per_second(value)

    return show


def spark(name: str) -> Show:
    """Return a function that draws the values since the view began."""

    def show(seen: CellContext[Row]) -> str:
        values = seen.trail.values(seen.key, name)
        return sparkline(values[-seen.width :])

    return show


def time_series(name: str, of_client: str) -> Show:
    """Return a function that draws the values of the last hour, which the agent remembers.

    name: Of the values. of_client: Of the values to draw instead where the worst condition is that of a client.
    """

    def show(seen: CellContext[Queue | Client]) -> str:
        if not seen.row.recent:
            return ""
        worst = next(iter(active(seen.row)), None)
        is_of_client = worst is not None and worst.client
        values = getattr(seen.row.recent, of_client if is_of_client else name)
        numbers = [math.nan if value is None else value for value in values]
        return sparkline(numbers[-seen.width :])

    return show


UNITS = (("T", 1e12, 1e12), ("G", 1e9, 1e9), ("M", 1e6, 1e6), ("k", 1e4, 1e3))
"""Units of large numbers: from where on each is used, and what it stands for."""


def short(value: float) -> str:
    """Return a number in at most six characters, such as `9999`, `12.0k`, `3.4M`."""
    for unit, least, factor in UNITS:
        if value >= least:
            digits = 1 if value < 100 * least else 0
            return f"{value / factor:.{digits}f}{unit}"
    return f"{value:g}" if value == int(value) else f"{value:.1f}"


def per_second(value: float) -> str:
    return f"{value:.2g}" if 0 < value < 1 else short(round(value, 1))


def brief(seconds: float) -> str:
    """Return a duration in its largest unit, in two units from an hour on."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min"
    return duration(seconds // 60 * 60)


def state(seen: CellContext[Listed]) -> str:
    """Return the mark of the state with the conditions, or with the word for the state where no condition is active.

    Where there is no room for all conditions: the worst one, `+lost` where messages are lost, and how many others.
    """
    row = seen.row
    mark = MARKS[row.state]
    names = [*dict.fromkeys(condition.condition for condition in active(row))]
    if not names:
        is_silenced = row.state == "notice" and row.conditions
        return f"{mark} {'silenced' if is_silenced else row.state}"
    line = f"{mark} {', '.join(names)}"
    if len(line) <= seen.width or len(names) == 1:
        return line
    others = others_in_short(names)
    room = max(seen.width - len(others), 3)
    end_of_first = len(mark) + 1 + len(names[0])
    return line[: min(end_of_first, room)] + others


def others_in_short(conditions: Sequence[str]) -> str:
    """Return `+lost` where another condition than the first means lost messages, and how many more there are."""
    worst, *others = conditions
    is_loss = worst not in LOSSES and not LOSSES.isdisjoint(others)
    rest = len(others) - is_loss
    parts = [" +lost"] if is_loss else []  # where the first is a loss its name says so
    if rest:
        parts.append(f" +{rest}")
    return "".join(parts)


def active(row: Listed) -> Sequence[ConditionSummary]:
    """Return the conditions of a row that are not silenced, the worst first."""
    return [condition for condition in row.conditions if not condition.silenced]


def since(seen: CellContext[Listed]) -> str:
    """Return for how long the worst condition has been active; empty where there is none."""
    conditions = active(seen.row)
    if not conditions:
        return ""
    return brief(max(seen.now - conditions[0].since, 0.0))


def broker_state(seen: CellContext[BrokerState]) -> str:
    """Return the mark and the state of a broker, with how many objects are in that state."""
    row = seen.row
    mark = MARKS[row.state]
    if row.up is None:
        return f"{mark} not asked yet"
    if not row.up:
        return f"{mark} DOWN"
    count = row.numbers.get(row.state)
    return f"{mark} {count} {row.state}" if count else f"{mark} {row.state}"


def style_of(row: Row) -> str:
    """Return the color of the state; its mark shows the same."""
    return STYLES[row.state]


def _number(name: str) -> Show:
    """Return a function that shows a number of a broker; empty where it has none."""

    def show(seen: CellContext[BrokerState]) -> str:
        value = seen.row.numbers.get(name)
        return "" if value is None else short(value)

    return show


def _notes(seen: CellContext[BrokerState]) -> str:
    """Return why the broker cannot be read, else how many findings there are, and its notes."""
    row = seen.row
    if row.error:
        return row.error
    count = len(row.findings)
    findings = [f"{count} finding{'s' if count > 1 else ''}"] if count else []
    return "; ".join([*findings, *row.notes])


# --- levels


@dataclass(frozen=True, slots=True)
class Level:
    name: str
    columns: Sequence[Column]
    key: Callable[[Row], Hashable]
    counted: Sequence[str]

    def numbers(self, row: Row) -> Mapping[str, object]:
        """Return the values that sparklines and rates are made of."""
        if isinstance(row, BrokerState):
            return row.numbers
        return {name: getattr(row, name) for name in self.counted}

    @property
    def sorts(self) -> list[str]:
        """Return the orders that the columns select."""
        return [column.sort for column in self.columns if column.sort]


_STATES: Mapping[str, Show] = {
    "state": state,
    "since": since,
    "broker_state": broker_state,
    "notes": _notes,
}
SHOWS: Final[Mapping[str, Callable[[Any], Show]]] = {
    "show": _STATES.__getitem__,
    "text": lambda name: cell(name, str),
    "short": lambda name: cell(name, short),
    "per_second": lambda name: cell(name, per_second),
    "percent": lambda name: cell(name, "{:.0%}".format),
    "brief": lambda name: cell(name, brief),
    "number": _number,
    "ago": ago,
    "rate": rate,
    "seen": spark,
    "kept": lambda names: time_series(*names),
}
"""How a cell is made of the value that its row has under a name."""
_LEVELS = read_toml("penstock.tui", "levels.toml")
_KEYS = read_toml("penstock.tui", "keys.toml")
LOSSES: Final = frozenset[str](_LEVELS["losses"])
"""Conditions by which messages are lost."""


def bindings(view: str) -> list[BindingType]:
    """Return the keys of the view, the grid or a page."""
    return [Binding(**row) for row in _KEYS[view]]


def key_lines(width: int) -> list[str]:
    """Return what each key of the view does, in lines of that width."""
    parts = [
        f"{row.get('key_display', row['key'])} {row['description']}"
        for row in _KEYS["view"]
        if row.get("show", True)
    ]
    # `wrap` breaks at blanks: within a part, where it must not, there are none until it is done.
    text = "  ".join(part.replace(" ", "\0") for part in parts)
    return [line.replace("\0", " ") for line in wrap(text, max(width, 1))]


def columns(rows: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    """Return the columns of a level in `levels.toml`."""
    return tuple(_column(row) for row in rows)


def _column(row: Mapping[str, Any]) -> Column:
    """Return a column. row: a way to show it (one of `SHOWS`) with the name of the value, and fields of `Column`."""
    kind = next(name for name in SHOWS if name in row)
    fields = {name: row[name] for name in row if name != kind}
    return Column(show=SHOWS[kind](row[kind]), **fields)


LEVELS: Final = tuple(
    Level(name, columns(level["columns"]), attrgetter(*level["key"]), level["counted"])
    for name, level in _LEVELS["levels"].items()
)
BROKERS, QUEUES, CLIENTS, CONSUMERS = LEVELS
