"""The files of version ebc05d77 are taken into the state database, and kept for a week as they were.

They were written by that version after 13 polls of `Traffic`, with saves after the fourth, ninth and tenth; its
journal has the rest.
"""

import os
import shutil
import time
from pathlib import Path

import pytest

from agent.crashes import POLLS, Agent, Counted, Traffic, told, undisturbed
from agent.stored import full, opened, opened_journal, small_pages  # noqa: F401 - a fixture
from penstock.agent import migration
from penstock.agent.earlier_files import FILES
from penstock.agent.migration import (
    KEPT_SECONDS,
    remove_expired_files,
    take_in_earlier_files,
)
from penstock.agent.saved_events import KEPT
from penstock.insight.events import Change

EARLIER = Path(__file__).parent / "earlier_files" / "ebc05d77"
THERE = sorted(path.name for path in EARLIER.iterdir())
POLLED = 13


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EARLIER, tmp_path / "data"))


def polled(traffic: Traffic) -> Traffic:
    """What happened until the earlier version ended."""
    for _ in range(POLLED):
        traffic.step()
    return traffic


def contents(directory: Path, suffix: str = "") -> dict[str, bytes]:
    return {name: (directory / f"{name}{suffix}").read_bytes() for name in THERE}


@pytest.mark.slow  # takes a second
def test_no_counter_falls_and_no_event_is_told_twice(
    directory: Path, tmp_path: Path
) -> None:
    whole, _ = undisturbed(tmp_path / "whole")
    agent = Agent(directory, polled(Traffic()))
    assert agent.kept.success
    before = {told(event) for event in agent.journal.last(KEPT)}
    assert before, "events of the earlier version"
    first = Agent(tmp_path / "first", Traffic())
    while first.traffic.polls < POLLED:
        first.poll()
    shown = Counted(first.shown)
    while agent.traffic.polls < POLLS:
        agent.poll()
        fallen = {
            name
            for name, value in shown.items()
            if agent.shown.get(name, value) < value
        }
        assert not fallen
        shown |= agent.shown
    assert agent.shown == whole.shown
    assert max(agent.events().values()) == 1
    assert agent.events() - whole.events() == {
        (Change.AGENT_START, "", "", "", "", ""): 1
    }
    assert whole.events() - agent.events() == {}


def test_the_files_are_renamed_as_they_were(directory: Path) -> None:
    take_in_earlier_files(directory, opened(directory))
    assert contents(directory, ".before-sqlite") == contents(EARLIER)
    assert not any((directory / name).exists() for name in FILES)
    assert [one.node_id for one in opened(directory).known()] == ["node-1 b1"]


def test_they_go_after_a_week(directory: Path) -> None:
    for name in THERE:
        os.utime(directory / name, (1.0, 1.0))  # the week begins with the migration
    take_in_earlier_files(directory, opened(directory))
    remove_expired_files(directory)
    assert len(list(directory.glob("*.before-sqlite"))) == len(THERE)
    past = time.time() - KEPT_SECONDS - 1
    for path in directory.glob("*.before-sqlite"):
        os.utime(path, (past, past))
    remove_expired_files(directory)
    assert list(directory.glob("*.before-sqlite")) == []


def test_after_a_kill_on_the_way_nothing_is_there_twice(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(migration, "_rename", lambda _: None)
        take_in_earlier_files(directory, opened(directory))
    events = opened_journal(directory).last(KEPT)
    take_in_earlier_files(directory, opened(directory))
    assert opened_journal(directory).last(KEPT) == events
    assert len(opened(directory).known()) == 1
    assert not (directory / "state.bin").exists()


def test_what_an_earlier_version_wrote_when_it_ran_again_is_taken_in(
    directory: Path,
) -> None:
    """Its files were renamed back."""
    store = opened(directory)
    take_in_earlier_files(directory, store)
    (known,) = store.known()
    store.drop([known])
    for name in THERE:
        (directory / f"{name}.before-sqlite").rename(directory / name)
    take_in_earlier_files(directory, store)
    assert [one.recorded for one in store.known()] == [known.recorded]
    assert contents(directory, ".before-sqlite") == contents(EARLIER)


@pytest.mark.usefixtures("small_pages")
def test_on_a_full_disk_they_stay_and_are_used(directory: Path) -> None:
    store = opened(directory)
    with full(store.database):
        take_in_earlier_files(directory, store)
        assert [one.node_id for one in store.known()] == ["node-1 b1"]
        assert contents(directory) == contents(EARLIER)
    take_in_earlier_files(directory, opened(directory))
    assert contents(directory, ".before-sqlite") == contents(EARLIER)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("state.bin", b"", "is no state file of Penstock"),
        (
            "state.bin",
            b"penstock state 1\nabc",
            "has a format that this version does not read",
        ),
        ("state.bin", b"penstock state 2\nabc", "is damaged"),
        ("state.bin", EARLIER.joinpath("state.bin").read_bytes()[:5_000], "is cut off"),
        ("state.journal", b"a novel", "is no journal of Penstock"),
    ],
)
def test_a_damaged_file_is_said_and_kept(
    directory: Path,
    caplog: pytest.LogCaptureFixture,
    name: str,
    content: bytes,
    said: str,
) -> None:
    (directory / name).write_bytes(content)
    assert not take_in_earlier_files(directory, opened(directory))
    assert f"{directory / name} {said}" in caplog.text
    assert (directory / f"{name}.before-sqlite").read_bytes() == content
    assert opened_journal(directory).last(KEPT)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.9, 0.9999])
def test_a_journal_that_is_torn_is_used_as_far_as_it_is_whole(
    directory: Path, share: float
) -> None:
    content = EARLIER.joinpath("state.journal").read_bytes()
    (directory / "state.journal").write_bytes(content[: int(share * len(content))])
    store = opened(directory)
    assert take_in_earlier_files(directory, store)
    assert len(store.known()) == 1


def test_a_line_that_is_torn_within_a_character_is_skipped(directory: Path) -> None:
    with (directory / "events.jsonl").open("ab") as file:
        file.write('{"time": 1, "change": "broker_up", "broker": "Zürich'.encode()[:-5])
    assert take_in_earlier_files(directory, opened(directory))
    assert len(opened_journal(directory).last(KEPT)) > 10


def test_a_file_that_may_not_be_read_stays(
    directory: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, _: int) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("penstock.agent.earlier_files.read_file", refused)
    assert not take_in_earlier_files(directory, opened(directory))
    assert f"{directory / 'state.bin'} cannot be read: Permission denied" in caplog.text
    assert contents(directory) == contents(EARLIER)
