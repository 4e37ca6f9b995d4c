"""Brokers, queues, clients, consumers: what each level shows, and what fits the terminal."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.cli.terminal.trail import Trail, sparkline
from penstock.flow.explain import Plain
from penstock.flow.figures import duration

GAP = 2
POINTS = 30
"""Values of a sparkline, at most."""
MARKS: Final = {"critical": "!!", "warning": "! ", "info": "i "}
STYLES: Final = {"critical": "bold red", "warning": "yellow", "info": "cyan", "down": "bold red", "quiet": "dim"}


@dataclass(frozen=True, slots=True)
class Seen:
    """What a cell is shown by: the row, its key, what was seen before, and the time by our clock."""

    row: Plain
    key: Hashable
    trail: Trail
    now: float
    width: int = 0


Show = Callable[[Seen], str]


@dataclass(frozen=True, slots=True)
class Column:
    """
    title, show: heading and text. width: in characters, with `most` where there is room.
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


def count(name: str) -> Show:
    return lambda seen: short(seen.row.get(name))


def text(name: str) -> Show:
    return lambda seen: str(seen.row.get(name) or "")


def rate(name: str) -> Show:
    """Of a counter, from what was seen."""
    return lambda seen: per_second(seen.trail.rate(seen.key, name))


def spark(name: str) -> Show:
    """Of what was seen."""
    return lambda seen: sparkline(seen.trail.values(seen.key, name)[-seen.width :])


def course(*names: str) -> Show:
    """Of what the agent has kept of the last hour: the sum of these."""

    def show(seen: Seen) -> str:
        kept = seen.row.get("recent") or {}
        moments = zip(*(kept.get(name, ()) for name in names), strict=False)
        return sparkline([math.nan if None in moment else sum(moment) for moment in moments][-seen.width :])

    return show


def ago(name: str) -> Show:
    def show(seen: Seen) -> str:
        at = seen.row.get(name)
        return "" if at is None else brief(max(seen.now - at, 0.0))

    return show


def short(value: Any) -> str:
    """In at most six characters; empty where it is not known."""
    if value is None:
        return ""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e3 if unit == 'k' else size):.{1 if value < 100 * size else 0}f}{unit}"
    return f"{value:g}" if value == int(value) else f"{value:.1f}"


def per_second(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2g}" if 0 < value < 1 else short(round(value, 1))


