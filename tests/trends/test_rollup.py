"""The job on Spark: only what is new, the same whatever way the files came."""

import hashlib
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.history.compact import Keep, tidy
from penstock.history.store import Store
from penstock.trends.tiers import roll_up
from penstock_demo.history import Truth
from trends.conftest import FLEET

DAYS = tuple(f"2026-09-0{day}" for day in range(1, 5))


def contents(out: Store) -> dict[str, str]:
    return {
        entry.path: hashlib.sha256(out.read_bytes(entry.path) or b"").hexdigest()
        for entry in out.files()
        if entry.path.endswith(".parquet")
    }


@pytest.fixture(scope="session")
def rolled(spark: Any, fleet: tuple[Store, Truth], tmp_path_factory: pytest.TempPathFactory) -> Store:
    out = Store(str(tmp_path_factory.mktemp("out")))
    assert roll_up(spark, fleet[0], out).days == DAYS
    return out


def test_a_second_run_does_nothing(spark: Any, fleet: tuple[Store, Truth], rolled: Store) -> None:
    before = contents(rolled)
    assert roll_up(spark, fleet[0], rolled).days == ()
    assert contents(rolled) == before
    assert len(before) == 4 * 6 + sum("condition" in path for path in before)


def test_late_and_double_files_give_the_same(spark: Any, own_fleet: Store, rolled: Store, tmp_path: Any) -> None:
    wanted = contents(rolled)
    late = [e.path for e in own_fleet.files("raw") if "dt=2026-09-02/hour=1" in e.path]
    held = {path: own_fleet.read_bytes(path) or b"" for path in late}
    for path in late:
        own_fleet.delete(path)
    out = Store(str(tmp_path / "out"))
    roll_up(spark, own_fleet, out)
    assert contents(out) != wanted
    for path, content in held.items():
        own_fleet.write_bytes(path, content)
        own_fleet.write_bytes(path.replace("generated", "twice"), content)
    assert roll_up(spark, own_fleet, out).days == ("2026-09-02",)
    assert contents(out) == wanted


def test_killed_before_the_manifest_it_does_the_day_again(
    spark: Any, fleet: tuple[Store, Truth], rolled: Store, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Store(str(tmp_path / "out"))
    monkeypatch.setattr(Store, "write_bytes", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        roll_up(spark, fleet[0], out)
    monkeypatch.undo()
    assert roll_up(spark, fleet[0], out).days == DAYS
    assert contents(out) == contents(rolled)


def test_joined_files_change_nothing(spark: Any, own_fleet: Store, rolled: Store, tmp_path: Any) -> None:
    tidy(own_fleet, Keep(days=1000), FLEET.start + 30 * 86400.0)
    assert len([e for e in own_fleet.files("raw") if "hour=all" in e.path]) >= 8
    out = Store(str(tmp_path / "out"))
    roll_up(spark, own_fleet, out)
    assert contents(out) == contents(rolled)


def test_what_retention_removed_stays_in_the_tiers(spark: Any, own_fleet: Store, tmp_path: Any) -> None:
    out = Store(str(tmp_path / "out"))
    roll_up(spark, own_fleet, out)
    before = contents(out)
    assert tidy(own_fleet, Keep(days=2), FLEET.start + 5 * 86400.0) == 2
    assert roll_up(spark, own_fleet, out).days == DAYS[2:3], "its files were joined into one of the day"
    assert contents(out) == before


def test_hours_hold_what_was_imagined(fleet: tuple[Store, Truth], rolled: Store) -> None:
    names = [e.path for e in rolled.files("h1") if "kind=queue" in e.path]
    table = pa.concat_tables([pq.read_table(rolled.path(name)) for name in names])
    assert len(set(table["sid"].to_pylist())) == FLEET.brokers * FLEET.queues
    assert max(table["n"].to_pylist()) == 3600 // FLEET.interval
