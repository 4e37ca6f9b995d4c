"""`penstock record`: the raw answers of each poll to a file, for support cases and tests."""

import re
import time
from contextlib import aclosing
from pathlib import Path

import click

from penstock.agent import Result
from penstock.cli import options
from penstock.cli.polling import open_poller, polls_of
from penstock.config import load
from penstock.config.values import format_size
from penstock.core.errors import PenstockError
from penstock.transports.recording import MAX_BYTES, RecordingFile
from penstock.tui.lines import say


@options.command()
@options.config_file
@click.option("--broker", "name")
@click.option("--polls", type=click.IntRange(min=1), default=20)
@click.option("--output", type=options.FILE)
@click.option("--max-size", "limit", type=options.SIZE, default=format_size(MAX_BYTES))
async def record(
    config_file: Path, name: str | None, polls: int, output: Path | None, limit: int
) -> int:
    """Record the raw answers of a broker to a file, for support and tests.

    The file holds names of queues, users and clients, and no password; only you can read it. Read it back with
    `transport: recording` and `url: recording:FILE`. Control-C ends early and keeps what was written.
    """
    config = load(config_file)
    broker = options.chosen(config, name)
    plain = re.sub(r"[^\w.-]", "_", broker.name)
    path = output or Path(f"{plain}-{time.strftime('%Y%m%dT%H%M%S')}.jsonl.gz")
    file = RecordingFile(path, limit)
    poller = open_poller(config, broker, file)
    failed = 0
    try:
        async with aclosing(
            polls_of(poller, config.interval_of(broker), polls)
        ) as made:
            async for poll in made:
                failed += poll.result is Result.FAILED
                file.end_poll()
                if file.full:
                    break
    finally:
        say(
            f"written: {path} ({path.stat().st_size} bytes, {file.polls} polls)",
            err=True,
        )
    if file.full:
        left_out = f"the last {polls - file.polls} of {polls} polls have no room in {format_size(limit)}"
        raise PenstockError(
            f"{path}: {left_out}; what was written can be read, give a larger --max-size for the rest"
        )
    return int(failed == polls)
