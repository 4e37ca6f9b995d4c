"""What was not seen is unknown: no rate, no idle hour, no quiet hour, no day."""

from typing import Any

import numpy as np
import pytest

from penstock.history.compact import DAY
from penstock.trends.analysis import complete, idle_hours, whole_days
from penstock.trends.kernel import HOUR
from penstock.trends.report import view
from penstock.trends.results import sums_by_hour

RATE = 3600.0


def hours(*seen: int, added: float = RATE, gap: float = 0.0) -> dict[str, Any]:
    """Hourly rows of a queue, of hours that were seen; gap: what came before each hour that follows a gap."""
    start = np.array(seen) * HOUR
    after = np.append(False, np.diff(start) > HOUR)
    rows = {"start": start, "complete": np.ones(len(start)), "added": np.full(len(start), added)}
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
    assert idle_hours(hours(0, 41, 42, 43, added=0.0, gap=1.0)) == 2, "in the gap it was not idle"


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
        found = spark.createDataFrame(queues[:number], "added double, profile array<double>")
        shown = view(facts_of(sums_by_hour(found)))
        assert shown["quiet_hour"] == "Friday 04:00 UTC", "an hour that only one of them had is none"
        assert shown["heat"].count("<rect") == 68
    assert view(facts_of(sums_by_hour(found.where("added = 0"))))["quiet_hour"] == "unknown"


def facts_of(profile: list[float | None]) -> dict[str, Any]:
    fleet = {"queues": 2, "unclear": 0, "profile": profile}
    lists = {name: [] for name in ("queues", "brokers", "stalls", "fates", "refused")}  # type: ignore[var-annotated]
    return {**lists, "fleet": fleet, "window": {}, "damaged": {}}
