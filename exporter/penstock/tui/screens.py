"""Brokers, queues, clients, consumers: what each level shows, and what fits the terminal."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Final, Generic, TypeAlias, TypeVar

from msgspec import UNSET

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
    numbers: Callable[[Any], Mapping[str, Any]]
    """Of a row, what sparklines and rates are drawn from."""

    @property
    def sorts(self) -> list[str]:
        """The orders there are, by the columns that stand for them."""
        return [column.sort for column in self.columns if column.sort]


BROKERS: Final = Level(
    "brokers",
    (
        Column("State", broker_state, 13),
        Column("Broker", cell("name", str), 14, most=30),
        Column("Kind", cell("kind", str), 7, rank=4),
        Column("Version", cell("version", str), 10, rank=5, most=18),
        Column("Role", cell("role", str), 7, rank=3),
        Column("Queues", _of("queues"), 6, rank=2, right=True),
        Column("Msgs", _of("messages"), 6, rank=1, right=True),
        Column("Cons", _of("consumers"), 6, rank=2, right=True),
        Column("Data age", cell("age", brief), 8, rank=6, right=True),
        Column("Msgs seen", spark("messages"), 9, rank=8, most=24),
        Column("Told", _notes, 12, rank=7, most=200),
    ),
    attrgetter("name"),
    attrgetter("numbers"),
)
QUEUES: Final = Level(
    "queues",
    (
        Column("State", state, 19, sort="worst", most=23),
        Column("Queue", cell("queue", str), 16, sort="queue", most=60),
        Column("Msgs", cell("messages", short), 6, sort="messages", right=True),
        Column("Ready", cell("ready", short), 6, rank=3, sort="ready", right=True),
        Column("Deliv", cell("delivering", short), 6, rank=2, sort="delivering", right=True),
        Column("Sched", cell("scheduled", short), 6, rank=7, sort="scheduled", right=True),
        Column("Cons", cell("consumers", short), 4, rank=2, sort="consumers", right=True),
        Column("In/s", cell("rate_in", per_second), 6, rank=5, sort="rate_in", right=True),
        Column("Out/s", cell("rate_out", per_second), 6, rank=4, sort="rate_out", right=True),
        Column("Ring", cell("ring_used_ratio", "{:.0%}".format), 5, rank=8, right=True),
        Column("For", since, 8, rank=6, right=True),
        Column("History", time_series("ready", "delivering"), 9, rank=1, most=POINTS),
        Column("Owner", cell("owner", str), 8, rank=9, most=14),
        Column("Broker", cell("broker", str), 8, rank=1, most=14, given="broker"),
    ),
    attrgetter("broker", "address", "queue"),
    lambda _: {},
)
CLIENTS: Final = Level(
    "clients",
    (
        Column("State", state, 19, sort="worst", most=23),
        Column("Client", cell("client", str), 16, sort="client", most=40),
        Column("Queue", cell("queue", str), 14, rank=1, sort="queue", most=40, given="queue"),
        Column("Cons", cell("consumers", short), 4, rank=5, sort="consumers", right=True),
        Column("Held", cell("buffered", short), 6, sort="buffered", right=True),
        Column("Uncom", cell("uncommitted", short), 6, rank=2, sort="uncommitted", right=True),
        Column("Deliv/s", rate("delivered"), 7, rank=7, right=True),
        Column("Ack/s", rate("acknowledged"), 6, rank=3, right=True),
        Column("Blocked", ago("blocked_since"), 8, rank=4, sort="-blocked_since", right=True),
        Column("Patience", cell("patience", brief), 8, rank=8, sort="patience", right=True),
        Column("History", time_series("buffered"), 9, rank=1, most=POINTS),
        Column("Broker", cell("broker", str), 8, rank=1, most=14, given="broker"),
    ),
    attrgetter("broker", "address", "queue", "client"),
    lambda row: {name: getattr(row, name) for name in ("delivered", "acknowledged")},
)
CONSUMERS: Final = Level(
    "consumers",
    (
        Column("State", state, 19, sort="worst", most=23),
        Column("Consumer", cell("consumer", str), 8, rank=1, sort="consumer", most=20),
        Column("Client", cell("client", str), 14, sort="client", most=30, given="client"),
        Column("Queue", cell("queue", str), 14, rank=3, sort="queue", most=30, given="queue"),
        Column("Held", cell("buffered", short), 6, sort="buffered", right=True),
        Column("Bytes", cell("buffered_bytes", short), 6, rank=7, sort="buffered_bytes", right=True),
        Column("Uncom", cell("awaiting_commit", short), 6, rank=3, sort="awaiting_commit", right=True),
        Column("Ack/s", rate("acknowledged"), 6, rank=4, right=True),
        Column("Delivery", ago("last_delivery"), 8, rank=6, sort="last_delivery", right=True),
        Column("Last ack", ago("last_acknowledgement"), 8, rank=3, sort="-last_acknowledgement", right=True),
        Column("Protocol", cell("protocol", str), 8, rank=11),
        Column("From", cell("remote_host", str), 15, rank=10, most=22),
        Column("Held seen", spark("buffered"), 9, rank=2, most=POINTS),
        Column("Broker", cell("broker", str), 8, rank=1, most=14, given="broker"),
    ),
    attrgetter("broker", "consumer"),
    lambda row: {name: getattr(row, name) for name in ("buffered", "acknowledged")},
)
LEVELS: Final = (BROKERS, QUEUES, CLIENTS, CONSUMERS)
