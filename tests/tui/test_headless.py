"""`penstock top` without a terminal: what it shows of made-up brokers, and what each key does."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Input

from agent.test_restart import busy, work
from agent.world import World
from penstock.insight.answers import ListPage
from penstock.insight.events import Change, Event
from penstock.settings.policy import Policy
from penstock.tui.app import Top
from penstock.tui.grid import Grid
from penstock.tui.screens import bindings
from tui.views import NARROW, WIDE, Made, grid, page, press, settled, told, top

pytestmark = pytest.mark.slow  # draws a terminal after each key


@pytest.fixture(scope="module")
def world() -> World:
    world = busy()
    work(world, 20)
    return world


@pytest.fixture
def source(world: World) -> Made:
    return Made([world])


@asynccontextmanager
async def shown(
    source: Made, size: tuple[int, int] = NARROW, **options: str
) -> AsyncIterator[Pilot[None]]:
    async with top(source, **options).run_test(size=size) as pilot:
        await settled(pilot)
        yield pilot


def names(lines: list[str]) -> list[str]:
    """The second column of each row."""
    return [re.split(r"\s{2,}", line[2:].strip())[1] for line in lines[1:]]


async def test_the_only_broker_is_opened_at_once_with_the_worst_first(
    source: Made,
) -> None:
    async with shown(source) as pilot:
        lines = grid(pilot)
        assert lines[0].split()[:2] == ["State*", "Queue"]
        marks = [line[:2] for line in lines[1:]]
        assert marks == sorted(marks, key=["!!", "! ", "i ", "  "].index)
        assert "!!" in marks
        assert set(names(lines)) == {"orders", "ring", "forgotten", "behind"}
        assert "b1 up: artemis 2.44.0 active, data 3 s old; " in told(pilot)
        assert "b1 > queues   4   by worst" in told(pilot)


async def test_down_to_the_consumer_and_back(source: Made) -> None:
    async with shown(source) as pilot:
        queues = grid(pilot)
        at = names(queues).index("orders")
        clients = await press(pilot, *["down"] * at, "enter")
        assert clients[0].split()[:2] == ["State*", "Client"]
        assert "b1 > orders > clients   3 " in told(pilot)
        assert re.match(r"!  stalled\s+stuck\s+1\s+100\s", clients[1])
        consumers = await press(pilot, "enter")
        assert "b1 > orders > stuck > consumers   1 " in told(pilot)
        assert re.match(r"!  stalled\s+10\s+100\s", consumers[1])
        assert await press(pilot, "escape") == clients
        assert await press(pilot, "left") == queues
        brokers = await press(pilot, "escape")
        assert "brokers   1" in told(pilot)
        assert re.match(r"!! \d critical\s+b1\s+artemis", brokers[1])
        assert await press(pilot, "right") == queues


async def test_explained_in_words(source: Made) -> None:
    async with shown(source) as pilot:
        await press(pilot, "slash", *"stuck", "enter", "3", "e")
        text = page(pilot)
        assert "WARNING  stalled on client stuck" in text
        assert "Take two thread dumps of stuck" in text
        widest = max(len(line) for line in text.splitlines())
        assert widest <= NARROW[0] - 4
        await pilot.press("q")
        await settled(pilot)
        assert len(pilot.app.screen_stack) == 1


async def test_a_filter_by_part_of_a_name(source: Made) -> None:
    async with shown(source) as pilot:
        everything = grid(pilot)
        lines = await press(pilot, "slash", *"Ri")
        assert names(lines) == ["ring"]
        assert isinstance(pilot.app.focused, Input)
        assert names(await press(pilot, "enter")) == ["ring"]
        assert "filter 'Ri'" in told(pilot)
        assert await press(pilot, "escape") == everything
        await press(pilot, "slash", "slash", "backspace", "escape")
        assert isinstance(pilot.app.focused, Grid)
        assert grid(pilot) == everything
        lines = await press(pilot, "slash", *"no such name")
        assert lines[1:] == ["No queues match 'no such name'; Esc clears the filter."]
        assert "b1 > queues   0 " in told(pilot)
        assert await press(pilot, "escape") == everything


async def test_what_is_typed_at_once_after_the_slash_is_the_filter(
    source: Made,
) -> None:
    async with shown(source) as pilot:
        for key in ("/", "r", "i"):
            pilot.app.post_message(Key(key if key != "/" else "slash", key))
        await settled(pilot)
        await settled(pilot)
        assert "filter 'ri'" in told(pilot)
        assert "by worst" in told(pilot)


@pytest.mark.parametrize(
    ("keys", "comes"),
    [
        (["enter", "enter"], "> ring > clients "),
        (["escape", "3"], "b1 > clients "),
        (["enter", "escape", "s"], "> queues   4   by queue"),
        (["enter", "slash", "f", "o"], "filter 'fo'"),
    ],
    ids=str,
)
async def test_no_key_is_lost_that_comes_at_once_after_the_end_of_a_filter(
    source: Made, keys: list[str], comes: str
) -> None:
    async with shown(source) as pilot:
        await press(pilot, "slash")
        for key in ("r", "i", *keys):
            character = key if len(key) == 1 else "/" if key == "slash" else None
            pilot.app.post_message(Key(key, character))
        async with asyncio.timeout(30):
            while comes not in told(pilot):
                await pilot.pause(0.01)


@pytest.mark.parametrize(
    ("key", "comes"), [("enter", "> ring > clients "), ("e", "ring")]
)
async def test_a_key_pressed_before_the_rows_have_come_waits_for_them(
    source: Made, monkeypatch: pytest.MonkeyPatch, key: str, comes: str
) -> None:
    async with shown(source) as pilot:
        await press(pilot, "slash", *"ri", "enter")
        gate = asyncio.Event()
        rows = source.rows

        async def slow(*asked: Any) -> ListPage:
            await gate.wait()
            return await rows(*asked)

        monkeypatch.setattr(source, "rows", slow)
        await pilot.press("escape", "slash", *"ri", "enter", key)
        gate.set()

        def seen() -> str:
            if key == "enter":
                return told(pilot)
            return page(pilot) if len(pilot.app.screen_stack) > 1 else ""

        async with asyncio.timeout(30):
            while comes not in seen():
                await pilot.pause(0.01)


async def test_in_another_order_and_the_other_way_round(source: Made) -> None:
    async with shown(source) as pilot:
        lines = await press(pilot, "s")
        assert "Queue*" in lines[0]
        assert names(lines) == ["behind", "forgotten", "orders", "ring"]
        lines = await press(pilot, "r")
        assert "Queue-" in lines[0]
        assert "by queue reversed" in told(pilot)
        assert names(lines) == ["ring", "orders", "forgotten", "behind"]
        lines = await press(pilot, "s")
        messages = [int(re.split(r"\s{2,}", line[2:].strip())[2]) for line in lines[1:]]
        assert messages == sorted(messages, reverse=True)
        assert "by worst" in (await press(pilot, "S", "S"), told(pilot))[1]


async def test_a_heading_can_be_clicked(source: Made) -> None:
    async with shown(source) as pilot:
        at = grid(pilot)[0].index("Queue")
        await pilot.click(Grid, offset=(at, 0))
        await settled(pilot)
        assert names(grid(pilot)) == ["behind", "forgotten", "orders", "ring"]
        await pilot.click(
            Grid, offset=(at, 3)
        )  # the third row: once for the cursor, once to open it
        await pilot.click(Grid, offset=(at, 3))
        await settled(pilot)
        assert "b1 > orders > clients" in told(pilot)


async def test_the_cursor_stays_on_its_row_while_others_come(world: World) -> None:
    source = Made([busy()])
    (mine,) = source.worlds
    work(mine, 20)
    async with shown(source) as pilot:
        view = pilot.app.query_one(Grid)
        await press(pilot, "s", "down", "down")
        assert view.keys[view.cursor] == ("b1", "orders", "orders")
        mine.queue(77, "aaa", messages=1, added=1)
        mine.poll()
        lines = await press(pilot, "space")
        assert names(lines)[:2] == ["aaa", "behind"]
        assert view.keys[view.cursor] == ("b1", "orders", "orders")


@pytest.mark.parametrize("level", ["1", "2", "3", "4"])
async def test_no_line_is_wider_than_the_terminal_and_more_room_shows_more(
    source: Made, level: str
) -> None:
    async with shown(source) as pilot:
        await press(pilot, level)
        narrow = grid(pilot)
        assert max(map(len, narrow)) <= NARROW[0]
        await pilot.resize_terminal(*WIDE)
        await settled(pilot)
        wide = grid(pilot)
        assert NARROW[0] < max(map(len, wide)) <= WIDE[0]
        assert set(narrow[0].split()) < set(wide[0].split())
        await pilot.resize_terminal(20, 8)
        await settled(pilot)
        assert max(map(len, grid(pilot))) <= 20


async def test_ten_thousand_queues_make_no_more_lines_than_the_screen_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    for i in range(10_000):
        world.queue(i, f"queue.{i:05}", messages=i, added=i)
    world.poll()
    drawn: list[int] = []
    line = Grid.render_line

    def counted(self: Grid, y: int) -> object:
        drawn.append(y)
        return line(self, y)

    async with shown(Made([world])) as pilot:
        assert "500 of 10,000: filter with /" in told(pilot)
        monkeypatch.setattr(Grid, "render_line", counted)
        await pilot.press("end")
        await settled(pilot)
        height = pilot.app.query_one(Grid).size.height
        assert 0 < len(drawn) <= 4 * height
        assert names(grid(pilot))[-1] == "queue.09500"
        assert names(await press(pilot, "slash", *"00042")) == ["queue.00042"]


async def test_a_broker_that_is_down_is_said_to_be(source: Made) -> None:
    async with shown(source) as pilot:
        source.down["b1"] = "nobody answers"
        lines = await press(pilot, "space")
        assert "!! b1 DOWN, data 3 s old: nobody answers" in told(pilot)
        assert not [line for line in lines if line.strip().startswith("healthy")]
        assert re.match(r"!! DOWN\s+b1", (await press(pilot, "1"))[1])


async def test_of_several_brokers_that_are_down_each_has_a_line(world: World) -> None:
    other = World(Policy("b2"))
    other.poll()
    async with shown(
        Made([world, other], down=dict.fromkeys(("b1", "b2"), "no route " * 40))
    ) as pilot:
        lines = [line for line in told(pilot).splitlines() if " DOWN" in line]
        assert [line[:6] for line in lines] == ["!! b1 ", "!! b2 "]
        assert max(map(len, lines)) <= pilot.app.size.width


async def test_several_brokers(world: World) -> None:
    other = World(Policy("b2"))
    other.queue(1, "elsewhere", messages=1, added=1)
    other.poll()
    source = Made([world, other], down={"b2": "no route"})
    async with shown(source) as pilot:
        assert "brokers   2" in told(pilot)
        assert [line.split()[1] for line in grid(pilot)[1:]][1] == "DOWN"
        assert "!! b2 DOWN, data 3 s old: no route" in told(pilot)
        lines = await press(pilot, "2")
        assert "all brokers > queues   5" in told(pilot)
        assert "Broker" in lines[0]
        assert "elsewhere" in names(lines)
    async with shown(source, broker="b2") as pilot:
        assert names(grid(pilot)) == ["elsewhere"]


async def test_an_agent_that_goes_away_leaves_what_was_seen(source: Made) -> None:
    async with shown(source) as pilot:
        lines = grid(pilot)
        source.error = "no agent answers at http://x"
        assert await press(pilot, "space") == lines
        assert "!! no agent answers at http://x" in told(pilot)
        source.error = ""
        await press(pilot, "space")
        assert "no agent" not in told(pilot)


async def test_rows_are_asked_for_again_when_a_broker_was_polled(
    source: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shown(source) as pilot:
        before = len(source.asked)
        monkeypatch.setattr("penstock.tui.app.STEP", 60.0)
        for _ in range(3):
            pilot.app._again()  # type: ignore[attr-defined]
            await settled(pilot)
        assert len(source.asked) == before
        source.age = 100.0  # another poll than the one that was shown
        pilot.app._again()  # type: ignore[attr-defined]
        await settled(pilot)
        assert len(source.asked) == before + 1
        assert "data 100 s old" in told(pilot)


async def test_names_cannot_paint_the_screen() -> None:
    world = World()
    world.queue(1, "\x1b[2J[bold]evil\r\n[/]", messages=1, added=1)
    world.queue(2, "日本語" * 30, messages=1, added=1)
    world.poll()
    async with shown(Made([world])) as pilot:
        lines = grid(pilot)
        assert r"\u001b[2J[bold]" in "\n".join(lines)
        assert not any("\x1b" in line for line in lines)
        assert "…" in lines[2]


async def test_pause_help_events_and_the_end(source: Made) -> None:
    source.changes = [Event(0.0, Change.BROKER_UP, "b1", detail="x")]
    async with shown(source) as pilot:
        await press(pilot, "p")
        assert "paused" in told(pilot)
        await press(pilot, "question_mark")
        assert "in delivery: a consumer has them" in page(pilot)
        await press(pilot, "escape", "v")
        assert "1970-01-01 00:00:00  broker up  b1  x" in page(pilot)
        await press(pilot, "escape", "q")
        assert not pilot.app.is_running


async def test_a_page_hides_what_is_under_it(source: Made) -> None:
    async with shown(source) as pilot:
        await press(pilot, "question_mark")
        screen = pilot.app.screen
        assert screen.styles.background.a == 1
        assert screen.query_one(VerticalScroll).styles.padding.width == 2


@pytest.mark.parametrize("key", ["ctrl+c", "q"])
async def test_it_ends_at_once_also_while_a_filter_is_typed_or_a_page_is_shown(
    source: Made, key: str
) -> None:
    for before in ([], ["question_mark"], ["slash", "a"]) if key == "ctrl+c" else ([],):
        app = top(source)
        async with app.run_test(size=NARROW) as pilot:
            await settled(pilot)
            await press(pilot, *before)
            await pilot.press(key)
            await pilot.pause()
            assert not app.is_running


@pytest.mark.parametrize("size", [NARROW, WIDE])
async def test_all_keys_are_named_below(source: Made, size: tuple[int, int]) -> None:
    async with shown(source, size=size) as pilot:
        lines = str(pilot.app.query_one("#keys").render()).splitlines()
        assert max(map(len, lines)) <= size[0]
        assert len(lines) <= 3
        for one in bindings("view"):
            assert isinstance(one, Binding)
            assert (
                not one.show
                or f"{one.key_display or one.key} {one.description}" in "  ".join(lines)
            )
        assert "1-4 levels" in "  ".join(lines)


async def test_a_name_and_the_address_of_its_page_are_copied(
    source: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    copied: list[str] = []
    opened: list[str] = []
    monkeypatch.setattr(Top, "copy_to_clipboard", lambda _, text: copied.append(text))
    monkeypatch.setattr(Top, "open_url", lambda _, url: opened.append(url))
    app = Top(source.get, "http://agent.example/penstock/", 3600)
    async with app.run_test(size=NARROW) as pilot:
        await settled(pilot)
        first = names(grid(pilot))[0]
        await press(pilot, "c", "o", "1", "c", "o")
        page = f"http://agent.example/penstock/queue?broker=b1&address={first}&queue={first}&client="
        assert copied == [
            first,
            page,
            "b1",
            "http://agent.example/penstock/broker?broker=b1",
        ]
        assert opened == []
        monkeypatch.setenv("DISPLAY", ":0")
        await press(pilot, "o")
        assert opened == copied[-1:]
        await press(pilot, "3", "c", "o", "4", "c")
        assert copied[-3] == "stuck"
        assert copied[-2].startswith("http://agent.example/penstock/client?broker=b1&")
        assert copied[-1].isdigit(), "the broker's id of a consumer"


async def test_without_an_agent_there_is_no_page(
    source: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[str] = []
    monkeypatch.setattr(Top, "copy_to_clipboard", lambda _, text: copied.append(text))
    async with shown(source) as pilot:
        await press(pilot, "o")
        assert copied == []
