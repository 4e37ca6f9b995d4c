"""`penstock run`: the agent."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from penstock.agent import Agent, process
from penstock.agent.service_manager import ServiceManager
from penstock.agent.shard import parse_shard
from penstock.cli import logs, options
from penstock.cli.signals import Signals
from penstock.core.errors import PenstockError
from penstock.core.tasks import Stopped, end
from penstock.core.watched_files import Contents, FileContents
from penstock.server import DEFAULT_ADDRESS, make_app, make_probe_app, serve

if TYPE_CHECKING:
    from penstock.server.authentication import Authentication, RefusedLogin


class AppOptions(TypedDict, total=False):
    """The options of the application: which requests it takes."""

    lifecycle: bool
    allowed_hosts: Sequence[str]


class ServerOptions(AppOptions):
    """The options of the server: where it listens, and which requests it takes."""

    listen_addresses: Sequence[str]
    probe_listen_address: str | None
    web_config_file: Path | None


log = logging.getLogger(__name__)

MOST_PROBES = 64
"""Connections at once at the address for probes."""
WATCH_SECONDS = 2.5
"""Between two looks at the configuration file; a change is taken by the second look that finds it."""


@options.command()
@options.config_file
@click.option("--config.watch", "watch", is_flag=True)
@click.option(
    "--web.listen-address",
    "listen_addresses",
    multiple=True,
    default=(DEFAULT_ADDRESS,),
)
@click.option("--web.probe-listen-address", "probe_listen_address", metavar="ADDRESS")
@click.option("--web.enable-lifecycle", "lifecycle", is_flag=True)
@click.option("--web.allowed-host", "allowed_hosts", metavar="NAME", multiple=True)
@options.web_config_file
@click.option(
    "--storage.path",
    "storage",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("data"),
)
@click.option(
    "--shard", metavar="ORDINAL/COUNT", envvar="PENSTOCK_SHARD", show_envvar=True
)
@click.option(
    "--processes",
    type=options.Parsed("auto|number", process.worker_processes),
    default="auto",
    envvar="PENSTOCK_PROCESSES",
    show_envvar=True,
)
@click.option(
    "--log.level", "log_level", type=click.Choice(logs.LEVELS), default="info"
)
@click.option(
    "--log.format", "log_format", type=click.Choice(logs.FORMATS), default="logfmt"
)
async def run(
    config_file: Path,
    storage: Path,
    shard: str | None,
    processes: int,
    log_level: str,
    log_format: str,
    *,
    watch: bool,
    **server: Unpack[ServerOptions],
) -> int:
    """Run the agent: poll the brokers, serve /metrics, the API and the status page.

    SIGHUP reloads the configuration, as do POST /-/reload (with --web.enable-lifecycle) and a change of the file (with
    --config.watch). SIGTERM and SIGINT stop the agent.
    """
    signals = Signals(
        on_stop=process.last_resort().start
    )  # the first: a signal may come at any moment
    process.tune()
    logs.set_up(log_level, log_format)
    worker = (sys.executable, "-P", "-m", "penstock.cli.worker", log_level, log_format)
    file = FileContents()
    read = file.of(
        [config_file]
    )  # before the agent reads it: what changes from here on is a change
    agent = Agent(
        config_file, storage, parse_shard(shard) if shard else None, worker, processes
    )
    agent.service_manager = ServiceManager.from_environment()
    async with _served(agent, **server):
        reloads = [
            asyncio.create_task(
                _reload_when_asked(agent, signals.reload_asked), name="reloads"
            )
        ]
        if watch:
            changes = _changes(config_file, file, read, signals.reload_asked.set)
            reloads.append(asyncio.create_task(changes, name="watch the configuration"))
        try:
            await _watch(agent, signals.stop_asked)
        finally:
            await end(*reloads)
    return 0


async def _reload_when_asked(agent: Agent, asked: asyncio.Event) -> None:
    """One reload after the other, for ever; of requests that come during one another one is made."""
    while True:
        await asked.wait()
        asked.clear()
        try:
            await agent.reload()
        except Stopped:
            return
        except PenstockError as error:
            log.error("the configuration was not taken, the old one stays: %s", error)  # noqa: TRY400 - expected


async def _changes(
    config_file: Path, file: FileContents, read: Contents, reload: Callable[[], None]
) -> None:
    """Reload when it holds something else than was read, also where a link to it was moved, as Kubernetes does.

    A file may be read while it is being written: two looks in a row must find the same contents.
    """
    last_look = read
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        contents = await asyncio.to_thread(file.of, [config_file])
        at_rest = contents == last_look
        last_look = contents
        if (
            contents and at_rest and contents != read
        ):  # not found: it is being replaced; the agent goes on with what it has
            read = contents
            reload()


@asynccontextmanager
async def _served(
    agent: Agent,
    *,
    listen_addresses: Sequence[str],
    probe_listen_address: str | None,
    web_config_file: Path | None,
    **app_options: Unpack[AppOptions],
) -> AsyncIterator[None]:
    """The agent on the addresses of the command line. PenstockError: it cannot be served there."""
    app = make_app(agent.lookups, **app_options)
    authentication = authentication_of(web_config_file, agent.refused_logins.note)
    agent.web_configuration = authentication
    probed = [] if probe_listen_address is None else [probe_listen_address]
    async with (
        serve(
            make_probe_app(agent.lookups), probed, max_connections=MOST_PROBES
        ) as probe_addresses,
        serve(app, listen_addresses, authentication=authentication) as addresses,
    ):
        if probe_addresses:
            log.info("serving probes on %s", ", ".join(map(str, probe_addresses)))
        log.info("serving /metrics on %s", ", ".join(map(str, addresses)))
        yield


async def _watch(agent: Agent, stopping: asyncio.Event) -> None:
    """Until `stopping`, which may be before all has started. ConfigError: it cannot start."""
    starting = asyncio.create_task(agent.start())
    asked_to_stop = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait(
            [starting, asked_to_stop], return_when=asyncio.FIRST_COMPLETED
        )
        if not asked_to_stop.done():
            await starting
            await asked_to_stop
        log.info("stopping")
    finally:
        await agent.stop()
        await end(starting, asked_to_stop)
        if starting.done() and not starting.cancelled():
            starting.exception()  # known: it has stopped


def authentication_of(
    web_config_file: Path | None, refused: "RefusedLogin | None" = None
) -> "Authentication | None":
    """What the web configuration says; `refused` notes logins that are. ConfigError when it cannot be taken."""
    if web_config_file is None:
        return None
    from penstock.server.authentication import Authentication  # noqa: PLC0415 - without it its libraries are not needed

    return Authentication(web_config_file, refused)
