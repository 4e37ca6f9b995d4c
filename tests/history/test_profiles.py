"""The file of profiles through real Parquet: what the trend job writes is what the agent judges by."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conditions.normal_world import BEFORE, Flow, steady
from conditions.world import Judged
from penstock.agent.profiles import ProfileFile
from penstock.history.profiles import read_profiles
from penstock.learned.byte_tables import packed, unpacked
from penstock.learned.normal import INFLOW, PAUSE
from penstock.settings.calendar import HOURS
from penstock_trends.normal import profile_of
from penstock_trends.profiles import profile_table


def written(path: Path, **rates: float) -> Path:
    rows = [
        ("b", (name, name), profile_of(BEFORE, steady(rate)))
        for name, rate in rates.items()
    ]
    pq.write_table(profile_table(rows), path)
    return path


@pytest.mark.slow  # writes and reads history
def test_what_is_written_is_what_the_agent_judges_by(tmp_path: Path) -> None:
    profile = read_profiles(written(tmp_path / "profiles.parquet", q=20.0, other=1.0))[
        "b"
    ]
    assert profile.weeks >= 4
    hour = int(BEFORE[-1])
    at = profile.flows.names["q", "q"]
    assert unpacked(
        profile.flows.hours[INFLOW, hour // HOURS % 4, hour % HOURS, at]
    ) == pytest.approx(72001, rel=0.04)
    judged = Judged()
    judged.state = type(judged.state)(
        judgement=judged.state.judgement.with_profile(profile)
    )
    Flow(judged).run(300, 20.0).run(600, 0.0)
    assert judged.names == {"producer_silent"}


def test_a_profile_counts_its_last_four_weeks_and_knows_nothing_where_nothing_was_seen() -> (
    None
):
    long = np.arange(BEFORE[0] - 10 * HOURS, BEFORE[-1] + 1)
    inflow = np.where(long < BEFORE[0], 100.0, 10.0)
    profile = profile_of(long, {"inflow": inflow})
    assert (profile.hours[INFLOW] == packed(11.0)).all()
    weekdays = BEFORE[BEFORE % HOURS < 120]
    profile = profile_of(weekdays, {"inflow": np.full(len(weekdays), 5.0)})
    assert (profile.hours[PAUSE][:, 120:] == 0).all()
    assert profile_of(BEFORE[:0], {"inflow": np.empty(0)}).weeks == 0


def test_pauses_of_whole_hours_come_from_the_counts() -> None:
    """A run each night at two: at noon nothing came for ten hours."""
    profile = profile_of(BEFORE, {"inflow": np.where(BEFORE % 24 == 2, 50.0, 0.0)})
    noon = unpacked(profile.hours[PAUSE][:, 12::24])
    assert np.nanmin(noon) == np.nanmax(noon) == pytest.approx(36000, rel=0.04)


def refused(_: Path) -> None:
    raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"no parquet", "is no Parquet file"), (None, "is no file of profiles")],
)
def test_a_file_that_cannot_be_used_is_told_once_and_what_was_read_stays(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes | None,
    why: str,
) -> None:
    path = written(tmp_path / "profiles.parquet", q=1.0)
    file = ProfileFile(path)
    before = file.of("b")
    assert before is not None
    assert file.of("b") is before
    assert file.of("unknown") is None
    if content is None:
        pq.write_table(pa.table({"a": [1]}), path)
    else:
        path.write_bytes(content)
    assert file.of("b") is before
    assert file.of("b") is before
    assert sum(why in record.message for record in caplog.records) == 1
    if content is None:  # a directory that may not be read, say
        monkeypatch.setattr(Path, "stat", refused)
        assert file.of("b") is file.of("b") is before
        assert (
            sum("Permission denied" in record.message for record in caplog.records) == 1
        )
        monkeypatch.undo()
    written(path, q=2.0)
    os.utime(path, (1, 1))
    now = file.of("b")
    assert now is not None
    assert now is not before
    path.unlink()
    assert file.of("b") is None
