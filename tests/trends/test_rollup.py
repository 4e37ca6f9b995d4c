"""The tiers on Spark: only what is new, the same whatever way the files came, whole days whenever it is killed."""

import json
import re
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from penstock.history.compact import DAY, Keep, read, start_of, tidy
from penstock.history.schema import ROW_TYPES
from penstock.history.store import Store
from penstock_demo.history import Truth
from penstock_trends import days as pointers
from penstock_trends import kernel, tables, tiers
from penstock_trends.kernel import HOUR
from penstock_trends.tiers import RollupError, roll_up
from trends.conftest import FLEET
from trends.stopped import published, stopped_at_each_step

DAYS = [f"2026-09-0{day}" for day in range(1, 5)]
SUMS = """
SELECT sid, sum(grown)::BIGINT AS grown FROM (
  SELECT sid, added - lag(added) OVER (PARTITION BY sid, inc ORDER BY stamp) AS grown
  FROM (SELECT DISTINCT sid, inc, stamp, added FROM read_parquet('{}/raw/kind=queue/**/*.parquet')))
GROUP BY sid ORDER BY sid
"""


def rows_of(out: Store, table: str) -> Any:
    paths = pointers.files_of(pointers.load(out, pointers.day_names(out)), table)
    return pa.concat_tables(
        [pq.read_table(out.path(path), partitioning=None) for path in paths]
    )


def added(out: Store) -> dict[int, int]:
    """How many messages came to each queue."""
    rows = (
        rows_of(out, "i1/kind=queue")
        .group_by("sid")
        .aggregate([("added", "sum"), ("gap_added", "sum")])
    )
    sums = zip(
        *(rows[name].to_pylist() for name in ("sid", "added_sum", "gap_added_sum")),
        strict=True,
    )
    return {sid: here + gap for sid, here, gap in sums}


def only(store: Store, *kinds: str) -> None:
    """Leave these kinds of raw rows alone."""
    for entry in store.files("raw"):
        if not any(f"kind={kind}/" in entry.path for kind in kinds):
            store.delete(entry.path)


@pytest.fixture(scope="session")
def rolled(
    spark: Any, fleet: tuple[Store, Truth], tmp_path_factory: pytest.TempPathFactory
) -> Store:
    out = Store(str(tmp_path_factory.mktemp("out")))
    assert roll_up(spark, fleet[0], out).days == DAYS
    return out


def test_a_second_run_does_nothing(
    spark: Any, fleet: tuple[Store, Truth], rolled: Store
) -> None:
    before = [(entry.path, entry.mtime) for entry in rolled.files()]
    assert roll_up(spark, fleet[0], rolled).days == []
    assert [(entry.path, entry.mtime) for entry in rolled.files()] == before


def test_sums_are_those_of_an_independent_query(
    fleet: tuple[Store, Truth], rolled: Store
) -> None:
    """Over gaps and days; over restarts see test_kernel."""
    with duckdb.connect() as database:
        wanted = dict(database.execute(SUMS.format(fleet[0].root)).fetchall())
    assert added(rolled) == wanted
    assert len(wanted) == FLEET.brokers * FLEET.queues
    rows = rows_of(rolled, "i1/kind=queue")
    gap = sum(rows["gap_added"].to_pylist())
    assert 0 < gap < sum(wanted.values()) / 10
    assert max(rows["n"].to_pylist()) == HOUR // FLEET.interval
    assert (
        set(rows["complete"].to_pylist()) == {True, False}
        or min(rows["n"].to_pylist()) > 5
    )


