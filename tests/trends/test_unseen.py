"""What was not seen is unknown: no rate, no idle hour, no quiet hour, no day."""

from typing import Any

import numpy as np
import pytest

from penstock.history.compact import DAY
from penstock_trends.analysis import (
    blind_hours,
    broker_facts,
    cleaned,
    complete,
    coverage,
    idle_hours,
    queue_details,
    queue_facts,
    whole_days,
)
from penstock_trends.kernel import HOUR
from penstock_trends.report import VERSION, pages, view
from penstock_trends.results import sums_by_hour
from penstock_trends.tables import TierTables

RATE = 3600.0


def hours(*seen: int, added: float = RATE, gap: float = 0.0) -> dict[str, Any]:
    """Hourly rows of a queue, of hours that were seen; gap: what came before each hour that follows a gap."""
    start = np.array(seen) * HOUR
    after = np.append(False, np.diff(start) > HOUR)
    rows = {
        "start": start,
        "complete": np.ones(len(start)),
        "added": np.full(len(start), added),
    }
    rows |= {"gap_added": np.where(after, gap, 0.0)}
    return rows | {"acknowledged": rows["added"], "gap_acknowledged": rows["gap_added"]}


def test_no_hour_has_the_traffic_of_a_gap() -> None:
    came = complete(hours(0, 1, 2, 6, 7, gap=3 * RATE), "added")
    assert np.isnan(came[3:6]).all()
    assert came[[0, 1, 2, 6, 7]] == pytest.approx(RATE)


def test_hours_that_were_not_seen_are_not_idle() -> None:
    assert idle_hours(hours(0, 1, 2)) == 0
    assert idle_hours(hours(*range(30), added=0.0)) == 30
    assert idle_hours(hours(0, 41, 42, 43, added=0.0)) == 4
    assert idle_hours(hours(0, 41, 42, 43, added=0.0, gap=1.0)) == 2, (
        "in the gap it was not idle"
    )


def test_hours_whose_counter_was_not_read_are_not_idle() -> None:
    rows = hours(*range(30), added=0.0)
    for name in ("added", "gap_added", "acknowledged", "gap_acknowledged"):
        rows[name] = np.where(np.arange(30) >= 20, np.nan, rows[name])
    assert idle_hours(rows) == 20
    assert blind_hours(rows) == 10
    assert blind_hours(hours(*range(30))) == 0


def polled(*intervals: float, missing: int = 0) -> dict[str, Any]:
    """Hourly rows that have all polls of their interval, but for the first of `missing` hours."""
    interval = np.array(intervals)
    rows = {
        "start": HOUR * np.arange(len(interval)),
        "n": HOUR / interval,
        "expected": HOUR / interval,
    }
    return {name: column[missing:] for name, column in rows.items()}


@pytest.mark.parametrize(
    "intervals",
    [[15.0] * 6 + [96.0] * 234, [96.0] * 234 + [15.0] * 6, [15.0, 60.0] * 50],
)
def test_another_interval_is_no_gap(intervals: list[float]) -> None:
    assert coverage(polled(*intervals)) == 1.0


def test_a_gap_is_one_by_the_interval_of_its_time() -> None:
    slow = polled(*[60.0] * 10)
    fast = polled(*[10.0] * 10)
    rows = {name: np.concatenate([slow[name], fast[name]]) for name in slow}
    rows["start"] = HOUR * np.append(np.arange(10), np.arange(20, 30))
    assert coverage(rows) == pytest.approx((10 * 60 + 10 * 360) / (20 * 60 + 10 * 360))
    assert coverage(rows, 40.0 * HOUR) == pytest.approx(
        (10 * 60 + 10 * 360) / (20 * 60 + 20 * 360)
    )


def test_polls_that_are_too_many_in_one_hour_make_up_for_none_elsewhere() -> None:
    rows = polled(60.0, 60.0, 60.0, 60.0)
    rows["n"] = np.array([120.0, 0.0, 60.0, 60.0])
    assert coverage(rows) == 0.75


def of_kind(kind: str, hours: int, **known: Any) -> dict[str, Any]:
    """Hourly rows of which nothing but `known` is known."""
    of = TierTables(kind)
    every = np.ones(hours)
    rows = {field.name: every * np.nan for field in (*of.rows, *of.increases)} | {
        "complete": every,
        "n": 60 * every,
    }
    return (
        rows
        | {"expected": 60 * every, "start": HOUR * np.arange(hours)}
        | {"sid": every, "inc": every}
        | known
    )


def traffic(hours: int, added: float = 0.0) -> dict[str, Any]:
    every = np.ones(hours)
    return {
        "added": added * every,
        "gap_added": 0 * every,
        "messages_sum": 0 * every,
        "messages_max": 0 * every,
    }


def test_a_queue_that_says_little_has_facts_and_is_not_called_idle() -> None:
    """An import may have its counters and no backlog, or a backlog and no counter."""
    rows = of_kind("queue", 400, added=np.ones(400), gap_added=np.zeros(400))
    assert np.isnan([*queue_facts(rows, 400 * HOUR)["messages"].values()]).all()
    silent = of_kind(
        "queue", 400, messages_sum=np.zeros(400), messages_max=np.zeros(400)
    )
    assert np.isnan(queue_facts(silent, 400 * HOUR)["idle_hours"])


