"""What the writer publishes is what was polled: judged again it gives the same conditions."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from history.polls import (
    NAMES,
    POLICY,
    Clock,
    files,
    judged,
    recorded,
    rows,
    write,
    writer,
)
from penstock.brokers.artemis.reader import ArtemisReader
from penstock.cli.replay import as_configured
from penstock.core.errors import SourceError
from penstock.history import compact, schema
from penstock.history.compact import Keep, read, tidy
from penstock.history.listing import days
from penstock.history.schema import ROW_TYPES, TABLES
from penstock.history.store import Store, StoreError
from penstock.history.writer import HistoryWriter, PollRecord, WriterSettings
from penstock.model import Snapshot
from penstock.transports.recording import RecordingTransport
from penstock_trends.judging import hours_of
from penstock_trends.snapshots import RowReader

HEALTHY = {
    "batch-transactions",
    "exclusive-standby",
    "healthy",
    "low-traffic",
    "paging-progress",
}
"""No condition may come in these."""
RECORDINGS = Path(__file__).parents[1] / "recordings"


def read_back(store: Store) -> list[Snapshot]:
    return list(RowReader().snapshots(tables_of(store)))


def tables_of(store: Store) -> dict[str, pa.Table]:
    there = files(store)
    return {
        name: read(
            store,
            [entry.path for entry in there if f"kind={name}/" in entry.path],
            kind,
        )
        for name, kind in ROW_TYPES.items()
    }


@pytest.mark.slow  # writes and reads history
def test_a_text_and_a_flag_that_an_older_version_did_not_write_are_not_read(
    tmp_path: Path,
) -> None:
    _, polls = complete(RECORDINGS / "artemis-2.44.0.jsonl.gz")
    tables = tables_of(write(tmp_path, list(judged(polls))))
    older = {
        "address": tables["address"].drop_columns(["page_full_policy"]),
        "queue": tables["queue"].drop_columns(["auto_delete", "purge_on_no_consumers"]),
    }
    fitted = {
        name: schema.fitted(table, ROW_TYPES[name].schema)
        for name, table in older.items()
    }
    snapshots = list(RowReader().snapshots({**tables, **fitted}))
    assert len(snapshots) == len(polls)
    for snapshot in snapshots:
        assert snapshot.addresses is not None
        assert snapshot.queues is not None
        assert {row.page_full_policy for row in snapshot.addresses.index} == {""}
        assert {
            (row.auto_delete, row.purge_on_no_consumers)
            for row in snapshot.queues.index
        } == {(None, None)}


@pytest.mark.slow  # forty recordings, which tests/labelled judges too
@pytest.mark.parametrize("name", NAMES)
def test_judged_again_it_is_the_same(name: str, tmp_path: Path) -> None:
    live = list(judged(recorded(name)))
    again = list(judged(read_back(write(tmp_path, live))))
    assert [poll.snapshot.stamp for poll in again] == [
        poll.snapshot.stamp for poll in live
    ]
    assert [poll.conditions for poll in again] == [poll.conditions for poll in live]
    assert any(poll.conditions for poll in live) or name in HEALTHY


def complete(path: Path) -> tuple[str, list[Snapshot]]:
    """All polls of a whole broker."""

    async def polls() -> tuple[str, list[Snapshot]]:
        transport = RecordingTransport(path)
        _, wanted = as_configured(None, transport.header.broker)
        reader = ArtemisReader(transport, wanted)
        found = []
        while not transport.ended:
            try:
                found.append(await reader.poll(3600.0))
            except SourceError:
                assert transport.ended
        await reader.close()
        return transport.header.broker, found

    return asyncio.run(polls())


@pytest.mark.slow  # writes and reads history
@pytest.mark.parametrize("file", ["artemis-2.21.0", "artemis-2.28.0", "artemis-2.44.0"])
def test_every_number_and_text_of_a_broker_comes_back(
    file: str, tmp_path: Path
) -> None:
    _, polls = complete(RECORDINGS / f"{file}.jsonl.gz")
    back = read_back(write(tmp_path, list(judged(polls))))
    assert len(back) == len(polls) == 3
    for before, after in zip(polls, back, strict=True):
        assert repr(after.broker) == repr(before.broker)
        for name in TABLES:
            then = getattr(before, name)
            now = getattr(after, name)
            assert (then is None) == (now is None), name
            if then is None:
                continue
            assert then.columns.keys() <= TABLES[name].numbers.keys(), (
                "history/schema.py must take new columns in"
            )
            np.testing.assert_array_equal(then.index.keys, now.index.keys)
            assert list(then.index) == list(now.index)
            for column in then.columns:
                np.testing.assert_array_equal(
                    then[column], now[column], err_msg=f"{name}.{column}"
                )


@pytest.mark.slow  # takes a second
def test_conditions_enter_hold_and_leave(tmp_path: Path) -> None:
    live = list(judged(recorded("stuck-listener")))
    told = rows(write(tmp_path, live), "condition")
    stalled = [row for row in told if row["condition"] == "stalled"]
    assert stalled[0]["event"] == "enter"
    assert {row["client"] for row in stalled} == {
        c.client for p in live for c in p.conditions if c.name == "stalled"
    }
    assert all('"held"' in str(row["evidence"]) for row in stalled)


@pytest.mark.slow  # writes and reads history
def test_what_stands_is_told_again_in_each_hour(tmp_path: Path) -> None:
    live = list(judged(recorded("no-consumer")))
    standing = next(poll for poll in live if poll.conditions)
    clock = Clock()
    history = writer(tmp_path, clock)
    for hour in range(3):
        clock.now = 1_800_000_000.0 + 3600 * hour
        history.step(
            PollRecord(
                POLICY.broker,
                replace(standing.snapshot, stamp=clock.now),
                standing.conditions,
            )
        )
    history.finish()
    events = [
        row["event"] for row in rows(Store(str(tmp_path / "history")), "condition")
    ]
    assert events.count("hold") == 3 * len(standing.conditions)


@pytest.mark.slow  # writes hours of history
def test_files_stand_by_kind_day_and_hour_in_utc(tmp_path: Path) -> None:
    live = list(judged(recorded("healthy")))
    first = datetime.fromtimestamp(live[0].snapshot.stamp, UTC)
    paths = [entry.path for entry in write(tmp_path, live).files("raw")]
    assert any(
        path.startswith(f"raw/kind=queue/dt={first:%Y-%m-%d}/hour={first:%H}/a1-")
        for path in paths
    )


def many_files(
    tmp_path: Path, publish: float, polls: int | None = None
) -> tuple[Store, float]:
    """A store with a file every `publish` seconds, and the time of its last poll."""
    clock = Clock()
    history = writer(tmp_path, clock, publish=publish)
    for poll in list(judged(recorded("ring-overflow")))[:polls]:
        clock.now = poll.snapshot.stamp
        history.step(
            PollRecord(POLICY.broker, poll.snapshot, poll.conditions, poll.evicted, 5.0)
        )
    history.finish()
    return Store(str(tmp_path / "history")), clock.now


def all_rows(store: Store) -> dict[str, list[str]]:
    return {kind: sorted(map(str, rows(store, kind))) for kind in ROW_TYPES}


@pytest.mark.slow  # takes a second
def test_joined_files_hold_the_same_rows(tmp_path: Path) -> None:
    store, last = many_files(tmp_path, 20.0)
    before = all_rows(store)
    many = len(files(store))
    for later in (2 * 3600.0, 4 * 86400.0):
        tidy(store, Keep(), last + later)
        assert all_rows(store) == before
    assert len(files(store)) < many / 4


@pytest.mark.slow  # millions of values
def test_what_is_too_much_for_one_joining_becomes_several_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, last = many_files(tmp_path, 5.0)
    many = files(store, "queue")
    before = all_rows(store)
    most = 4 * len(before["queue"]) // len(many)
    monkeypatch.setattr(compact, "MAX_VALUES", most * len(ROW_TYPES["queue"].schema))
    known = compact.Known()
    for later in (2 * 3600.0, 4 * 86400.0):
        tidy(store, Keep(), last + later, known)
        assert all_rows(store) == before
        joined = files(store, "queue")
        assert 2 < len(joined) < len(many) / 2
        assert max(known.rows_of(store, one) for one in joined) <= most
        tidy(store, Keep(), last + later, known)
        assert files(store, "queue") == joined, "what is joined stays"
    # Some stand in the directory of the day, some in those of its hours: the day is one all the same.
    (of_the_day,) = hours_of(store).values()
    assert len(of_the_day["queue"]) == len(joined)


@pytest.mark.slow  # writes hours of history
def test_joined_again_after_a_kill_nothing_stays_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, last = many_files(tmp_path, 1.0, polls=6)
    due = last + 2 * 3600.0
    before = rows(store, "queue")
    with monkeypatch.context() as killed:
        killed.setattr(Store, "delete", lambda *_: None)
        for _ in range(3):
            tidy(store, Keep(), due)
    tidy(store, Keep(), due)
    assert sorted(map(str, rows(store, "queue"))) == sorted(map(str, before))
    assert len(files(store, "queue")) == 1


@pytest.mark.slow  # writes hours of history
def test_a_damaged_file_keeps_no_other_from_being_joined(tmp_path: Path) -> None:
    store, last = many_files(tmp_path, 1.0, polls=6)
    due = last + 2 * 3600.0
    first = files(store, "broker")[0].path
    store.write_bytes(first, b"PAR1 nonsense PAR1")
    with pytest.raises(StoreError, match=first):
        tidy(store, Keep(), due)
    assert len(files(store, "queue")) == 1
    assert len(files(store, "broker")) > 1


@pytest.mark.slow  # writes and reads history
def test_a_clock_that_is_set_ahead_for_a_while_removes_nothing(tmp_path: Path) -> None:
    live = list(judged(recorded("ring-overflow")))
    clock = Clock()
    steady = Clock()
    clock.now = begin = live[0].snapshot.stamp
    settings = WriterSettings(
        tmp_path / "spool",
        str(tmp_path / "history"),
        1.0,
        1 << 30,
        Keep(days=30.0),
        "a1",
    )
    history = HistoryWriter(settings, clock, steady)

    def days_after(ahead: float, hours: float) -> list[str]:
        """Days in the history some hours later, where the clock is ahead by so many days."""
        steady.now += hours * 3600
        clock.now = begin + steady.now + ahead * 86400
        history.step(None)
        return [day.day for day in days(Store(str(tmp_path / "history")))]

    for poll in live[:3]:
        clock.now += 5.0
        history.step(
            PollRecord(POLICY.broker, poll.snapshot, poll.conditions, poll.evicted, 5.0)
        )
    (today,) = days_after(0, 1)
    assert days_after(40, 1) == [today]
    assert days_after(40, 3) == [today]
    assert days_after(0, 3) == [today]
    assert days_after(40, 3) == [today], "it begins anew"
    assert days_after(40, 7) == []
