"""Single polls for the commands that do not stay: each broker asked once, without a server."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from penstock.agent import Assessor, Poller
from penstock.agent.discovery import Discovery, SourcePlace, resolve
from penstock.agent.factory import open_reader, policy_of
from penstock.config import Broker, Config, DnsTarget
from penstock.transports.recording import RecordingFile


async def with_found(config: Config, config_file: Path, *, ask_dns: bool = True) -> tuple[Config, Mapping[str, str]]:
    """`config` with the brokers that discovery finds now, and what it cannot use, by its source; that is logged too."""
    discovery = Discovery(config_file.parent, resolve if ask_dns else _nothing)
    brokers = await discovery.brokers(config, 0.0)
    return config.model_copy(update={"brokers": brokers}), discovery.faults


async def _nothing(_: DnsTarget) -> Sequence[SourcePlace]:
    return ()


async def poll_once(config: Config, brokers: Sequence[Broker]) -> list[Poller]:
    """Pollers that have polled once, all at the same time, and are closed."""
    async with AsyncExitStack() as closing:
        pollers = []
        for broker in brokers:
            pollers.append(open_poller(config, broker))
            closing.push_async_callback(pollers[-1].close)
        await asyncio.gather(*(poller.poll() for poller in pollers))
    return pollers


def open_poller(config: Config, broker: Broker, record: RecordingFile | None = None) -> Poller:
    """For single polls; with `record` every raw answer is also written to that file. Raises ConfigError."""
    assessor = Assessor(policy_of(config, broker), config.interval_of(broker))
    return Poller(open_reader(config, broker, record=record), assessor, config.timeout_of(broker))