def test_a_queue_that_is_gone_is_neither_idle_nor_foreseen() -> None:
    here = 600 * HOUR
    gone = 640 * HOUR
    rows = of_kind("queue", 600, **traffic(600))
    assert queue_facts(rows, here)["idle_hours"] == 600
    assert np.isnan(queue_facts(rows, gone)["idle_hours"])
    weekly = of_kind(
        "queue",
        600,
        **traffic(600) | {"added": 50.0 + np.arange(600) % 24 + np.arange(600) % 11},
    )
    assert queue_details(weekly, here)["forecasts"]["added"] is not None
    assert queue_details(weekly, gone)["forecasts"]["added"] is None


def test_the_curve_of_a_queue_has_no_day_that_was_not_seen_whole() -> None:
    came = np.full(100, 10.0)
    came[30:40] = np.nan
    daily = queue_details(
        of_kind("queue", 100, **traffic(100) | {"added": came}), 100 * HOUR
    )["daily"]
    assert daily == [[0, 240.0], [2, 240.0], [3, 240.0]]


def test_the_ring_is_that_of_the_last_hour_also_where_lives_are_not_in_order() -> None:
    rows = of_kind(
        "queue", 48, **traffic(48), ring_limit_max=np.repeat([500.0, 100.0], 24)
    )
    rows["start"] = np.roll(rows["start"], 24)
    assert queue_facts(rows, 48 * HOUR)["ring"] == 500


def test_of_a_broker_that_says_little_it_is_known_when_it_was_seen() -> None:
    found = broker_facts(of_kind("broker", 48), 48 * HOUR)
    assert (found["restarts"], found["missing_hours"], found["coverage"]) == (
        None,
        0,
        1.0,
    )
    up = of_kind("broker", 48, uptime_max=np.arange(48.0) % 24)
    assert broker_facts(up, 48 * HOUR)["restarts"] == 1
    gone = broker_facts(up, 96 * HOUR)
    assert (gone["missing_hours"], gone["coverage"]) == (48, 0.5), (
        "since then nobody saw it"
    )


@pytest.mark.slow  # long courses
def test_the_first_day_says_what_it_cannot_know() -> None:
    broker = broker_facts(of_kind("broker", 6, uptime_max=np.arange(6.0)), 0.0)
    facts = cleaned(
        facts_of([None] * 168)
        | {"brokers": [broker | {"broker": "<!--<script>", "sid": 7, "owner": ""}]}
    )
    facts["window"] = {"first": "2026-09-01", "last": "2026-09-01", "days": 1}
    page, of_broker = pages(facts).values()
    assert "when these limits are met: disk of &lt;!--&lt;script&gt;, memory of" in page
    assert "growth (from 21 days on)" in page
    assert "No forecast was made" in page
    assert "Not known before two weeks were seen." in page
    assert (
        "No limit is known to be met within 90 days; no message is known to be lost since"
        in page
    )
    assert "flow is not known yet." in page
    assert "<!--" not in page + of_broker
    later = pages(facts | {"window": facts["window"] | {"days": 60}})["report.html"]
    assert "days on)" not in later
    assert "No queue is known to have had no traffic" in later


def test_a_day_that_was_not_seen_whole_has_no_total() -> None:
    hourly = np.full(3 * 24 + 5, 10.0)
    hourly[5 + 24 : 5 + 24 + 3] = np.nan
    hourly[5 + 48] = np.nan
    total = whole_days(hourly, DAY - 5 * HOUR)
    assert total[[0, 2]] == pytest.approx(240)
    assert np.isnan(total[1])


def test_the_quietest_hour_is_one_that_was_seen(spark: Any) -> None:
    profile: list[float | None] = [None] * 100 + [50.0 + hour for hour in range(68)]
    partly: list[float | None] = [50.0] + [None] * 67 + [100.0] * 100
    queues = [(5.0, profile), (5.0, partly), (0.0, [0.0] * 168)]
    for number in (1, 2):
        found = spark.createDataFrame(
            queues[:number], "added double, profile array<double>"
        )
        shown = view(facts_of(sums_by_hour(found)))
        assert shown["quiet_hour"] == "Friday 04:00 UTC", (
            "an hour that only one of them had is none"
        )
        assert shown["heat"].count("<rect") == 68
    assert (
        view(facts_of(sums_by_hour(found.where("added = 0"))))["quiet_hour"]
        == "unknown"
    )


def facts_of(profile: list[float | None]) -> dict[str, Any]:
    fleet = {"queues": 2, "unclear": 0, "profile": profile}
    lists = {
        name: []
        for name in ("queues", "brokers", "stalls", "fates", "addresses", "zones")
    }  # type: ignore[var-annotated]
    flow = {"target": 0.999, "queues": 0, "missed": 0, "worst": []}
    window = {"days": 90, "first": "2026-09-01", "last": "2026-11-29"}
    return {
        **lists,
        "version": VERSION,
        "fleet": fleet,
        "window": window,
        "unread": {},
        "periods": {},
        "flow": flow,
    }


def test_no_growth_is_shown_where_none_is_clear() -> None:
    rows = of_kind("queue", 48, **traffic(48))
    names = {"broker": "b", "address": "q", "queue": "q", "owner": ""}
    targets = {"targets": {"ring_retention": None, "drain_target": None}}
    queue = (
        queue_facts(rows, 48 * HOUR) | queue_details(rows, 48 * HOUR) | names | targets
    )
    broker = broker_facts(of_kind("broker", 48), 48 * HOUR) | {
        "broker": "b",
        "sid": 7,
        "owner": "",
    }
    _, shown = pages(
        cleaned(facts_of([None] * 168) | {"brokers": [broker], "queues": [queue]})
    ).values()
    assert "messages added" in shown
    assert "Growth" not in shown
    assert "Last seven days" not in shown
