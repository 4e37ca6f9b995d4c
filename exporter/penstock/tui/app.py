"""The view of `penstock top`: the rows of one level at a time; the row under the cursor can be opened or explained.

A *place* is what is looked at: a level, the object that was opened, a filter and an order. A *look* is the answer for a
place. Each level is opened from a row of the one before: brokers, queues, clients, consumers.
"""

import os
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, ClassVar
from urllib.parse import urlencode

from textual import work
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.events import Event, Key, Resize
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Static

from penstock.core.errors import PenstockError
from penstock.core.visible import visible
from penstock.insight.answers import (
    LISTS,
    BrokerList,
    BrokerState,
    EventList,
    Explanation,
    IncidentList,
)
from penstock.insight.lists import WORST
from penstock.insight.text import event_line, explanation, incident_lines
from penstock.tui import screens
from penstock.tui.grid import Grid
from penstock.tui.lines import LEAST, folded, state_word
from penstock.tui.screens import (
    BROKERS,
    CONSUMERS,
    LEVELS,
    QUEUES,
    STYLES,
    Column,
    Level,
    Listed,
    Row,
)
from penstock.tui.sparkline import STEP, RecentValues
from penstock.tui.styled import Line, stacked, styled


class FilterEntry(Input):
    """The line to type a filter in, hidden until `open`. Enter and Esc hide it and call `done` with its text, or None.

    Keys that were typed fast arrive together: those after Enter or Esc come to this entry, which posts them to the app.
    """

    def __init__(self, done: Callable[[str | None], None]) -> None:
        super().__init__(
            placeholder="part of a name or of a condition; Enter keeps it, Esc ends it",
            id="filter",
        )
        self._done = done

    def open(self, text: str) -> None:
        self.value = text
        self.display = True
        self.screen.set_focus(self)  # at once: the next key is a letter of it

    async def on_event(self, event: Event) -> None:
        """Handle Enter and Esc here, not by bindings: before a binding is looked up, the next key has come already."""
        if not isinstance(event, Key):
            await super().on_event(event)
        elif not self.display:
            self.app.post_message(Key(event.key, event.character))
        elif event.key in ("enter", "escape"):
            self.display = False
            self._done(self.value if event.key == "enter" else None)
        else:
            await super().on_event(event)


Get = Callable[..., Awaitable[Any]]
"""(path, type of the answer, **parameters) -> an agent's answer. Every failure is a PenstockError."""
MOST_ROWS = 500
EVENTS = 200
"""The most rows of a level, and the most events, that are asked for."""
MOST_DOWN = 3
"""So many brokers that are down are listed one by one above the rows; the others are counted."""
SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")
"""Where one of these is set, a browser has a window of its own; else it would run in the terminal, over the view."""

HELP = files("penstock.tui").joinpath("help.txt").read_text(encoding="utf-8")


class TextPage(ModalScreen[None]):
    """Lines of text to scroll."""

    BINDINGS: ClassVar[list[BindingType]] = screens.bindings("page")

    def __init__(self, title: str, lines: Iterable[str]) -> None:
        super().__init__()
        self._title = title
        self._lines = list(lines)

    def compose(self) -> ComposeResult:
        yield Static(styled(self._title, "bold reverse"), classes="bar")
        with VerticalScroll():
            yield Static(id="lines")
        yield Footer()

    def on_resize(self, event: Resize) -> None:
        lines: list[Line] = []
        for line in self._lines:
            first, *others = folded(line, max(event.size.width - 4, LEAST))
            lines += [coloured(first), *map(styled, others)]
        self.query_one("#lines", Static).update(stacked(lines))


def coloured(line: str) -> Line:
    """Return a line of an explanation with the word for a state in its colour."""
    text = styled(line)
    word = state_word(line)
    if word:
        text.highlight_words([word], STYLES.get(word.lower(), "bold"))
    return text


@dataclass(frozen=True, slots=True)
class Place:
    """Where the view is: a level, the objects that were opened on the way there, a filter and an order."""

    level: Level = BROKERS
    broker: str = ""
    address: str = ""
    queue: str = ""
    client: str = ""
    text: str = ""
    sort: str = WORST

    def query(self) -> dict[str, str | int]:
        """Return the parameters of the API that ask for the rows of this place."""
        names = ("broker", "address", "queue", "client", "text", "sort")
        return {name: getattr(self, name) for name in names} | {"limit": MOST_ROWS}

    def into(self, row: Row) -> "Place":
        """Return the place that opening this row leads to: the next level, within this object."""
        inner = LEVELS[LEVELS.index(self.level) + 1]
        if isinstance(row, BrokerState):
            return Place(inner, row.name)
        return Place(
            inner, row.broker, row.address, row.queue, getattr(row, "client", "")
        )


