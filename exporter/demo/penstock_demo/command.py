"""`penstock demo`: a real broker with load and faults, the agent beside it, and where to look."""

import asyncio
import contextlib
import signal
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.live import Live

from penstock.agent import Agent
from penstock.cli import logs, options
from penstock.cli.client import DEFAULT_URL
from penstock.cli.overview import overview
from penstock.server import Address, make_app, serve

if TYPE_CHECKING:
    from penstock_demo.run import Highlight

PRINT_SECONDS = 30.0
"""Where the output is no terminal, the table is printed this often."""


@options.command(
    "penstock demo",
    "penstock demo --scenario",
    "penstock demo --broker openmq --minutes 5",
)
@click.option(
    "--minutes",
    type=click.FloatRange(min=0.1),
    default=None,
    envvar="PENSTOCK_DEMO_MINUTES",
    help="End after this time; default: run until Control-C.",
)
@click.option(
    "--broker",
    "kind",
    type=click.Choice(["artemis", "openmq", "classic"]),
    default="artemis",
    help="Which broker to start.",
)
@click.option(
    "--scenario",
    "touring",
    is_flag=True,
    help="Take a tour: faults come and go, one every 3 to 4 minutes.",
)
@click.option("--keep", is_flag=True, help="Keep the broker's directory with its logs.")
@click.option(
    "--web.listen-address",
    "listen_addresses",
    multiple=True,
    default=("127.0.0.1:19771",),
    help="Where to serve.",
)
async def demo(
    minutes: float | None,
    kind: str,
    touring: bool,
    keep: bool,
    listen_addresses: tuple[str, ...],
) -> int:
    """Start a real broker with healthy traffic and some faults, and watch it.

    The broker is downloaded from Maven Central the first time (46, 18 or 50 MB, kept in ~/.cache/penstock). Needs
    Java 17 and Maven. With --scenario it is a tour of four faults, which says what you see when; it repeats, and may be
    left running. Control-C stops everything that was started.
    """
    logs.set_up("warning", "logfmt")
    from penstock_demo.run import Scenario  # noqa: PLC0415 - `penstock --help` needs none of it
    from penstock_demo.run_stomp import ClassicScenario, OpenMQScenario  # noqa: PLC0415
    from penstock_demo.tour import TourScenario, tour  # noqa: PLC0415

    console = Console()
    if touring and kind != "artemis":
        raise click.UsageError("--scenario needs --broker artemis")
    scenarios = {
        "artemis": TourScenario if touring else Scenario,
        "openmq": OpenMQScenario,
        "classic": ClassicScenario,
    }
    scenario = scenarios[kind](keep=keep)
    console.print(
        f"Starting a real {scenario.product} with its clients; the first time it is downloaded …"
    )
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    await asyncio.to_thread(scenario.start)
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-demo-config-") as folder:
            config = Path(folder) / "penstock.yaml"
            config.touch(mode=0o600)
            config.write_text(scenario.config_yaml(), encoding="utf-8")
            agent = Agent(config)
            async with serve(make_app(agent.lookups), listen_addresses) as addresses:
                await agent.start()
                try:
                    tell(
                        console,
                        scenario.describe(),
                        addresses,
                        scenario.directory if keep else None,
                    )
                    guide = asyncio.create_task(
                        tour(
                            scenario.begin,
                            scenario.end,
                            partial(stamped, console),
                            stopping,
                        )
                        if isinstance(scenario, TourScenario)
                        else stopping.wait()
                    )
                    await show(
                        console,
                        agent,
                        stopping,
                        None if minutes is None else minutes * 60,
                    )
                    stopping.set()
                    await guide
                finally:
                    await agent.stop()
    finally:
        await asyncio.to_thread(scenario.stop)
    console.print("Stopped everything that the demo had started.")
    return 0


def tell(
    console: Console,
    highlights: "Sequence[Highlight]",
    addresses: Sequence[Address],
    kept: Path | None,
) -> None:
    """Print what runs, what is to be seen, and where to look."""
    for highlight in highlights:
        where = (
            f"{highlight.queue}, {highlight.client}"
            if highlight.client
            else highlight.queue
        )
        console.print(
            f"  [bold]{where}[/bold]: {highlight.what}\n      → {highlight.expect}",
            highlight=False,
        )
    url = f"http://{addresses[0]}"
    asked = "" if url == DEFAULT_URL else f" --url {url}"
    for line in (
        f"\nOpen  {url}/  and  {url}/metrics",
        f"Try   penstock explain{asked}",
        f"      penstock top{asked}",
        f"      curl -s {url}/metrics | grep -e mq_queue_unhealthy -e evicted",
        *([f"The broker's directory stays: {kept}"] if kept is not None else []),
    ):
        console.print(line, soft_wrap=True, highlight=False)


def stamped(console: Console, line: str) -> None:
    """A line of the tour, with the time."""
    console.print(
        f"{time.strftime('%H:%M:%S')}  {line}",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )


async def show(
    console: Console, agent: Agent, stopping: asyncio.Event, seconds: float | None
) -> None:
    """The live table until `stopping` is set or `seconds` have passed."""
    end = None if seconds is None else time.monotonic() + seconds
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None
    printed = time.monotonic() - PRINT_SECONDS + 10
    with live or contextlib.nullcontext():
        while not stopping.is_set() and (end is None or time.monotonic() < end):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await stopping.wait()
            if live is not None:
                live.update(
                    overview(agent.pollers(), rows=max(3, (console.height - 8) // 3)),
                    refresh=True,
                )
            elif time.monotonic() - printed >= PRINT_SECONDS:
                printed = time.monotonic()
                console.print(overview(agent.pollers()))
