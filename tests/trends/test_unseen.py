"""What was not seen is unknown: no rate, no idle hour, no quiet hour, no day."""

from typing import Any

import numpy as np
import pytest

from penstock.trends.analysis import complete, idle_hours, whole_days
from penstock.trends.kernel import DAY, HOUR
from penstock.trends.report import view

RATE = 3600.0


def hours(*seen: int) -> dict[str, Any]:
    """Hourly rows of a queue to which one message a second is added; its hours that were seen, of sixty polls."""
    start = np.array(seen) * HOUR
    size = len(start)
    return {
        "sid": np.ones(size, np.int64), "inc": np.ones(size, np.int64), "start": start, "n": np.full(size, 60),
        "expected": np.full(size, 60.0), "lo_added": start * 1.0, "hi_added": start + RATE - 60,
    }  # fmt: skip


def test_the_first_hour_after_a_gap_does_not_get_the_traffic_of_the_gap() -> None:
    came = complete(hours(0, 1, 2, 6, 7), "added")
    assert np.isnan(came[3:7]).all(), "the gap, and the hour after it"
    assert came[[1, 2, 7]] == pytest.approx(RATE)


def test_hours_that_were_not_seen_are_not_idle() -> None:
    unseen, none = np.full(40, np.nan), np.zeros(3)
    assert idle_hours(np.concatenate([[5.0], unseen]), np.concatenate([[5.0], unseen])) == 0
    assert idle_hours(np.concatenate([[5.0], unseen, none]), np.concatenate([[5.0], unseen, none])) == 3
    assert idle_hours(np.zeros(30), np.zeros(30)) == 30


def test_a_day_that_was_not_seen_whole_has_no_total() -> None:
    hourly = np.full(3 * 24 + 5, 10.0)
    hourly[5 + 24 : 5 + 24 + 3] = np.nan
    hourly[5 + 48] = np.nan
    total = whole_days(hourly, DAY - 5 * HOUR)
    assert total[[0, 2]] == pytest.approx(240)
    assert np.isnan(total[1])


def test_the_quietest_hour_is_one_that_was_seen() -> None:
    profile: list[float | None] = [None] * 100 + [50.0 + hour for hour in range(68)]
    queue = {"added": 5.0, "profile": profile, "traffic": {"clear": False}, "week": {"clear": False}, "changes": [],
             "messages": {"peak": 0}, "ring": None, "idle_hours": 0, "forecasts": {"added": None}, "daily": [],
             "last": 0,
             "broker": "b", "address": "q", "queue": "q"}  # fmt: skip
    facts: dict[str, Any] = {"queues": [queue], "brokers": [], "episodes": [], "window": {}, "fates": []}
    partly = queue | {"queue": "other", "profile": [50.0] + [None] * 67 + [100.0] * 100}
    facts["queues"].append(partly)
    assert view(facts)["quiet_hour"] == "Friday 04:00 UTC", "the hour that only one of them had is none"
    facts["queues"].pop()
    shown = view(facts)
    assert shown["quiet_hour"] == "Friday 04:00 UTC"
    assert view(facts | {"queues": []})["quiet_hour"] == "unknown"
    assert shown["heat"].count("<rect") == 68
