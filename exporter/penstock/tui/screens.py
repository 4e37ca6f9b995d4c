"""Brokers, queues, clients, consumers: what each level shows, and what fits the terminal."""

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
"""Values of a sparkline, at most."""
MARKS: Final = {
    "down": "!!", "stale": "? ", "critical": "!!", "warning": "! ", "unknown": "? ", "notice": "i ", "watching": "~ ",
    "healthy": "  ",
}  # fmt: skip
"""By state; a colour says the same."""
STYLES: Final = {
    "down": "bold red", "stale": "dim", "critical": "bold red", "warning": "yellow", "unknown": "cyan",
    "notice": "cyan", "watching": "cyan", "healthy": "green",
}  # fmt: skip

Listed: TypeAlias = Queue | Client | Consumer
Row: TypeAlias = BrokerState | Listed
RowT = TypeVar("RowT", bound=Row)


@dataclass(frozen=True, slots=True)
class CellContext(Generic[RowT]):
    """What a cell is shown by: the row, its key, what was seen before, and the time by our clock."""

    row: RowT
    key: Hashable
    trail: RecentValues
    now: float
    width: int = 0


Show = Callable[[CellContext[Any]], str]


@dataclass(frozen=True, slots=True)
class Column:
    """title, show: heading and text. width: in characters, with `most` where there is room.
    rank: those of the lowest are shown first where the terminal is narrow.
    given: the name that, once it is chosen, every row has; the column is left out then.
    sort: the order that it selects, empty where there is none.
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
    """The columns that fit `width`, the most needed ones, each as wide as there is room: names before the state."""
    chosen: list[int] = []
    for i in sorted(range(len(columns)), key=lambda i: columns[i].rank):
        if (
            not chosen
            or _needed([*(columns[one] for one in chosen), columns[i]]) <= width
        ):
            chosen.append(i)
    shown = [columns[i] for i in sorted(chosen)]
    spare = width - _needed(shown)
    for i, column in sorted(enumerate(shown), key=lambda one: (one[1].rank, -one[0])):
        more = max(min(spare, column.most - column.width), 0)
        shown[i] = replace(column, width=column.width + more)
        spare -= more
    return shown


def _needed(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + GAP * (len(columns) - 1)


# --- cells


def cell(name: str, form: Callable[[Any], str]) -> Show:
    """What the row has under this name; empty where it is not known."""

    def show(seen: CellContext[Row]) -> str:
        value = getattr(seen.row, name)
        return "" if value is None or value is UNSET else form(value)

    return show


def ago(name: str) -> Show:
    return lambda seen: cell(name, lambda at: brief(max(seen.now - at, 0.0)))(seen)


def rate(name: str) -> Show:
    """Of a counter, from what was seen."""
    return lambda seen: (
        "" if (found := seen.trail.rate(seen.key, name)) is None else per_second(found)
    )


def spark(name: str) -> Show:
    """Of what was seen."""
    return lambda seen: sparkline(seen.trail.values(seen.key, name)[-seen.width :])


def time_series(name: str, of_client: str) -> Show:
    """Of what the agent has kept of the last hour: `of_client` where the worst condition is that of a client."""

    def show(seen: CellContext[Queue | Client]) -> str:
        if not seen.row.recent:
            return ""
        worst = next(iter(active(seen.row)), None)
        values = getattr(seen.row.recent, of_client if worst and worst.client else name)
        return sparkline(
            [math.nan if value is None else value for value in values][-seen.width :]
        )

    return show


def short(value: float) -> str:
    """In at most six characters."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e3 if unit == 'k' else size):.{1 if value < 100 * size else 0}f}{unit}"
    return f"{value:g}" if value == int(value) else f"{value:.1f}"


def per_second(value: float) -> str:
    return f"{value:.2g}" if 0 < value < 1 else short(round(value, 1))


