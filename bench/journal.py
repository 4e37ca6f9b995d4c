"""
`make bench-journal`: what it costs to record a poll before it is shown, beside the poll's assessment. Last line: JSON.

The polls are made up, a fifth of the queues works, a hundredth of the consumers reconnects. Wall-clock time: what is
recorded is written to a file.
"""

import json
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import click
from bench.harness import NO_LIMITS, facts
from bench.judge import Scene
from bench.world import SECONDS_A_POLL

from penstock.agent import Assessor, PollResult, Result, process
from penstock.agent.checkpoints import Checkpoints, _keep, _write
from penstock.agent.workers import Workers
from penstock.settings.policy import Policy

SIZES = ((100, 500), (10_000, 50_000))
"""Queues, consumers."""
WARM_UP = 5


@click.command()
@click.option("--polls", default=40, show_default=True)
@click.option("--active", default=0.2, show_default=True, help="Share of the queues that work.")
def main(polls: int, active: float) -> None:
    process.tune()
    result: dict[str, Any] = {}
    for queues, consumers in SIZES:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            result[f"{queues}_queues"] = measured(Path(folder), Scene(queues, consumers, active=active), polls)
    print(json.dumps({"bench": "journal", "polls": polls, "active": active, **result, **facts()}))


def measured(folder: Path, scene: Scene, polls: int) -> dict[str, float]:
    kept = Checkpoints(folder, Workers(), lambda _: None)
    kept.load()
    assessor = Assessor(Policy("bench", limits=NO_LIMITS), SECONDS_A_POLL)
    journal = folder / "state.journal"
    assess, record, size = [], [], []
    for number in range(WARM_UP + polls):
        snapshot = scene.step(0.01, 0.0)
        began = time.perf_counter()
        assessor.take(snapshot)
        events = list(assessor.changes(PollResult(Result.OK)))
        assessed = time.perf_counter()
        before = journal.stat().st_size if journal.exists() else 0
        kept.record(assessor, events)
        recorded = time.perf_counter()
        if number >= WARM_UP:
            assess.append(assessed - began)
            record.append(recorded - assessed)
            size.append(journal.stat().st_size - before)
        elif number == 0:
            first, first_bytes = recorded - assessed, journal.stat().st_size
    file = kept._file  # noqa: SLF001 - a save, without the loop that asks for it
    assert file is not None
    began = time.perf_counter()
    _write(file, [assessor], _keep(file, [assessor]))
    saved = time.perf_counter() - began
    kept.close()
    return {
        "assess_ms": round(1000 * median(assess), 2),
        "record_ms": round(1000 * median(record), 3),
        "record_most_ms": round(1000 * max(record), 2),
        "record_kb": round(median(size) / 1000, 1),
        "first_ms": round(1000 * first, 1),
        "first_kb": round(first_bytes / 1000, 1),
        "save_ms": round(1000 * saved, 1),
        "state_kb": round((folder / "state.bin").stat().st_size / 1000, 1),
    }


if __name__ == "__main__":
    main()