@dataclass(slots=True)
class Look:
    """The answer for a place.

    Attributes:
        at: When it came, seconds since 1970; 0 before the first one.
        brokers: All brokers.
        rows: The rows of the place.
        total: How many rows there are, also those beyond `MOST_ROWS`.
        place: Where the rows were asked for; None where they were not.
    """

    at: float = 0.0
    brokers: Sequence[BrokerState] = ()
    rows: Sequence[Row] = ()
    total: int = 0
    place: Place | None = None

    def stamps(self) -> dict[str, float]:
        """Return when each broker was polled, by the clock of this machine."""
        return {broker.name: self.at - (broker.age or 0.0) for broker in self.brokers}

    def shows(self, place: Place, brokers: Sequence[BrokerState], now: float) -> bool:
        """Return whether the same rows would come again: the place is the same, and no broker was polled since.

        brokers: as they are at `now`.
        """
        up_before = {broker.name: broker.up for broker in self.brokers}
        up = {broker.name: broker.up for broker in brokers}
        if place != self.place or up != up_before:
            return False
        polled_before = self.stamps()
        polled = Look(now, brokers).stamps()
        differences = [
            abs(stamp - polled_before[name]) for name, stamp in polled.items()
        ]
        return all(difference < STEP for difference in differences)


class Top(App[None]):
    """The app of `penstock top`: asks by `get` every `seconds`.

    It begins at the queues where there is only one broker, or `broker` is given; else at the brokers.
    """

    TITLE = "penstock top"
    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = "top.tcss"
    BINDINGS: ClassVar[list[BindingType]] = screens.bindings("view")

    def __init__(self, get: Get, where: str, seconds: float, broker: str = "") -> None:
        super().__init__(ansi_color=True)
        self._get = get
        self._where = where
        self._seconds = seconds
        self._begins_at = broker
        self._place = Place()
        self._way: list[Place] = []
        self._look = Look()
        self._trail = RecentValues()
        self._error = ""
        self._paused = False
        self._coming = False
        """Whether the rows of a new place are still to come."""
        self._wanted: Callable[[], object] | None = None
        """The action on the row under the cursor for which a key was pressed before the rows came."""

    def compose(self) -> ComposeResult:
        yield Static(id="title", classes="bar")
        yield Static(id="told")
        yield Grid()
        yield FilterEntry(self._end_filter)
        yield Static(id="keys")

    async def on_mount(self) -> None:
        self.theme = "ansi-dark"
        self._grid.focus()
        self._draw()
        self.set_interval(self._seconds, self._again)
        self.action_look()

    @property
    def _grid(self) -> Grid:
        return self.screen_stack[0].query_one(Grid)

    def on_resize(self) -> None:
        self._draw()

    # --- looking

    def _again(self) -> None:
        if not self._paused:
            self._ask(again=True)

    def action_look(self) -> None:
        self._ask()

    @work(exclusive=True, group="look")
    async def _ask(self, *, again: bool = False) -> None:
        """Ask the source for the rows of the place. After a failure the old rows stay, and the error is shown.

        again: Ask for rows only where a broker was polled since: they cost the agent more than the brokers do.
        """
        place = self._place
        try:
            brokers = (await self._get("/api/v1/brokers", BrokerList)).rows
            if not self._look.brokers:
                place = self._begin(brokers)
            now = time.time()
            if again and self._look.shows(place, brokers, now):
                look = replace(self._look, at=now, brokers=brokers)
            else:
                look = await self._seen(place, brokers)
        except PenstockError as error:
            self._error = str(error)
        else:
            self._error = ""
            self._look = look
            self._trail.note(values_by_row(look, place))
        wanted = self._wanted
        self._coming = False
        self._wanted = None
        self._draw()
        if wanted and self._row() is not None:
            wanted()

    def _begin(self, brokers: Sequence[BrokerState]) -> Place:
        """Return the place of the first look: the queues of the only broker, unless the user has gone elsewhere."""
        only = self._begins_at or (brokers[0].name if len(brokers) == 1 else "")
        if only and self._place == Place():
            self._way = [Place()]
            self._place = Place(QUEUES, broker=only)
        return self._place

    async def _seen(self, place: Place, brokers: Sequence[BrokerState]) -> Look:
        """Return the look at a place, for which the agent is asked; for brokers, which are known, it is not."""
        if place.level is BROKERS:
            text = place.text.casefold()
            rows = [broker for broker in brokers if text in broker.name.casefold()]
            return Look(time.time(), brokers, rows, len(rows))
        was_never_read = any(
            broker.name == place.broker and not broker.numbers for broker in brokers
        )
        if was_never_read:
            return Look(time.time(), brokers)
        # For all levels but this one the agent remembers the values of the last hour.
        points = {} if place.level is CONSUMERS else {"points": screens.POINTS}
        name = place.level.name
        page = await self._get(
            f"/api/v1/{name}", LISTS[name], **place.query(), **points
        )
        return Look(time.time(), brokers, page.rows, page.total, place)

    # --- drawing

    def _draw(self) -> None:
        """Show the last look: the title, the lines above the rows, the rows, and the keys."""
        base = self.screen_stack[0]
        base.query_one("#title", Static).update(self._title_line())
        base.query_one("#told", Static).update(self._told_lines())
        place = self._place
        rows = self._look.rows
        level = self._place.level
        keys: list[Hashable] = [level.key(row) for row in rows]

        def cell(column: Column, position: int) -> tuple[str, str]:
            row = rows[position]
            key = (level.name, keys[position])
            context = screens.CellContext(
                row, key, self._trail, self._look.at, column.width
            )
            is_first = column.title == columns[0].title  # it has the color of the state
            style = screens.style_of(row) if is_first else ""
            return column.show(context), style

        # A column with the same name in all rows is left out: the line of the place has that name.
        chosen = {
            "broker": place.broker,
            "queue": place.queue,
            "client": place.client,
        }
        columns = [column for column in level.columns if not chosen.get(column.given)]
        match = f" match {place.text!r}; Esc clears the filter" if place.text else ""
        empty = "" if self._coming else f"No {level.name}{match}."
        self._grid.show(columns, keys, cell, place.sort, empty)
        key_lines = screens.key_lines(self.size.width)
        base.query_one("#keys", Static).update(stacked(map(styled, key_lines)))

    def _title_line(self) -> Line:
        """Return the line with the agent that is asked, when it answered last, and how often it is asked."""
        asked = "not asked yet"
        if self._look.at:
            time_of_look = datetime.fromtimestamp(self._look.at, UTC)
            asked = time_of_look.strftime("%H:%M:%S UTC")
        every = "paused" if self._paused else f"every {self._seconds:g} s"
        line = f"penstock top  {self._where}  {asked}, {every}"
        whole_width = line.ljust(500)  # the bar is coloured to its end
        return styled(
            whole_width,
            "reverse",
            no_wrap=True,
        )

    def _told_lines(self) -> Line:
        """Return the lines above the rows: the place, brokers that are down, and the error of the last look."""
        lines = [self._place_line(), *self._broker_lines()]
        if self._error:
            lines.append(styled(f"!! {self._error}", STYLES["down"]))
        return stacked(lines)

    def _place_line(self) -> Line:
        """Return the path to the place, how many rows are shown, their order and the filter."""
        place = self._place
        look = self._look
        names: list[str] = []
        if place.level is not BROKERS:
            names = [place.broker or "all brokers", place.queue, place.client]
        path = [*filter(None, names), place.level.name]
        parts = [" > ".join(path)]
        count = len(look.rows)
        if count == look.total:
            parts.append(f"{count:,}")
        else:
            parts.append(f"{count:,} of {look.total:,}: filter with /")
        if place.level is not BROKERS:
            turned = "" if place.sort in (WORST, *place.level.sorts) else " reversed"
            parts.append(f"by {place.sort.removeprefix('-')}{turned}")
        if place.text:
            parts.append(f"filter {place.text!r}, Esc ends it")
        return styled("   ".join(parts), "bold", no_wrap=True, overflow="ellipsis")

    def _broker_lines(self) -> Iterable[Line]:
        """Return a line for each chosen broker that is down; for a single chosen broker also when it is up."""
        chosen = [
            broker
            for broker in self._look.brokers
            if self._place.broker in ("", broker.name)
        ]
        down = [broker for broker in chosen if broker.up is False]
        # Several have one line each, cut at the width of the screen, so that all names are seen.
        width = self.size.width if len(down) > 1 else None
        for broker in down[:MOST_DOWN]:
            line = f"!! {broker.name} DOWN{old(broker)}: {broker.error}"
            yield styled(line[:width], STYLES["down"])
        if len(down) > MOST_DOWN:
            yield styled(
                f"!! and {len(down) - MOST_DOWN} more brokers DOWN", STYLES["down"]
            )
        if self._place.broker and not down:
            for broker in chosen:
                style = screens.style_of(broker)
                yield styled(about(broker), style, overflow="ellipsis", no_wrap=True)

    # --- keys

    def _go(self, place: Place, *, way: list[Place] | None = None) -> None:
        """Go to another place: the rows of the old one disappear at once, and the new ones are asked for.

        way: the places to which `up` goes back from there, the last first to come; None: as now.
        """
        self._way = self._way if way is None else way
        self._place = place
        self._look = Look(self._look.at, self._look.brokers)
        self._grid.cursor = 0
        self._coming = True
        self._wanted = None
        self._draw()
        self._ask()

    def _row(self) -> Row | None:
        """Return the row under the cursor; None where there are no rows."""
        rows = self._look.rows
        return rows[self._grid.cursor] if self._grid.cursor < len(rows) else None

    def action_open(self) -> None:
        """Go into the row under the cursor, or explain it on the last level; once the rows have come."""
        row = self._row()
        if row is None:
            self._wanted = self.action_open if self._coming else None
            return
        if self._place.level is LEVELS[-1]:
            self.action_explain()
        else:
            self._go(self._place.into(row), way=[*self._way, self._place])

    def action_up(self) -> None:
        """End the filter, or else go back to the place before."""
        if self._place.text:
            self._go(replace(self._place, text=""))
        elif self._way:
            self._go(self._way[-1], way=self._way[:-1])

    def action_level(self, number: int) -> None:
        """Go to all objects of a level, on the broker that is chosen or the only one."""
        level = LEVELS[number]
        if level is BROKERS:
            self._go(Place(), way=[])
        else:
            only = self._look.brokers[0].name if len(self._look.brokers) == 1 else ""
            self._go(Place(level, broker=self._place.broker or only), way=[Place()])

    def action_sort(self, step: int) -> None:
        """Change the order to that of another column. step: 1 for the next one, -1 for the one before."""
        sorts = self._place.level.sorts
        if sorts:
            orders = [sort.removeprefix("-") for sort in sorts]
            order = self._place.sort.removeprefix("-")
            position = 0
            if order in orders:
                position = orders.index(order)
            next_position = (position + step) % len(sorts)
            sort = sorts[next_position]
            self._go(replace(self._place, sort=sort))

    def on_grid_headed(self, event: Grid.Headed) -> None:
        """Sort by the column whose heading was clicked; turn the order where it is that of the column already."""
        if event.column.sort == self._place.sort:
            self.action_turn()
        elif event.column.sort:
            self._go(replace(self._place, sort=event.column.sort))

    def action_turn(self) -> None:
        """Reverse the order; a `-` before its name says that it is reversed."""
        if self._place.level.sorts:
            sort = self._place.sort
            turned = f"-{sort}"
            if sort.startswith("-"):
                turned = sort.removeprefix("-")
            self._go(replace(self._place, sort=turned))

    def action_pause(self) -> None:
        self._paused = not self._paused
        self._draw()

    def action_filter(self) -> None:
        self.query_one(FilterEntry).open(self._place.text)

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.display:
            self._filter_by(event.value)

    def _filter_by(self, text: str) -> None:
        if text != self._place.text:
            self._go(replace(self._place, text=text))

    def _end_filter(self, text: str | None) -> None:
        """Return to the rows, with this filter. text: None or empty for no filter."""
        self.screen.set_focus(self._grid)
        self._filter_by(text or "")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - textual's
        """Return whether a key may do its action: while a filter is typed, only two, as the keys are its letters."""
        return not isinstance(self.focused, Input) or action in ("quit", "focus_next")

    # --- pages over it

    def action_explain(self) -> None:
        """Show a page about the row under the cursor; once the rows have come."""
        row = self._row()
        if row is None:
            self._wanted = self.action_explain if self._coming else None
        elif isinstance(row, BrokerState):
            self.push_screen(TextPage(f"{row.name}   q: back", broker_lines(row)))
        else:
            self._page(
                f"{row.broker} / {row.queue}",
                explanation,
                "explain",
                Explanation,
                **names_of(row),
            )

    def action_copy(self) -> None:
        """Copy the name of the row under the cursor to the clipboard of the terminal."""
        row = self._row()
        if not row:
            return
        if isinstance(row, BrokerState):
            self._copy(row.name)
        else:
            field = self._place.level.name.removesuffix(
                "s"
            )  # the name of the level in the singular
            self._copy(getattr(row, field))

    def action_browse(self) -> None:
        """Open the web page of the row under the cursor; its address is copied, too, if no browser can be opened."""
        row = self._row()
        if row is None or not self._where.startswith("http"):
            self.notify(
                "No agent is asked that would have a page of it.", severity="warning"
            )
            return
        names = {"broker": row.name} if isinstance(row, BrokerState) else names_of(row)
        kind = next(name for name in ("client", "queue", "broker") if names.get(name))
        url = f"{self._where.rstrip('/')}/{kind}?{urlencode(names)}"
        if any(name in os.environ for name in SCREENS):
            self.open_url(url)
        self._copy(url)

    def _copy(self, text: str) -> None:
        self.copy_to_clipboard(text)
        self.notify(visible(f"Copied: {text}"), markup=False)

    def action_events(self) -> None:
        """Show what changed at this place, the newest first."""
        self._page(
            "events, the newest first",
            event_lines,
            "events",
            EventList,
            broker=self._place.broker,
            queue=self._place.queue,
            limit=EVENTS,
        )

    def action_incidents(self) -> None:
        """Show the incidents, the worst first."""
        broker = self._place.broker
        self._page(
            "incidents, the worst first",
            incidents_shown,
            "incidents",
            IncidentList,
            broker=broker,
        )

    @work(exclusive=True, group="page")
    async def _page(
        self,
        title: str,
        lines: Callable[[Any], Iterable[str]],
        path: str,
        kind: type,
        **query: str | int,
    ) -> None:
        """Ask for an answer, and show a page with its lines; an error is shown as a note.

        Args:
            title: Of the page.
            lines: Makes the lines of the answer.
            path: The last part of the API's path.
            kind: The type of the answer.
            query: The parameters of the request.
        """
        try:
            answer = await self._get(f"/api/v1/{path}", kind, **query)
        except PenstockError as error:
            self.notify(visible(str(error)), severity="error", markup=False)
        else:
            self.push_screen(TextPage(f"{title}   q: back", lines(answer)))

    def action_help(self) -> None:
        self.push_screen(TextPage("help   q: back", HELP.splitlines()))

    def action_scroll_page(self, lines: int) -> None:
        self.screen.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)