def brief(seconds: float) -> str:
    """The largest unit, two of them from an hour on."""
    if seconds < 3600:
        return f"{seconds:.0f} s" if seconds < 120 else f"{seconds // 60:.0f} min"
    return duration(seconds // 60 * 60)


def state(seen: CellContext[Listed]) -> str:
    """The mark of the state with the worst condition, and the others as there is room: in short `+lost` where messages
    are lost, and how many. The word for the state where no condition is active.
    """
    row = seen.row
    mark = MARKS[row.state]
    found = active(row)
    if not found:
        return f"{mark} {'silenced' if row.state == 'notice' and row.conditions else row.state}"
    worst, *others = dict.fromkeys(one.condition for one in found)
    line = f"{mark} {', '.join([worst, *others])}"
    if len(line) <= seen.width or not others:
        return line
    lost = worst not in LOSSES and not LOSSES.isdisjoint(others)
    more = (" +lost" if lost else "") + (
        f" +{len(others) - lost}" if len(others) > lost else ""
    )
    return line[: min(3 + len(worst), max(seen.width - len(more), 3))] + more


def active(row: Listed) -> Sequence[ConditionSummary]:
    """Its conditions that are not silenced, the worst first."""
    return [one for one in row.conditions if not one.silenced]


def since(seen: CellContext[Listed]) -> str:
    found = active(seen.row)
    return brief(max(seen.now - found[0].since, 0.0)) if found else ""


def broker_state(seen: CellContext[BrokerState]) -> str:
    row = seen.row
    if row.up is None:
        return f"{MARKS[row.state]} not asked yet"
    if not row.up:
        return f"{MARKS[row.state]} DOWN"
    count = row.numbers.get(row.state)
    return (
        f"{MARKS[row.state]} {count} {row.state}"
        if count
        else f"{MARKS[row.state]} {row.state}"
    )


def style_of(row: Row) -> str:
    """Colour of the state; its mark says the same."""
    return STYLES[row.state]


def _of(name: str) -> Show:
    return lambda seen: (
        short(seen.row.numbers[name]) if name in seen.row.numbers else ""
    )


def _notes(seen: CellContext[BrokerState]) -> str:
    row = seen.row
    found = len(row.findings)
    findings = f"{found} finding{'s' if found > 1 else ''}" if found else ""
    return row.error or "; ".join([*filter(None, [findings]), *row.notes])


# --- levels


@dataclass(frozen=True, slots=True)
class Level:
    name: str
    columns: Sequence[Column]
    key: Callable[[Any], Hashable]
    counted: Sequence[str]

    def numbers(self, row: Row) -> Mapping[str, Any]:
        """What sparklines and rates are drawn from."""
        return (
            row.numbers
            if isinstance(row, BrokerState)
            else {name: getattr(row, name) for name in self.counted}
        )

    @property
    def sorts(self) -> list[str]:
        """The orders there are, by the columns that select them."""
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
    "number": _of,
    "ago": ago,
    "rate": rate,
    "seen": spark,
    "kept": lambda names: time_series(*names),
}
"""How a cell is made of what its row has under a name."""
_LEVELS = read_toml("penstock.tui", "levels.toml")
_KEYS = read_toml("penstock.tui", "keys.toml")
LOSSES: Final = frozenset[str](_LEVELS["losses"])
"""Conditions by which messages are lost."""


def bindings(of: str) -> list[BindingType]:
    """Of the view, the grid or a page."""
    return [Binding(**row) for row in _KEYS[of]]


def key_lines(width: int) -> list[str]:
    """What each key of the view does, in lines of that width."""
    rows = [row for row in _KEYS["view"] if row.get("show", True)]
    text = "  ".join(
        f"{row.get('key_display', row['key'])}\0{row['description']}".replace(" ", "\0")
        for row in rows
    )
    return [line.replace("\0", " ") for line in wrap(text, max(width, 1))]


def columns(rows: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    """Of a level in `levels.toml`."""
    found = []
    for row in rows:
        kind = next(name for name in SHOWS if name in row)
        found.append(
            Column(
                show=SHOWS[kind](row[kind]),
                **{name: row[name] for name in row if name != kind},
            )
        )
    return tuple(found)


LEVELS: Final = tuple(
    Level(name, columns(level["columns"]), attrgetter(*level["key"]), level["counted"])
    for name, level in _LEVELS["levels"].items()
)
BROKERS, QUEUES, CLIENTS, CONSUMERS = LEVELS
