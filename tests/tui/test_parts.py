"""The parts of the view: columns that fit, numbers in short, sparklines, rates."""

import math
import subprocess
import sys
from typing import Any

import pytest

from penstock.insight.answers import (
    CONDITION_NAMES,
    ConditionSummary,
    Queue,
    TimeSeries,
)
from penstock.tui import screens
from penstock.tui.grid import sized
from penstock.tui.lines import coloured, folded
from penstock.tui.screens import (
    GAP,
    LEVELS,
    QUEUES,
    CellContext,
    Column,
    Level,
    brief,
    fitted,
    short,
)
from penstock.tui.sparkline import MOST, RecentValues, sparkline


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
@pytest.mark.parametrize("width", [10, 40, 79, 120, 199, 400])
def test_columns_fit_and_those_needed_most_stay(level: Level, width: int) -> None:
    shown = fitted(level.columns, width)
    assert (
        sum(column.width for column in shown) + GAP * (len(shown) - 1) <= width
        or len(shown) == 1
    )
    assert shown[0].title == "State"
    if width == 400:
        assert len(shown) == len(level.columns)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.5, "0.5"), (9999, "9999"), (10_000, "10.0k"), (123_456, "123.5k"), (2.5e6, "2.5M"),
     (3e9, "3.0G"), (1e15, "1000T")],
)  # fmt: skip
def test_numbers_in_short(value: float, text: str) -> None:
    assert short(value) == text
    assert len(text) <= 6


def test_what_is_not_judged_is_no_notice() -> None:
    unknown = ConditionSummary("unknown", "info", silenced=False, client="", since=0.0)
    row = Queue(
        "b",
        "a",
        "q",
        state="unknown",
        kind="internal",
        owner="",
        team="",
        conditions=[unknown],
    )
    assert screens.state(CellContext(row, "q", RecentValues(), 0.0, 19)) == "?  unknown"


def test_what_is_not_known_is_empty() -> None:
    row = Queue(
        "b",
        "a",
        "q",
        state="healthy",
        kind="user",
        owner="",
        team="",
        ready=None,
        rate_in=None,
        conditions=[],
    )
    seen = CellContext(row, "q", RecentValues(), 0.0, 9)
    shown = {column.title: column.show(seen) for column in QUEUES.columns}
    assert {title for title, text in shown.items() if text} == {
        "State",
        "Queue",
        "Broker",
    }


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(4.4, "4 s"), (119, "119 s"), (300, "5 min"), (7260, "2 h 1 min")],
)
def test_spans_in_short(seconds: float, text: str) -> None:
    assert brief(seconds) == text


def test_a_sparkline_begins_at_zero_and_leaves_the_unknown_blank() -> None:
    assert sparkline([0, 50, 100]) == "▁▅█"
    assert sparkline([math.nan, 80]) == " █"
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([0, 1]) == "▁▂"
    assert sparkline([]) == ""


def test_rates_are_of_two_polls_and_not_of_two_looks() -> None:
    trail = RecentValues()
    for stamp, count in ((100.0, 10), (100.1, 10), (110.0, 40)):
        trail.note({"q": (stamp, {"acknowledged": count})})
    assert trail.rate("q", "acknowledged") == 3.0
    trail.note({"q": (120.0, {"acknowledged": 2})})
    assert trail.rate("q", "acknowledged") is None  # it began anew
    assert trail.rate("other", "acknowledged") is None


def test_what_is_not_seen_any_more_is_forgotten() -> None:
    trail = RecentValues()
    trail.note({"old": (1.0, {"n": 1})})
    for look in range(MOST + 1):
        trail.note({"new": (10.0 * look, {"n": look})})
    assert trail.values("old", "n") == []
    assert trail.values("new", "n") == [float(n) for n in range(1, MOST + 1)]


