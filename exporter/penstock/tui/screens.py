"""Brokers, queues, clients, consumers: what each level shows, and what fits the terminal."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Final, Generic, TypeAlias, TypeVar

from msgspec import UNSET
from textual.binding import Binding, BindingType

from penstock.core.catalogues import read_toml
from penstock.insight.answers import BrokerState, Client, Consumer, Queue
from penstock.insight.formatting import duration
from penstock.tui.sparkline import RecentValues, sparkline

GAP = 2
POINTS = 30
"""Values of a sparkline, at most."""
MARKS: Final = {"critical": "!!", "warning": "! ", "info": "i "}
STYLES: Final = {"critical": "bold red", "warning": "yellow", "info": "cyan", "down": "bold red"}

Listed: TypeAlias = Queue | Client | Consumer
Row: TypeAlias = BrokerState | Listed
RowT = TypeVar("RowT", bound=Row)


@dataclass(frozen=True, slots=True)
class CellContext(Generic[RowT]):
    """What a cell is shown by: the row, its key, what was seen before, and the time by our clock.

    stale: the row's broker is down.
    """

    row: RowT
    key: Hashable
    trail: RecentValues
    now: float
    width: int = 0
    stale: bool = False


Show = Callable[[CellContext[Any]], str]


@dataclass(frozen=True, slots=True)
class Column:
    """title, show: heading and text. width: in characters, with `most` where there is room.
    rank: those of the lowest are shown first where the terminal is narrow.
    given: the name that, once it is chosen, every row has; the column is left out then.
    sort: the order it stands for, empty where there is none.
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
    """The columns that fit `width`, the most needed ones, each as wide as there is room; at least the first."""
    chosen: list[int] = []
    for i in sorted(range(len(columns)), key=lambda i: columns[i].rank):
        if not chosen or _needed([*(columns[one] for one in chosen), columns[i]]) <= width:
            chosen.append(i)
    shown = [columns[i] for i in sorted(chosen)]
    spare = width - _needed(shown)
    for i, column in sorted(enumerate(shown), key=lambda one: one[1].rank):
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
    return lambda seen: "" if (found := seen.trail.rate(seen.key, name)) is None else per_second(found)


def spark(name: str) -> Show:
    """Of what was seen."""
    return lambda seen: sparkline(seen.trail.values(seen.key, name)[-seen.width :])


def time_series(*names: str) -> Show:
    """Of what the agent has kept of the last hour: the sum of these."""

    def show(seen: CellContext[Queue | Client]) -> str:
        if not seen.row.recent:
            return ""
        moments = zip(*(getattr(seen.row.recent, name) for name in names), strict=True)
        return sparkline([math.nan if None in moment else sum(moment) for moment in moments][-seen.width :])

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
    """The worst condition with its mark, and how many more; `ok` where none is; of a broker that is down neither."""
    active = [one for one in seen.row.conditions if not one.silenced]
    if not active:
        return "?  last seen" if seen.stale else "   silenced" if seen.row.conditions else "   ok"
    more = f" +{len(active) - 1}" if len(active) > 1 else ""
    return f"{MARKS[active[0].severity]} {active[0].condition}{more}"


def since(seen: CellContext[Listed]) -> str:
    active = [one for one in seen.row.conditions if not one.silenced]
    return brief(max(seen.now - active[0].since, 0.0)) if active else ""


def broker_state(seen: CellContext[BrokerState]) -> str:
    row = seen.row
    if row.up is None:
        return "?  not asked yet"
    if not row.up:
        return "!! DOWN"
    for severity in ("critical", "warning"):
        if row.numbers.get(severity):
            return f"{MARKS[severity]} {row.numbers[severity]} {severity}"
    return "   ok"


def style_of(row: Row, *, stale: bool = False) -> str:
    """Colour of the state; its mark says the same. stale: the row's broker is down."""
    if isinstance(row, BrokerState):
        worst = next((one for one in ("critical", "warning") if row.numbers.get(one)), "")
        return STYLES["down"] if row.up is False else STYLES.get(worst, "green" if row.up else "dim")
    active = [one.severity for one in row.conditions if not one.silenced]
    return STYLES[active[0]] if active else "dim" if stale else "green"


def _of(name: str) -> Show:
    return lambda seen: short(seen.row.numbers[name]) if name in seen.row.numbers else ""


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
        return row.numbers if isinstance(row, BrokerState) else {name: getattr(row, name) for name in self.counted}

    @property
    def sorts(self) -> list[str]:
        """The orders there are, by the columns that stand for them."""
        return [column.sort for column in self.columns if column.sort]


_STATES: Mapping[str, Show] = {"state": state, "since": since, "broker_state": broker_state, "notes": _notes}
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
_LEVELS, _KEYS = read_toml("penstock.tui", "levels.toml"), read_toml("penstock.tui", "keys.toml")


def bindings(of: str) -> list[BindingType]:
    """Of the view, the grid or a page."""
    return [Binding(**row) for row in _KEYS[of]]


def columns(rows: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    """Of a level in `levels.toml`."""
    found = []
    for row in rows:
        kind = next(name for name in SHOWS if name in row)
        found.append(Column(show=SHOWS[kind](row[kind]), **{name: row[name] for name in row if name != kind}))
    return tuple(found)


LEVELS: Final = tuple(
    Level(name, columns(level["columns"]), attrgetter(*level["key"]), level["counted"])
    for name, level in _LEVELS.items()
)
BROKERS, QUEUES, CLIENTS, CONSUMERS = LEVELS