def brief(seconds: float) -> str:
    """The largest unit, two of them from an hour on."""
    if seconds < 3600:
        return f"{seconds:.0f} s" if seconds < 120 else f"{seconds // 60:.0f} min"
    return duration(seconds // 60 * 60)


def state(seen: Seen) -> str:
    """The worst condition with its mark, and how many more; `ok` where none holds; of a broker that is down neither."""
    told = [one for one in seen.row["conditions"] if not one["silenced"]]
    if not told and seen.row.get("stale"):
        return "?  last seen"
    if not told:
        return "   silenced" if seen.row["conditions"] else "   ok"
    more = f" +{len(told) - 1}" if len(told) > 1 else ""
    return f"{MARKS[told[0]['severity']]} {told[0]['condition']}{more}"


def since(seen: Seen) -> str:
    told = [one for one in seen.row["conditions"] if not one["silenced"]]
    return brief(max(seen.now - told[0]["since"], 0.0)) if told else ""


def broker_state(seen: Seen) -> str:
    row, numbers = seen.row, seen.row.get("numbers", {})
    if row["up"] is None:
        return "?  not asked yet"
    if not row["up"]:
        return "!! DOWN"
    for severity in ("critical", "warning"):
        if numbers.get(severity):
            return f"{MARKS[severity]} {numbers[severity]} {severity}"
    return "   ok"


def style_of(level: str, row: Plain) -> str:
    """Colour of the state; the same is told by its mark."""
    if level == "brokers":
        numbers = row.get("numbers", {})
        worst = next((one for one in ("critical", "warning") if numbers.get(one)), "")
        return STYLES["down"] if row["up"] is False else STYLES.get(worst, "green" if row["up"] else "dim")
    told = [one["severity"] for one in row["conditions"] if not one["silenced"]]
    if not told and row.get("stale"):
        return "dim"
    return STYLES[told[0]] if told else "green"


def _of(name: str) -> Show:
    return lambda seen: short(seen.row.get("numbers", {}).get(name))


def _ring(seen: Seen) -> str:
    used = seen.row.get("ring_used_ratio")
    return "" if used is None else f"{used:.0%}"


def _patience(seen: Seen) -> str:
    seconds = seen.row.get("patience")
    return "" if seconds is None else brief(seconds)


def _told_of_broker(seen: Seen) -> str:
    row = seen.row
    found = len(row["findings"])
    findings = f"{found} finding{'s' if found > 1 else ''}" if found else ""
    return row["error"] or "; ".join([*filter(None, [findings]), *row["notes"]])


def _age(seen: Seen) -> str:
    return "" if seen.row["age"] is None else brief(seen.row["age"])


# --- levels


@dataclass(frozen=True, slots=True)
class Level:
    name: str
    one: str
    columns: Sequence[Column]
    key: Callable[[Plain], Hashable]
    numbers: Callable[[Plain], Plain]

    @property
    def sorts(self) -> list[str]:
        """The orders there are, by the columns that stand for them."""
        return [column.sort for column in self.columns if column.sort]


def _names(*names: str) -> Callable[[Plain], Hashable]:
    return lambda row: tuple(row[name] for name in names)


BROKERS: Final = Level(
    "brokers",
    "broker",
    (
        Column("State", broker_state, 13),
        Column("Broker", text("name"), 14, most=30),
        Column("Kind", text("kind"), 7, rank=4),
        Column("Version", text("version"), 10, rank=5, most=18),
        Column("Role", text("role"), 7, rank=3),
        Column("Queues", _of("queues"), 6, rank=2, right=True),
        Column("Msgs", _of("messages"), 6, rank=1, right=True),
        Column("Cons", _of("consumers"), 6, rank=2, right=True),
        Column("Data age", _age, 8, rank=6, right=True),
        Column("Msgs seen", spark("messages"), 9, rank=8, most=24),
        Column("Told", _told_of_broker, 12, rank=7, most=200),
    ),
    _names("name"),
    lambda row: dict(row.get("numbers", {})),
)
QUEUES: Final = Level(
    "queues",
    "queue",
    (
        Column("State", state, 19, sort="worst", most=23),
        Column("Queue", text("queue"), 16, sort="queue", most=60),
        Column("Msgs", count("messages"), 6, sort="messages", right=True),
        Column("Ready", count("ready"), 6, rank=3, sort="ready", right=True),
        Column("Deliv", count("delivering"), 6, rank=2, sort="delivering", right=True),
        Column("Sched", count("scheduled"), 6, rank=7, sort="scheduled", right=True),
        Column("Cons", count("consumers"), 4, rank=2, sort="consumers", right=True),
        Column("In/s", lambda seen: per_second(seen.row.get("rate_in")), 6, rank=5, sort="rate_in", right=True),
        Column("Out/s", lambda seen: per_second(seen.row.get("rate_out")), 6, rank=4, sort="rate_out", right=True),
        Column("Ring", _ring, 5, rank=8, right=True),
        Column("For", since, 8, rank=6, right=True),
        Column("History", course("ready", "delivering"), 9, rank=1, most=POINTS),
        Column("Owner", text("owner"), 8, rank=9, most=14),
        Column("Broker", text("broker"), 8, rank=1, most=14, given="broker"),
    ),
    _names("broker", "address", "queue"),
    lambda _: {},
)
CLIENTS: Final = Level(
    "clients",
    "client",
    (
        Column("State", state, 19, sort="worst", most=23),
        Column("Client", text("client"), 16, sort="client", most=40),
        Column("Queue", text("queue"), 14, rank=1, sort="queue", most=40, given="queue"),
        Column("Cons", count("consumers"), 4, rank=5, sort="consumers", right=True),
        Column("Held", count("buffered"), 6, sort="buffered", right=True),
        Column("Uncom", count("uncommitted"), 6, rank=2, sort="uncommitted", right=True),
        Column("Deliv/s", rate("delivered"), 7, rank=7, right=True),
        Column("Ack/s", rate("acknowledged"), 6, rank=3, right=True),
        Column("Blocked", ago("blocked_since"), 8, rank=4, sort="-blocked_since", right=True),
        Column("Patience", _patience, 8, rank=8, sort="patience", right=True),
        Column("History", course("buffered"), 9, rank=1, most=POINTS),
        Column("Broker", text("broker"), 8, rank=1, most=14, given="broker"),
    ),
    _names("broker", "address", "queue", "client"),
    lambda row: {name: row.get(name) for name in ("delivered", "acknowledged")},
)
CONSUMERS: Final = Level(
    "consumers",
    "consumer",
    (
        Column("State", state, 19, sort="worst", most=23),
        Column("Consumer", text("consumer"), 8, rank=1, sort="consumer", most=20),
        Column("Client", text("client"), 14, sort="client", most=30, given="client"),
        Column("Queue", text("queue"), 14, rank=3, sort="queue", most=30, given="queue"),
        Column("Held", count("buffered"), 6, sort="buffered", right=True),
        Column("Bytes", count("buffered_bytes"), 6, rank=7, sort="buffered_bytes", right=True),
        Column("Uncom", count("awaiting_commit"), 6, rank=3, sort="awaiting_commit", right=True),
        Column("Ack/s", rate("acknowledged"), 6, rank=4, right=True),
        Column("Delivery", ago("last_delivery"), 8, rank=6, sort="last_delivery", right=True),
        Column("Last ack", ago("last_acknowledgement"), 8, rank=3, sort="-last_acknowledgement", right=True),
        Column("Protocol", text("protocol"), 8, rank=11),
        Column("From", text("remote_host"), 15, rank=10, most=22),
        Column("Held seen", spark("buffered"), 9, rank=2, most=POINTS),
        Column("Broker", text("broker"), 8, rank=1, most=14, given="broker"),
    ),
    _names("broker", "consumer"),
    lambda row: {name: row.get(name) for name in ("buffered", "acknowledged")},
)
LEVELS: Final = (BROKERS, QUEUES, CLIENTS, CONSUMERS)
