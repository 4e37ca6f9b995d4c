"""
`make flowbench-generated [SEED= COUNT= LOAD= HEALTHY=]`: plays what the grammar makes, twenty situations at once, and
prints a line each, tables by dimension and a JSON object.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from flowbench.bench import Run, play
from flowbench.generated import artemis, openmq
from flowbench.generated.clients import queue_of
from flowbench.generated.grammar import Situation, situations
from flowbench.generated.score import (
    Outcome,
    Seen,
    Watch,
    bound_of,
    by_dimension,
    figures,
    outcome,
)
from flowbench.scene import Place
from penstock.settings.calendar import HOURS, Calendar
from penstock_trends.normal import profile_of
from penstock_trends.profiles import profile_table

AT_ONCE = 20
INTERVAL = 4.0
SECONDS = 385.0
COLD = 80.0
TREND = 150.0
"""Situations, seconds between polls, for which all play, of patience before anything is learned, and of trends."""
START = 20.0
LONGEST = {"steady": 2.0, "bursts": 12.0, "trickle": 6.0}
"""Seconds between two messages at most, by rhythm."""


def profiles(chosen: Sequence[Situation], file: Path) -> None:
    """The file that a trend job would have made of four weeks in which each was healthy."""
    hours = Calendar("UTC").hour(time.time()) - np.arange(4 * HOURS, 0, -1)
    rows = []
    for one in chosen:
        rate = {"trickle": 0.25}.get(
            one.rhythm, round(one.rate) if one.client == "openmq" else one.rate
        )
        flow = np.full(len(hours), 3600.0 * rate)
        columns = {
            "inflow": flow,
            "outflow": flow,
            "pause": np.full(len(hours), LONGEST[one.rhythm]),
        }
        broker = openmq.BROKER if one.client == "openmq" else Place.FAULTS.value
        rows.append((broker, (one.name, queue_of(one)), profile_of(hours, columns)))
    pq.write_table(profile_table(rows), file)


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes that only compute."""
    running = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(processes)
    ]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def played(
    chosen: Sequence[Situation], run: Run, folder: Path
) -> tuple[list[Outcome], set[str]]:
    """One batch, on an Artemis and an OpenMQ."""
    folder.mkdir(parents=True)
    watch = Watch({one.name: one for one in chosen})
    on_openmq = [one for one in chosen if one.client == "openmq"]
    on_artemis = [one for one in chosen if one.client != "openmq"]
    profiles([one for one in chosen if one.history], folder / "profiles.parquet")
    normal = {"profiles": str(folder / "profiles.parquet")}
    begins: dict[str, float] = {}
    void: dict[str, list[str]] = {one.name: [] for one in chosen}

    def second() -> None:
        said = folder / "openmq", watch.take, run.interval, run.seconds, run.cold
        ready, counts = openmq.play(on_openmq, *said, normal=normal)
        begins.update({one.name: openmq.begin_of(one, ready) for one in on_openmq})
        void.update({one.name: openmq.untrue(one, counts) for one in on_openmq})

    beside = threading.Thread(target=second, name="second broker")
    if on_openmq:
        beside.start()
    if on_artemis:
        scenarios = [artemis.scenario_of(one) for one in on_artemis]
        for result in play(
            scenarios, run, folder / "artemis", watch.take, normal=normal
        ):
            begins[result.name] = result.begin
            void[result.name] = list(result.untrue)
    if on_openmq:
        beside.join()
    for one in chosen:
        if one.name not in begins:
            void[one.name] = ["its broker or clients failed"]
        elif not one.healthy and not begins[one.name] == begins[one.name]:  # noqa: SIM201 - NaN
            void[one.name].append("the fault did not begin")
    return [
        outcome(
            one, watch.seen.get(one.name, Seen()), watch.began if one.healthy else begins.get(one.name, np.nan),
            bound_of(one, run.interval, run.cold), void[one.name],
        )
        for one in chosen
    ], watch.others  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="flowbench.generated")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument(
        "--load", type=int, default=0, help="processes that only compute, beside"
    )
    parser.add_argument(
        "--only", default="", help="parts of failures or names, by commas"
    )
    parser.add_argument(
        "--healthy", action="store_true", help="healthy situations only"
    )
    parser.add_argument(
        "--keep", type=Path, help="a new folder for recordings and logs"
    )
    wanted = parser.parse_args()
    made = situations(wanted.seed, wanted.count, only_healthy=wanted.healthy)
    chosen = [
        one
        for one in made
        if any(part in f"{one.failure} {one.name}" for part in wanted.only.split(","))
    ]
    outcomes: list[Outcome] = []
    others: set[str] = set()
    with ExitStack() as stack:
        folder = wanted.keep or Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix="penstock-generated-")
            )
        )
        stack.enter_context(busy(wanted.load))
        say("| situation | failure | | told | |\n|---|---|---|---|---|")
        for begin in range(0, len(chosen), AT_ONCE):
            run = Run(wanted.seed, INTERVAL, SECONDS, COLD, TREND, START)
            found, more = played(
                chosen[begin : begin + AT_ONCE], run, folder / str(begin)
            )
            outcomes = outcomes + found
            others = others | more
            for one in found:
                say(one.line())
    counted = [one for one in outcomes if not one.void]
    say("")
    for line in by_dimension(counted):
        say(line)
    for alarm in sorted(others):
        say(f"elsewhere: {alarm}")
    said = {
        "bench": "flowbench-generated",
        "seed": wanted.seed,
        "situations": len(outcomes),
        "load": wanted.load,
    }
    told = figures(counted)
    say(
        json.dumps(
            {
                **said,
                "void": len(outcomes) - len(counted),
                **told,
                "elsewhere": len(others),
            }
        )
    )
    wrong = (
        told["faults"]
        - told["right_condition"]
        + told["false_alarms"]
        + told["wrong_advice"]
        + len(others)
    )
    return int(wrong > 0)


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the result


if __name__ == "__main__":
    sys.exit(main())
