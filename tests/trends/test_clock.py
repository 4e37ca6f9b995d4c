"""Days and hours are those of the broker's wall clock, also where it changes; holidays are no days like others."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.history.store import Store
from penstock.settings.calendar import Calendar
from penstock_trends.analysis import (
    address_facts,
    cleaned,
    like_sundays,
    queue_details,
    queue_facts,
    weeks,
)
from penstock_trends.days import Pointer
from penstock_trends.facts import Source, hours_ahead, series_of_units
from penstock_trends.kernel import HOUR
from trends.test_unseen import of_kind, traffic

BERLIN = "Europe/Berlin"
MONDAY = round(datetime(2026, 10, 5, tzinfo=UTC).timestamp())
SPAN = 8 * 7 * 24


def test_a_clock_is_ahead_by_what_it_shows() -> None:
    winter = round(datetime(2026, 10, 25, tzinfo=UTC).timestamp())
    assert hours_ahead(BERLIN, winter, winter)[:4].tolist() == [7200, 3600, 3600, 3600]
    assert set(hours_ahead("UTC", MONDAY, MONDAY).tolist()) == {0}
    assert set(hours_ahead("Asia/Kolkata", MONDAY, MONDAY).tolist()) == {19800}


def local_noon() -> np.ndarray[Any, Any]:
    """Messages by hour of UTC: all come at noon in Berlin, on either side of the change of its clock."""
    clock = (
        (
            MONDAY
            + HOUR * np.arange(SPAN)
            + hours_ahead(BERLIN, MONDAY, MONDAY + SPAN * HOUR)[:SPAN]
        )
        // HOUR
        % 24
    )
    return np.where(clock == 12, 1000.0, 1.0)


@pytest.fixture
def source(tmp_path: Path) -> Any:
    """Queues of two brokers, rolled up: hours, days and labels of one bucket."""
    store = Store(str(tmp_path))
    pointer = Pointer("2026-10-05", inputs={"x": [1, 1]})
    known = {
        "n": 60,
        "expected": 60.0,
        "complete": True,
        "inc": 1,
        "gap_added": 0,
        "messages_sum": 0.0,
    }
    one = {name: np.full(SPAN, value) for name, value in known.items()}
    one |= {"added": local_noon().astype(int), "start": MONDAY + HOUR * np.arange(SPAN)}
    both = pa.concat_tables(
        [pa.table(one | {"sid": np.full(SPAN, sid)}) for sid in (1, 2)]
    )
    store.write_table("i1/kind=queue/part-00000.parquet", both)
    pointer.add("i1/kind=queue", ["i1/kind=queue/part-00000.parquet"])
    labels = pa.table({"sid": [1, 2], "start": [0, 0], "broker": ["berlin", "other"]})
    store.write_table("series/kind=queue/part-00000.parquet", labels)
    pointer.add("series/kind=queue", ["series/kind=queue/part-00000.parquet"])
    last = Pointer("2026-11-29", inputs={"x": [1, 1]})

    def of_calendars(calendars: Mapping[str, Calendar]) -> dict[int, Any]:
        made = Source(store, {"2026-10-05": pointer, "2026-11-29": last}, calendars)
        units = pa.record_batch([pa.array(made.units("queue"))], ["unit"])
        return dict(series_of_units(store.url, "queue", calendars, iter([units])))

    return of_calendars


def busiest(series: Any) -> list[int]:
    """Hours of the day with traffic, by the profile."""
    by_hour = np.array(cleaned(queue_facts(*series)["profile"]), float)
    return sorted({int(hour) % 24 for hour in np.flatnonzero(by_hour > 100)})


@pytest.mark.slow  # reads an imagined history
def test_each_broker_has_its_own_clock(source: Any) -> None:
    found = source({"": Calendar(), "berlin": Calendar(BERLIN)})
    assert busiest(found[1]) == [12]
    assert busiest(found[2]) == [11], (
        "by UTC it comes at another hour, and in summer at 10"
    )
    assert busiest(source({"": Calendar(BERLIN)})[2]) == [12], (
        "where all have one, no label is read"
    )
    facts = queue_facts(*found[1])
    assert (facts["first"], facts["last"]) == (MONDAY, MONDAY + SPAN * HOUR)
    assert facts["added"] == local_noon().sum()
    assert sum(week["added"] for week in facts["weeks"]) == pytest.approx(
        local_noon().sum(), abs=1001
    )


@pytest.mark.slow  # reads an imagined history
def test_what_is_forecast_for_noon_is_for_noon(source: Any) -> None:
    made = queue_details(*source({"": Calendar(BERLIN)})[1])["forecasts"]["added"]
    begins = datetime(
        2026, 11, 30, 1, tzinfo=UTC
    )  # where the local clock has begun its hour
    assert np.argmax(made["values"][:24]) == pytest.approx(12 - begins.hour, abs=0)


def test_a_holiday_is_left_out_of_what_is_usual_and_foreseen_like_a_sunday() -> None:
    at = np.arange(6 * 168)
    hours = HOUR * np.arange(6 * 168)
    usual = np.where(at // 24 % 7 == 6, 10.0, 100.0)
    monday = 4 * 24 * HOUR  # 1970-01-05
    free = 4 + 5 * 7  # the last Monday
    added = np.where((monday + hours) // 86400 == free, 10.0, usual)
    rows = of_kind("queue", len(at), **traffic(len(at)) | {"added": added}) | {
        "start": monday + hours
    }
    until = monday + len(at) * HOUR
    assert (
        queue_facts(rows, until)["changes"]
        or queue_facts(rows, until)["week"]["ratio"] < -0.1
    )
    facts = queue_facts(rows, until, {free})
    assert facts["changes"] == []
    assert facts["week"]["ratio"] == pytest.approx(0, abs=1e-9)
    ahead = usual[:168]
    holiday = until // 86400 + 1  # Tuesday
    like = like_sundays(ahead, until // HOUR, {holiday})
    assert like[24:48].tolist() == [10.0] * 24
    assert (
        np.delete(like, np.s_[24:48]).tolist()
        == np.delete(ahead, np.s_[24:48]).tolist()
    )
    assert like_sundays(ahead, until // HOUR, ()).tolist() == ahead.tolist()


def test_weeks_are_counted_back_from_the_last_whole_day() -> None:
    rows = of_kind("queue", 15 * 24 + 5, **traffic(15 * 24 + 5, 1.0))
    rows["gap_added"] = np.where(np.arange(15 * 24 + 5) == 7 * 24, 50.0, 0.0)
    found = weeks(rows, 15 * 24 * HOUR)
    assert [(one["back"], one["hours"], one["added"]) for one in found] == [
        (0, 168, 168.0),
        (1, 168, 218.0),
        (2, 24, 24.0),
    ]
    assert np.isnan(found[0]["killed"]), "what no counter says is not 0"


def test_a_day_is_whole_once_its_last_hour_came() -> None:
    begin = 1_788_220_800
    for inputs, whole in (
        (["raw/kind=queue/dt=2026-09-01/hour=00/a"], False),
        (
            [
                "raw/kind=queue/dt=2026-09-01/hour=00/a",
                "raw/kind=queue/dt=2026-09-01/hour=23/a",
            ],
            True,
        ),
        (["raw/kind=queue/dt=2026-09-01/hour=all/a"], True),
        (["h1/kind=queue/dt=2026-09-01/part.parquet"], True),
    ):
        day = Pointer("2026-09-01", inputs={path: [1, 1] for path in inputs})
        assert day.end == begin + 86400 * whole, inputs


def test_limits_of_addresses_are_those_that_they_have() -> None:
    rising = np.arange(600.0)
    rows = of_kind(
        "address",
        600,
        messages_sum=60 * rising,
        limit_messages_max=np.full(600, 1000.0),
    )
    facts = address_facts(rows, 600 * HOUR)
    assert set(facts["limits"]) == {"messages"}, "no limit of bytes"
    assert facts["limits"]["messages"]["state"] == "rising"
    assert facts["limits"]["messages"]["days"] == pytest.approx(400 / 24, rel=0.05)
    unlimited = of_kind(
        "address", 600, messages_sum=60 * rising, limit_messages_max=np.full(600, -1.0)
    )
    assert address_facts(unlimited, 600 * HOUR)["limits"] == {}
    assert json.dumps(cleaned(facts))
