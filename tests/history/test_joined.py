"""Files that went into a joined one stay for an hour, and count once meanwhile."""

from dataclasses import replace
from pathlib import Path

import pytest

from history.polls import Clock, judged, recorded, rows, writer
from penstock.history.compact import NOTES, Keep, Known, current, read, read_notes, tidy
from penstock.history.listing import days
from penstock.history.publish import RAW
from penstock.history.schema import ROW_TYPES
from penstock.history.store import Store
from penstock.history.writer import PollRecord
from penstock_trends.judging import hours_of
from trends.rows import hours_of as rolled

HOUR = 3600.0
DAY = 86400.0
BEGIN = 1_800_000_000.0 // DAY * DAY


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An hour of polls in several files."""
    clock = Clock()
    history = writer(tmp_path, clock, publish=300.0)
    history._tidied = float("inf")
    for number, poll in enumerate(list(judged(recorded("stuck-listener")[:5]))):
        clock.now = BEGIN + 300.0 * number
        history.step(
            PollRecord(
                "b",
                replace(poll.snapshot, stamp=clock.now),
                poll.conditions,
                poll.evicted,
                300.0,
            )
        )
    history.finish()
    return Store(str(tmp_path / "history"))


def paths(store: Store) -> set[str]:
    return {entry.path for entry in store.files(RAW)}


@pytest.mark.slow  # writes hours of history
def test_a_job_that_has_listed_files_reads_them_after_they_were_joined(
    store: Store,
) -> None:
    listed = current(store)
    before = {
        kind: read(
            store,
            sorted(e.path for e in listed if f"kind={kind}/" in e.path),
            ROW_TYPES[kind],
        )
        for kind in ROW_TYPES
    }
    for _ in range(
        2
    ):  # the next hour, and that of an agent which was started anew meanwhile
        tidy(store, Keep(), BEGIN + 2 * HOUR, Known())
        for kind, rows_then in before.items():
            found = read(
                store,
                sorted(e.path for e in listed if f"kind={kind}/" in e.path),
                ROW_TYPES[kind],
            )
            assert found.num_rows == rows_then.num_rows
    assert {entry.path for entry in listed} <= paths(store)
    tidy(
        store, Keep(), BEGIN + 3 * HOUR, Known()
    )  # of an agent that was started a moment ago
    assert paths(store) == {entry.path for entry in current(store)}
    assert not paths(store) & {entry.path for entry in listed}
    assert read_notes(store) == {}


@pytest.mark.slow  # takes a second
def test_who_lists_both_counts_once(store: Store) -> None:
    before = {kind: sorted(map(str, rows(store, kind))) for kind in ROW_TYPES}
    queues = sorted(
        entry.path for entry in current(store) if "kind=queue/" in entry.path
    )
    polls = days(store)[0].polls
    tier = rolled(store, "queue", queues)
    for later in (2 * HOUR, 2 * HOUR + 600, 2 * HOUR + 1200):
        tidy(store, Keep(), BEGIN + later, Known())
        assert len(store.files(RAW)) > len(current(store))
        assert {
            kind: sorted(map(str, rows(store, kind))) for kind in ROW_TYPES
        } == before
        assert days(store)[0].polls == polls
        assert days(store)[0].files == len(current(store))
        (files,) = hours_of(store).values()
        assert sum(map(len, files.values())) == len(current(store))
        # Even a job that knows nothing of notes, as an older one, adds up the same.
        assert rolled(
            store, "queue", sorted(p for p in paths(store) if "kind=queue/" in p)
        ).equals(tier)


@pytest.mark.slow  # writes and reads history
def test_a_late_file_is_joined_too_and_nothing_twice(store: Store) -> None:
    known = Known()
    tidy(store, Keep(), BEGIN + 2 * HOUR, known)
    late = next(entry.path for entry in store.files(RAW) if "kind=queue/" in entry.path)
    rows_of_it = read(store, [late], ROW_TYPES["queue"])
    before = sorted(map(str, rows(store, "queue")))
    other = late.replace("a1-", "a2-")
    store.write_table(other, rows_of_it)  # what stood in it stands in the joined one
    for hour in (2, 3, 4):
        tidy(store, Keep(), BEGIN + hour * HOUR, known)
    assert sorted(map(str, rows(store, "queue"))) == before
    assert len([path for path in paths(store) if "kind=queue/" in path]) == 1


@pytest.mark.slow  # takes a second
@pytest.mark.parametrize("note", [b"", b"[]", b"\xff", b'{"target":"x","sources":3}'])
def test_a_damaged_note_loses_nothing(store: Store, note: bytes) -> None:
    tidy(store, Keep(), BEGIN + 2 * HOUR, Known())
    before = {kind: set(map(str, rows(store, kind))) for kind in ROW_TYPES}
    for entry in store.files(NOTES):
        store.write_bytes(entry.path, note)
    for _ in range(3):
        tidy(store, Keep(), BEGIN + 2 * HOUR)
    assert {kind: set(map(str, rows(store, kind))) for kind in ROW_TYPES} == before
    assert store.files(NOTES) == []


@pytest.mark.slow  # takes a second
def test_a_note_of_what_is_not_there_removes_nothing(store: Store) -> None:
    """Killed between the two: the joined file is not there yet."""
    before = sorted(map(str, rows(store, "queue")))
    there = paths(store)
    tidy(store, Keep(), BEGIN + 2 * HOUR, Known())
    for path in paths(store) - there:
        store.delete(path)
    assert sorted(map(str, rows(store, "queue"))) == before
    for _ in range(2):
        tidy(store, Keep(), BEGIN + 2 * HOUR)
    assert sorted(map(str, rows(store, "queue"))) == before


@pytest.mark.slow  # writes and reads history
def test_the_bound_counts_no_row_twice(store: Store) -> None:
    """Else a day would go for the room that its joined files take for an hour."""
    tidy(store, Keep(), BEGIN + 2 * HOUR, Known())
    once = sum(entry.size for entry in current(store))
    assert sum(entry.size for entry in store.files(RAW)) > once
    assert tidy(store, Keep(bytes=once), BEGIN + 2 * DAY, Known()) == 0
    assert tidy(store, Keep(bytes=once - 1), BEGIN + 2 * DAY, Known()) == 1
