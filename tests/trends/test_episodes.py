"""From the rows of conditions to episodes."""

from datetime import UTC, datetime
from typing import Any

from penstock.trends.episodes import episodes


def told(event: str, at: float, since: float = 100.0, severity: str = "warning") -> dict[str, Any]:
    names = {"broker": "b", "address": "a", "queue": "q", "client": "c", "condition": "stalled"}
    times = {"stamp": datetime.fromtimestamp(at, UTC), "since": datetime.fromtimestamp(since, UTC)}
    return {**names, **times, "event": event, "severity": severity}


def spans(*rows: dict[str, Any], until: float = 10_000.0) -> list[tuple[float, float, bool]]:
    return [(one.begin, one.end, one.open) for one in episodes(rows, until)]


def test_from_its_begin_to_its_end() -> None:
    assert spans(told("enter", 160), told("hold", 200), told("leave", 400)) == [(100, 400, False)]


def test_rows_out_of_order_and_twice_are_the_same() -> None:
    rows = [told("leave", 400), told("enter", 160), told("enter", 160), told("leave", 400)]
    assert spans(*rows) == [(100, 400, False)]


def test_what_still_stands_is_open() -> None:
    assert spans(told("enter", 160), told("hold", 3600)) == [(100, 10_000, True)]


def test_one_whose_end_was_never_written_ends_where_it_was_last_seen() -> None:
    rows = [told("enter", 160), told("hold", 3600), told("enter", 8000, since=7900), told("leave", 8100)]
    assert spans(*rows) == [(100, 3600, False), (7900, 8100, False)]


def test_it_is_as_severe_as_at_its_worst() -> None:
    rows = [told("enter", 160), told("severity", 200, severity="critical"), told("severity", 300), told("leave", 400)]
    assert [one.severity for one in episodes(rows, 1000)] == ["critical"]
