"""`penstock once`: one poll, to stdout."""

import sys
from pathlib import Path

import click
from rich.console import Console

from penstock import __version__
from penstock.agent import Result
from penstock.cli import options
from penstock.cli.overview import overview
from penstock.cli.polling import poll_once, with_found
from penstock.config import load
from penstock.exposition.body import Exposition
from penstock.exposition.self_metrics import SelfMetrics
from penstock.exposition.syntax import Format
from penstock.tui.lines import say

FORMATS = {"metrics": Format.TEXT, "openmetrics": Format.OPENMETRICS}


@options.command()
@options.config_file
@click.option("--broker", "name")
@click.option(
    "--format", "form", type=click.Choice([*FORMATS, "table"]), default="metrics"
)
async def once(config_file: Path, name: str | None, form: str) -> int:
    """Poll each broker once and print its metrics.

    Exit status 1 when a broker could not be read.
    """
    config, _ = await with_found(load(config_file), config_file)
    brokers = config.brokers if name is None else (options.chosen(config, name),)
    pollers = await poll_once(config, brokers)
    if form == "table":
        Console().print(overview(pollers))
    else:
        body = Exposition(SelfMetrics(__version__).render)
        for poller in pollers:
            body.set_broker(poller.name, poller.assessor.blocks)
        for piece in body.chunks(FORMATS[form], gzip=False):
            sys.stdout.buffer.write(piece)
        sys.stdout.flush()
    polls = [
        (poller.name, poller.last) for poller in pollers if poller.last is not None
    ]
    for broker, poll in polls:
        if poll.result is not Result.OK:
            say(f"penstock: broker {broker}: {poll.error}", err=True)
    return int(any(poll.result is Result.FAILED for _, poll in polls))