@pytest.mark.parametrize("text", ["", "short", "x" * 50, "日本語日本語", "a\tb\x1b[0m"])
@pytest.mark.parametrize("right", [False, True])
def test_a_cell_is_as_wide_as_its_column(text: str, right: bool) -> None:
    from rich.cells import cell_len  # noqa: PLC0415 - of the extra

    cell = sized(text, Column("T", lambda _: "", 9, right=right))
    assert cell_len(cell) == 9
    assert cell.isprintable()


def test_lines_are_folded_under_their_text() -> None:
    assert list(folded("  advice    one two three four", 24)) == [
        "  advice    one two",
        "            three four",
    ]
    assert list(folded("            - a cause that is long", 30)) == [
        "            - a cause that is",
        "              long",
    ]
    assert list(folded("", 20)) == [""]
    assert all(len(part) <= 40 for part in folded("x" * 200, 40))


def test_a_state_is_coloured_and_still_a_word() -> None:
    assert coloured("CRITICAL  stalled") == "\x1b[31m\x1b[1mCRITICAL\x1b[0m  stalled"
    assert coloured("a broken ok") == "a broken \x1b[32mok\x1b[0m"
    assert coloured("  rule      x") == "  rule      x"


@pytest.mark.slow  # takes a second
def test_the_agent_does_not_load_it() -> None:
    code = "import sys, penstock.cli.run, penstock.agent, penstock.server; print('textual' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


def queue_with(*conditions: ConditionSummary, **given: Any) -> CellContext[Any]:
    """Its state: the worst that is not silenced; a notice of what is; healthy without a condition."""
    recent = TimeSeries(15, 0.0, ready=[8, 8, None, 8], delivering=[0, 0, 0, 8])
    severities = ["info" if one.silenced else one.severity for one in conditions]
    worst = next(
        (one for one in ("critical", "warning", "info") if one in severities), "healthy"
    )
    given = {"state": {"info": "notice"}.get(worst, worst), **given}
    row = Queue(
        "b1",
        "q",
        "q",
        kind="user",
        owner="",
        team="",
        conditions=[*conditions],
        recent=recent,
        **given,
    )
    return CellContext(row, "q", RecentValues(), 100.0, 19)


def condition(
    name: str, severity: str = "warning", client: str = "", *, silenced: bool = False
) -> ConditionSummary:
    return ConditionSummary(name, severity, silenced, client, 0.0)


STALLED = condition("stalled", "critical", "c")
LOSING = condition("ring_losing")


@pytest.mark.parametrize(
    ("conditions", "text"),
    [
        ([STALLED, LOSING], "!! stalled +lost"),
        ([STALLED, LOSING, condition("paused")], "!! stalled +lost +1"),
        ([LOSING, condition("no_consumer")], "!  ring_losing +1"),
        ([condition("open_transaction", "critical"), LOSING], "!! open_trans +lost"),
        ([STALLED, condition("stalled", client="d")], "!! stalled"),
        ([condition("slowed"), condition("paused")], "!  slowed, paused"),
        ([STALLED, condition("ring_losing", silenced=True)], "!! stalled"),
        ([condition("stalled", silenced=True)], "i  silenced"),
        ([], "   healthy"),
    ],
)
def test_losses_are_not_hidden_behind_a_number(
    conditions: list[ConditionSummary], text: str
) -> None:
    assert screens.state(queue_with(*conditions)) == text


def test_conditions_of_losses_are_those_of_the_catalogue() -> None:
    assert set(CONDITION_NAMES) >= screens.LOSSES


def test_what_a_broker_that_is_down_said_last_is_marked() -> None:
    seen = queue_with(STALLED, LOSING, stale=50.0, state="stale")
    assert screens.state(seen) == "?  stalled +lost"
    assert screens.style_of(seen.row) == "dim"
    assert screens.state(queue_with(stale=50.0, state="stale")) == "?  stale"


def test_the_history_is_that_of_what_the_condition_is_about() -> None:
    show = screens.time_series("ready", "delivering")
    assert show(queue_with(LOSING)) == "██ █"
    assert show(queue_with()) == "██ █"
    assert show(queue_with(STALLED)) == "▁▁▁█"
