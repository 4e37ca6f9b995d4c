"""Single polls for the commands that do not stay: each broker asked once, without a server."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from penstock.agent import Assessor, Poller, PollResult, Result
from penstock.agent.discovery import Discovery, SourcePlace, resolve
from penstock.agent.factory import open_reader, policy_of
from penstock.config import Broker, Config, DnsTarget
from penstock.transports.recording import RecordingFile
from penstock.tui.lines import say


async def with_found(
    config: Config, config_file: Path, *, ask_dns: bool = True
) -> tuple[Config, Mapping[str, str]]:
    """`config` with the brokers that discovery finds now, and what it cannot use, by its source; that is logged too."""
    discovery = Discovery(config_file.parent, resolve if ask_dns else _nothing)
    brokers = await discovery.brokers(config, 0.0)
    return config.model_copy(update={"brokers": brokers}), discovery.faults


async def _nothing(_: DnsTarget) -> Sequence[SourcePlace]:
    return ()


async def poll_once(config: Config, brokers: Sequence[Broker]) -> list[Poller]:
    """Pollers that have polled once, all at the same time, and are closed."""
    async with opened(config, brokers) as pollers:
        await asyncio.gather(*(poller.poll() for poller in pollers))
    return pollers


async def poll_with_second_try(
    config: Config, brokers: Sequence[Broker]
) -> tuple[list[Poller], list[str]]:
    """Pollers as of `poll_once`, of which those that could not read all have polled twice.

    Returns:
        The pollers, and for each why its first poll could not read all where the second one could, else an empty text.
    """
    async with opened(config, brokers) as pollers:
        slow = await asyncio.gather(
            *(_why_first_try_failed(poller) for poller in pollers)
        )
    return pollers, slow


async def _why_first_try_failed(poller: Poller) -> str:
    """Poll, and once more where the first poll failed and the second may not.

    A broker that is busy for a moment, or compiles what answers a first request, takes longer than usual. One that
    refused the login is left alone: more failed logins would lock the account.
    """
    first = await poller.poll()
    if first.result is Result.OK or first.pause > 0:
        return ""
    second = await poller.poll()
    return first.error if second.result is Result.OK else ""


@asynccontextmanager
async def opened(
    config: Config, brokers: Sequence[Broker]
) -> AsyncIterator[list[Poller]]:
    """A poller for each broker, closed at the end."""
    async with AsyncExitStack() as closing:
        pollers = []
        for broker in brokers:
            poller = open_poller(config, broker)
            closing.push_async_callback(poller.close)
            pollers.append(poller)
        yield pollers


async def polls_of(
    poller: Poller, interval: float, most: int
) -> AsyncGenerator[PollResult, None]:
    """So many polls at this interval, each reported; the poller is closed then."""
    try:
        for number in range(1, most + 1):
            began = time.monotonic()
            poll = await poller.poll()
            say(
                f"poll {number} of {most}: {poll.result} {poll.error}".rstrip(),
                err=True,
            )
            yield poll
            if number < most:
                await asyncio.sleep(max(0.0, began + interval - time.monotonic()))
    finally:
        await poller.close()


def open_poller(
    config: Config, broker: Broker, record: RecordingFile | None = None
) -> Poller:
    """For single polls; with `record` every raw answer is also written to that file. Raises ConfigError."""
    assessor = Assessor(policy_of(config, broker), config.interval_of(broker))
    return Poller(
        open_reader(config, broker, record=record), assessor, config.timeout_of(broker)
    )
