"""`python -m penstock_demo.trends DIRECTORY`: the trend report of an imagined history (penstock[trends], Java 17)."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import click

from penstock.core.formatting import duration
from penstock.history.store import Store
from penstock.tui.lines import say
from penstock_demo.history import Fleet, generate
from penstock_trends import job, report
from penstock_trends.tiers import CHUNK

STEPS = {"rolling up": 0.15, "analysing": 0.6, "replaying": 0.9}
"""How much of the whole time is over when a step begins, as measured."""


class Progress:
    """Says each step with the time since the start, and about how long the rest takes, by how it went so far."""

    def __init__(
        self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say = say
        self._clock = clock
        self._begun = clock()

    def __call__(self, step: str) -> None:
        passed = self._clock() - self._begun
        done = self.share(step)
        left = (
            f", about {duration(passed / done - passed)} left"
            if done > 0 and passed > 0
            else ""
        )
        self._say(f"[{duration(round(passed))}{left}] {step}")

    def share(self, step: str) -> float:
        """Return the share of the whole time that is over when this step begins; 0 where nothing is known."""
        begin = next(
            (share for name, share in STEPS.items() if step.startswith(name)), 0.0
        )
        day = re.search(r"day (\d+) of (\d+)$", step)
        rolling = STEPS["analysing"] - STEPS["rolling up"]
        return (
            begin + rolling * max(int(day[1]) - CHUNK, 0) / int(day[2])
            if day
            else begin
        )


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--days",
    type=click.IntRange(1, 400),
    default=90,
    show_default=True,
    help="Days of history to imagine.",
)
@click.option(
    "--queues",
    type=click.IntRange(1, 1000),
    default=8,
    show_default=True,
    help="Queues of each broker.",
)
def demo(directory: Path, days: int, queues: int) -> None:
    """Imagine the history of two brokers in DIRECTORY and report on it."""
    progress = Progress(lambda line: say(line, err=True))
    progress(f"imagining {days} days of 2 brokers with {queues} queues each")
    generate(
        Store(str(directory / "history")),
        Fleet(brokers=2, queues=queues, days=days, interval=300, consumers=2),
    )
    results = directory / "trends"
    job.run(str(directory / "history"), str(results), None, progress)
    say(str(results / report.REPORT))


if __name__ == "__main__":
    demo()
