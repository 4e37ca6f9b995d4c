"""Single polls for the commands that do not stay: each broker asked once, without a server."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from penstock.agent import Watch
from penstock.agent.discovery import Discovery
from penstock.agent.opening import open_reader, policy_of
from penstock.config import Broker, Config


async def with_found(config: Config, config_file: Path) -> Config:
    """`config` with the brokers that discovery finds now; what it cannot read is logged."""
    brokers = await Discovery(config_file.parent).brokers(config, 0.0)
    return config.model_copy(update={"brokers": brokers})


async def poll_once(config: Config, brokers: Sequence[Broker]) -> list[Watch]:
    """Watches that have polled once, all at the same time, and are closed."""
    async with AsyncExitStack() as closing:
        watches = []
        for broker in brokers:
            watch = Watch(
                open_reader(config, broker),
                policy_of(config, broker),
                config.interval_of(broker),
                config.timeout_of(broker),
            )
            closing.push_async_callback(watch.close)
            watches.append(watch)
        await asyncio.gather(*(watch.poll() for watch in watches))
    return watches