def test_no_hour_after_a_gap_gets_what_came_in_it(rolled: Store) -> None:
    rows = rows_of(rolled, "i1/kind=queue").sort_by(
        [("sid", "ascending"), ("start", "ascending")]
    )
    sid = rows["sid"].to_numpy()
    start = rows["start"].to_numpy()
    after = (
        (np.diff(sid, prepend=-1) == 0)
        & (np.diff(start, prepend=0) > HOUR)
        & (rows["n"].to_numpy() == 12)
    )
    came = rows["added"].to_numpy()[after].astype(float)
    in_gap = rows["gap_added"].to_numpy()[after]
    assert after.sum() > 5
    assert (in_gap > 0).sum() > 5
    usual = rows.group_by("sid").aggregate([("added", "max")])
    most = dict(
        zip(usual["sid"].to_pylist(), usual["added_max"].to_pylist(), strict=True)
    )
    assert all(
        hour <= most[one] for hour, one in zip(came, sid[after].tolist(), strict=True)
    )


@pytest.mark.nightly  # several runs of Spark
def test_late_and_double_files_give_the_same(
    spark: Any, own_fleet: Store, rolled: Store, tmp_path: Path
) -> None:
    """Days after it rest on what came late, and are told anew where its counters are."""
    late = [
        e.path
        for e in own_fleet.files("raw")
        if "dt=2026-09-02/hour=2" in e.path or "dt=2026-09-02/hour=1" in e.path
    ]
    kept = {path: own_fleet.read_bytes(path) or b"" for path in late}
    for path in late:
        own_fleet.delete(path)
    out = Store(str(tmp_path / "out"))
    roll_up(spark, own_fleet, out)
    assert published(out) != published(rolled)
    for path, content in kept.items():
        own_fleet.write_bytes(path, content)
        own_fleet.write_bytes(path.replace("generated", "twice"), content)
    assert roll_up(spark, own_fleet, out).days == ["2026-09-02"]
    assert published(out) == published(rolled)
    tidy(own_fleet, Keep(days=1000), FLEET.start + 30 * DAY)
    assert len([e for e in own_fleet.files("raw") if "hour=all" in e.path]) >= 8
    assert roll_up(spark, own_fleet, out).days == DAYS, (
        "its files were joined into one of the day"
    )
    assert published(out) == published(rolled)
    unlisted = {entry.path for entry in out.files("h1")} - {
        path
        for one in pointers.load(out, DAYS).values()
        for paths in one.files.values()
        for path in paths
    }
    assert unlisted, "who reads the old files still can"
    pointers.clean(out, pointers.load(out, DAYS), 4e9)
    assert not unlisted & {entry.path for entry in out.files("h1")}
    assert published(out) == published(rolled)


def test_a_day_never_shrinks(spark: Any, own_fleet: Store, tmp_path: Path) -> None:
    """When retention removed its files, one that comes late is refused, and said to be."""
    only(own_fleet, "queue", "broker")
    out = Store(str(tmp_path / "out"))
    roll_up(spark, own_fleet, out)
    before = published(out)
    late = next(entry.path for entry in own_fleet.files("raw/kind=queue/dt=2026-09-02"))
    content = own_fleet.read_bytes(late) or b""
    assert tidy(own_fleet, Keep(days=2), FLEET.start + 5 * DAY) == 2
    for entry in own_fleet.files("raw"):
        if "dt=2026-09-03" in entry.path:
            own_fleet.delete(entry.path)
    own_fleet.write_bytes(late.replace("generated", "late"), content)
    for _ in range(2):
        assert roll_up(spark, own_fleet, out).days == []
        assert published(out) == before
    (day,) = pointers.load(out, ["2026-09-02"]).values()
    assert day.refused == [late.replace("generated", "late")]


