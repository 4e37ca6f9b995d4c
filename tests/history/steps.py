"""Whatever step of writing, publishing and joining a kill comes before: the next start is whole."""

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from history.episodes import episodes
from history.polls import Clock, files, recorded, rows, writer
from penstock.conditions.condition import ActiveCondition, Severity
from penstock.history.compact import Keep, read_notes, tidy
from penstock.history.publish import RAW
from penstock.history.schema import ROW_TYPES
from penstock.history.store import Store

POLLS = 12
RUN = 400_000.0
"""Seconds from one run to the next: days, so that all of it is joined."""


def condition(poll: int) -> list[ActiveCondition]:
    """What stands at a poll of a run: from the fourth to the ninth."""
    return (
        [ActiveCondition("stalled", "b", "a", "q", "c", Severity.WARNING, 0.0)]
        if 3 <= poll < 9
        else []
    )


def told(directory: Path, step: int, run: int) -> tuple[list[float], int, int]:
    """Stamps that were safe, how many steps there were (0 where it was killed), and how it ended."""
    done = subprocess.run(
        [sys.executable, "-m", "history.steps_child", str(directory), str(step), str(run)],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1],
    )  # fmt: skip
    lines = done.stdout.split("\n")[:-1]
    steps = [int(line.split()[1]) for line in lines if line.startswith("steps")]
    return (
        [float(line) for line in lines if not line.startswith("steps")],
        sum(steps),
        done.returncode,
    )


def total(directory: Path) -> int:
    """How many steps there are."""
    return told(directory, -1, 1)[1]


def killed_and_started_again(directory: Path, step: int) -> None:
    """Two runs, the first killed before this step; then the rest is published and joined."""
    safe, _, ended = told(directory, step, 1)
    assert ended == -signal.SIGKILL, "there is such a step"
    store = Store(str(directory / "history"))
    assert_once(store, set(), safe, complete=False)
    more, _, ended = told(directory, -1, 2)
    assert ended == 0
    clock = Clock()
    clock.now = 3 * RUN
    last = writer(directory, clock)
    last.recall()
    last.finish()
    for _ in range(2):
        tidy(store, Keep(days=400.0), 3 * RUN)
    assert_once(store, {*safe, *more}, [*safe, *more], complete=True)
    assert read_notes(store) == {}
    assert {entry.path for entry in store.files(RAW)} == {
        entry.path for entry in files(store)
    }
    assert [
        path.name for path in (directory / "spool").iterdir() if path.is_dir()
    ] == []
    found = episodes(rows(store, "condition"), 3 * RUN)
    assert not any(one.open for one in found)
    assert len(found) >= (2 if len(safe) > 3 else 1), "each run had one"


def assert_once(
    store: Store, wanted: set[float], safe: list[float], *, complete: bool
) -> None:
    """No row stands twice, and each poll that was told to be safe is there when all is published."""
    for kind in ROW_TYPES:
        doubled = [
            row
            for row, times in Counter(map(str, rows(store, kind))).items()
            if times > 1
        ]
        assert not doubled, f"{kind}: {doubled[:1]}"
    found = [float(str(row["agent_clock"])) for row in rows(store, "broker")]
    if complete:
        assert wanted <= set(found)
        assert len(set(found) - wanted) <= 1, (
            "at most the poll under way is more than what was told"
        )
        queues = len(recorded("healthy")[0].queues or ())
        assert len(rows(store, "queue")) == queues * len(found)
    else:
        assert len(set(found) - set(safe)) <= 1
