"""`python -m penstock_demo.trends DIRECTORY`: the trend report of an imagined history (penstock[trends], Java 17)."""

from pathlib import Path

import click

from penstock.history.store import Store
from penstock.tui.lines import say
from penstock_demo.history import Fleet, generate
from penstock_trends import job, report


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option("--days", type=click.IntRange(1, 400), default=90, show_default=True, help="Days of history to imagine.")
@click.option("--queues", type=click.IntRange(1, 1000), default=8, show_default=True, help="Queues of each broker.")
def demo(directory: Path, days: int, queues: int) -> None:
    """Imagine the history of two brokers in DIRECTORY and report on it."""
    say(f"imagining {days} days of 2 brokers with {queues} queues each", err=True)
    generate(Store(str(directory / "history")), Fleet(brokers=2, queues=queues, days=days, interval=300, consumers=2))
    results = directory / "trends"
    job.run(str(directory / "history"), str(results), None, lambda text: say(text, err=True))
    say(str(results / report.REPORT))


if __name__ == "__main__":
    demo()