@pytest.mark.nightly  # a run of Spark
def test_a_damaged_file_is_named_and_stops_nothing(
    spark: Any, own_fleet: Store, rolled: Store, tmp_path: Path
) -> None:
    only(own_fleet, "queue", "broker")
    torn, empty, foreign = [
        e.path for e in own_fleet.files("raw/kind=queue/dt=2026-09-02")
    ][:3]
    content = {
        path: own_fleet.read_bytes(path) or b"" for path in (torn, empty, foreign)
    }
    middle = len(content[torn]) // 2
    own_fleet.write_bytes(
        torn, content[torn][:middle] + b"\xff" * 64 + content[torn][middle + 64 :]
    )
    own_fleet.write_bytes(empty, b"")
    own_fleet.write_table(foreign, pa.table({"other": [1]}))
    ahead = torn.replace("2026-09-02", "2099-01-01")
    own_fleet.write_bytes(ahead, content[torn])
    out = Store(str(tmp_path / "out"))
    rolled_up = roll_up(spark, own_fleet, out)
    assert (rolled_up.days, rolled_up.ahead) == (DAYS, [ahead])
    damaged = pointers.load(out, DAYS)["2026-09-02"].damaged
    assert {empty, foreign} <= damaged.keys() <= {torn, empty, foreign}
    assert "without" in damaged[foreign]
    assert roll_up(spark, own_fleet, out).days == [], (
        "it is not read again until it is another"
    )
    for path, whole in content.items():
        own_fleet.write_bytes(path, whole)
    assert roll_up(spark, own_fleet, out).days == ["2026-09-02"]
    assert pointers.load(out, DAYS)["2026-09-02"].damaged == {}
    before = published(out)
    own_fleet.write_bytes(torn, b"torn later")
    assert roll_up(spark, own_fleet, out).days == []
    assert published(out) == before, "what was counted stays counted"
    assert torn in pointers.load(out, DAYS)["2026-09-02"].damaged
    assert added(out) == added(rolled)


def with_numbers(store: Store, path: str, column: str, value: int) -> None:
    """Replace the numbers of the first queue in a raw file."""
    table = read(store, [path], ROW_TYPES["queue"])
    mine = pc.equal(table["sid"], table["sid"][0])
    changed = pc.if_else(mine, pa.scalar(value, pa.int64()), table[column])
    store.write_table(
        path, table.set_column(table.column_names.index(column), column, changed)
    )


def test_numbers_that_cannot_be_are_left_out_and_named(
    spark: Any, own_fleet: Store, rolled: Store, tmp_path: Path
) -> None:
    only(own_fleet, "queue", "broker")
    path, *_ = [entry.path for entry in own_fleet.files("raw/kind=queue/dt=2026-09-02")]
    with_numbers(own_fleet, path, "added", 2**63 - 1025)
    out = Store(str(tmp_path / "out"))
    roll_up(spark, own_fleet, out)
    pointer = pointers.load(out, DAYS)["2026-09-02"]
    assert pointer.damaged == {}
    (text,) = pointer.left_out.values()
    assert [*pointer.left_out] == [path]
    assert re.fullmatch(
        r"numbers that cannot be are left out, all else is counted: \d+ of added", text
    )
    assert added(out) == added(rolled), (
        "what came meanwhile follows from the counter before and after"
    )