def values_by_row(
    look: Look, place: Place
) -> dict[Hashable, tuple[float, Mapping[str, object]]]:
    """Return by key of each row when its broker was polled, and the values that sparklines and rates need."""
    level = place.level
    stamps = look.stamps()
    values: dict[Hashable, tuple[float, Mapping[str, object]]] = {}
    for row in look.rows:
        numbers = level.numbers(row)
        broker = row.name if isinstance(row, BrokerState) else row.broker
        if numbers:
            stamp = stamps.get(broker, look.at)
            values[level.name, level.key(row)] = (stamp, numbers)
    return values


def names_of(row: Listed) -> dict[str, str]:
    """Return the names that identify the row; empty for those that its level does not have."""
    return {
        name: getattr(row, name, "")
        for name in ("broker", "address", "queue", "client")
    }


def about(broker: BrokerState) -> str:
    """Return one line about a broker that is up, or was not asked yet."""
    if broker.up is None:
        return f"{broker.name}: not asked yet"
    counts = [
        f"{broker.numbers[name]} {name}"
        for name in ("critical", "warning")
        if broker.numbers.get(name)
    ]
    worst = ", ".join(counts) or "no warning"
    version = f"{broker.kind} {broker.version} {broker.role}"
    return f"{broker.name} up: {version}{old(broker)}; {worst}"


def old(broker: BrokerState) -> str:
    """Return in words how old the data of a broker are; empty where that is not known."""
    return "" if broker.age is None else f", data {screens.brief(broker.age)} old"


def broker_lines(broker: BrokerState) -> Iterable[str]:
    """Return the lines about a broker: its state, its notes and its findings."""
    yield f"{broker.name} DOWN: {broker.error}" if broker.up is False else about(broker)
    yield ""
    yield from broker.notes
    for finding in broker.findings:
        yield f"finding {finding.rule} ({finding.scope} {finding.object}): {finding.says}"
        yield f"  advice    {finding.advice}"


def event_lines(answer: EventList) -> Iterable[str]:
    lines = [event_line(event) for event in reversed(answer.events)]
    return lines or ["Nothing has changed since the agent began."]


def incidents_shown(answer: IncidentList) -> Iterable[str]:
    lines = [*incident_lines(answer.rows, time.time())]
    return lines or ["No incident."]