@pytest.mark.nightly  # a run of Spark
def test_a_file_that_goes_while_it_is_read_is_found_where_it_went(
    spark: Any,
    own_fleet: Store,
    rolled: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    only(own_fleet, "queue", "broker")
    listed = tiers.listed
    calls = list[Store]()

    def joined_meanwhile(history: Store) -> Any:
        found = listed(history)
        if not calls:
            for hours in range(2):  # what was joined goes an hour later
                tidy(history, Keep(days=1000), FLEET.start + 30 * DAY + hours * HOUR)
        calls.append(history)
        return found

    monkeypatch.setattr(tiers, "listed", joined_meanwhile)
    out = Store(str(tmp_path / "out"))
    assert sorted(roll_up(spark, own_fleet, out).days) == DAYS
    assert added(out) == added(rolled)
    assert len(calls) == 2
    monkeypatch.setattr(
        tiers,
        "listed",
        lambda _: {
            DAYS[0]: {"raw/kind=queue/dt=2026-09-01/hour=00/no.parquet": [1, 1]}
        },
    )
    with pytest.raises(RollupError, match="run it again"):
        roll_up(spark, own_fleet, out)


def as_before(rolled: Store, kind: str, day: str) -> Any:
    """Hourly rows as the version before kept them: with labels, and bins as two lists."""
    of = tables.TierTables(kind)
    paths = pointers.load(rolled, [day])[day].files
    rows = [
        one
        for path in paths[f"h1/kind={kind}"]
        for one in tables.read(rolled, path, of.rows).to_pylist()
    ]
    named = [
        one
        for path in paths[f"series/kind={kind}"]
        for one in tables.read(rolled, path, of.labels).to_pylist()
    ]
    names = {one.pop("sid"): one for one in named}
    for row in rows:
        bins = dict(row.pop("bins", ()))
        row |= {
            **names[row["sid"]],
            "start": row["start"],
            "hist_at": [*bins],
            "hist_n": [*bins.values()],
        }
        for name in ("t0", "t1", "hours"):
            del row[name]
    return pa.Table.from_pylist(rows)


@pytest.mark.nightly  # some runs of Spark
def test_stopped_at_any_step_readers_see_whole_days(
    spark: Any, own_fleet: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old days stay as they were until the new ones are there. On S3: make test-spark-cluster."""
    only(own_fleet, "queue", "broker")
    out = Store(str(tmp_path / "out"))
    assert (
        stopped_at_each_step(
            spark, own_fleet, out, Store(str(tmp_path / "whole")), monkeypatch
        )
        == 7
    )


@pytest.mark.nightly  # a run of Spark for an older history
def test_what_an_older_version_made_is_kept(
    spark: Any, own_fleet: Store, rolled: Store, tmp_path: Path
) -> None:
    """Days whose raw files are gone are converted, the others are made of these."""
    only(own_fleet, "queue", "broker")
    out = Store(str(tmp_path / "out"))
    for day in DAYS[:2]:
        for kind in ("queue", "broker"):
            out.write_table(
                f"h1/kind={kind}/dt={day}/part.parquet", as_before(rolled, kind, day)
            )
    out.write_bytes("manifest.json", json.dumps({day: {} for day in DAYS[:2]}).encode())
    for entry in own_fleet.files("raw"):
        if "dt=2026-09-01" in entry.path:
            own_fleet.delete(entry.path)
    assert roll_up(spark, own_fleet, out).days == DAYS
    assert added(out) == added(rolled)
    assert (
        rows_of(out, "d1/kind=queue")["bins"].to_pylist()
        == rows_of(rolled, "d1/kind=queue")["bins"].to_pylist()
    )
    assert roll_up(spark, own_fleet, out).days == []


def test_a_day_ahead_of_the_clock_does_not_move_the_window() -> None:
    """Of one clock that was set ahead; a history that was imagined in the future is no such thing."""
    days = ["2026-09-01", "2026-09-02"]
    now = start_of("2026-09-02", "all") + 3600
    for far in ("2099-01-01", "2026-09-05"):
        assert pointers.plausible([far, *days], now) == days
        assert pointers.plausible([far], now) == [far]
    assert pointers.plausible(["2026-09-03", *days, "2026-09-04"], now) == [
        *days,
        "2026-09-03",
        "2026-09-04",
    ]
    assert pointers.plausible([*days, "2026-09-09"], now + 8 * DAY) == [
        *days,
        "2026-09-09",
    ], "a gap is none"


def test_another_kernel_makes_days_anew_whose_files_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = pointers.Pointer(
        "2026-09-01", kernel=kernel.VERSION, inputs={"a": [1, 1], "b": [1, 1]}
    )
    assert not there.is_dirty({"a": [1, 1]})
    assert not there.is_dirty({"a": [1, 1], "b": [1, 1]})
    assert there.is_dirty({"a": [1, 1], "b": [1, 2]})
    monkeypatch.setattr(pointers, "VERSION", kernel.VERSION + 1)
    assert there.is_dirty({"a": [1, 1], "b": [1, 1]})
    assert not there.is_dirty({"a": [1, 1]}), (
        "what is left would be less than what was counted"
    )
