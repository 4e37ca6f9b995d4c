"""The brokers of a configuration, each with the task that polls it; the change to another configuration."""

import asyncio
import contextlib
import logging
from collections.abc import (
    Callable,
    Collection,
    Container,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from functools import partial

from penstock.agent.checkpoints import Checkpoints
from penstock.agent.factory import policy_of
from penstock.agent.poller import Poller
from penstock.config import Broker, Config
from penstock.core.tasks import end
from penstock.exposition.body import Exposition
from penstock.settings.policy import Policy

log = logging.getLogger(__name__)

SPREAD_SECONDS = 5.0
"""Within this time after the start all brokers are polled for the first time, one after the other."""
CLOSE_SECONDS = 1.5
"""For how long the closing of a broker's connection is waited for."""


@dataclass(frozen=True, slots=True)
class Polled:
    broker: Broker
    poller: Poller
    task: asyncio.Task[None]


class Fleet:
    """Changed by the event loop only; `config` and `polled` are replaced, never altered: any thread may read them."""

    def __init__(
        self,
        config: Config,
        open_poller: Callable[[Config, Broker], Poller],
        exposition: Exposition,
        kept: Checkpoints,
    ) -> None:
        """open_poller: raises ConfigError when there cannot be one. kept: where what is known of a broker goes."""
        self.config = config
        """In force, with the brokers of discovery."""
        self.polled: Mapping[str, Polled] = {}
        self.elsewhere: Callable[[], Container[str]] = tuple
        """Brokers of the configuration that are polled by other processes."""
        self._open_poller = open_poller
        self._exposition = exposition
        self._kept = kept
        self._ending: set[asyncio.Task[None]] = set()
        """Of brokers that are polled no longer."""

    def in_order(self) -> list[Polled]:
        polled = self.polled
        return [
            polled[broker.name]
            for broker in self.config.brokers
            if broker.name in polled
        ]

    def plan(self, config: Config) -> Callable[[], None]:
        """The step to `config`, which is to be done. Whatever is raised, nothing has changed."""
        elsewhere = self.elsewhere()
        own_brokers = [
            broker for broker in config.brokers if broker.name not in elsewhere
        ]
        policies = {broker.name: policy_of(config, broker) for broker in own_brokers}
        opened: list[tuple[Broker, Poller]] = []
        try:
            for broker in own_brokers:
                if self._differs(config, broker):
                    opened.append((broker, self._open_poller(config, broker)))  # noqa: PERF401 - one may raise
        except BaseException:
            for broker, poller in opened:
                self._later(broker.name, _close(poller))
            raise
        return partial(self._switch, config, opened, policies)

    def _differs(self, config: Config, broker: Broker) -> bool:
        """Whether the broker needs another poller; a new policy alone does not."""
        polled = self.polled.get(broker.name)
        return (
            polled is None
            or polled.broker != broker
            or config.clients != self.config.clients
            or config.budgets_of(broker).rows()
            != self.config.budgets_of(polled.broker).rows()
            or polled.poller.interval != config.interval_of(broker)
            or polled.poller.timeout != config.timeout_of(broker)
        )

    def _switch(
        self,
        config: Config,
        opened: Sequence[tuple[Broker, Poller]],
        policies: Mapping[str, Policy],
    ) -> None:
        """New ones begin when those that go have ended. opened: of brokers that are new or differ; policies: of all."""
        changed = {broker.name for broker, _ in opened}
        self._leave(
            [name for name in self.polled if name in changed or name not in policies]
        )
        for name, polled in self.polled.items():
            if policies[name] != polled.poller.assessor.next_policy:
                polled.poller.assessor.next_policy = policies[name]
        before = frozenset(self._ending)
        started = {}
        for number, (broker, poller) in enumerate(opened):
            first = SPREAD_SECONDS * number / len(opened)
            task = asyncio.create_task(
                poller.run(first, before), name=f"poll {broker.name}"
            )
            started[broker.name] = Polled(broker, poller, task)
            self._exposition.set_broker(broker.name, poller.assessor.blocks)
        self.polled = {**self.polled, **started}
        self.config = config

    def drop_all(self) -> None:
        """Poll no broker any longer; what is known of them is kept."""
        self._leave(list(self.polled))

    async def settled(self) -> None:
        """Wait until all that are polled no longer have ended."""
        while self._ending:
            await asyncio.wait(self._ending)

    def _leave(self, names: Collection[str]) -> None:
        for name in names:
            polled = self.polled[name]
            self._exposition.remove_broker(name)
            polled.task.cancel()
            self._later(name, self._end(polled))
        self.polled = {
            name: one for name, one in self.polled.items() if name not in names
        }

    async def _end(self, polled: Polled) -> None:
        await end(polled.task)
        name = polled.broker.name
        with _logged(name):
            if polled.task.done() and not polled.task.cancelled():
                polled.task.result()
        with _logged(name):
            await self._kept.keep(polled.poller.assessor)
        await _close(polled.poller)

    def _later(self, name: str, work: Coroutine[object, None, None]) -> None:
        """Do it beside, even if the caller is cancelled meanwhile."""

        async def done() -> None:
            with _logged(name):
                await work

        task = asyncio.create_task(done(), name=f"end {name}")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


async def _close(poller: Poller) -> None:
    async with asyncio.timeout(CLOSE_SECONDS):
        await poller.close()


@contextlib.contextmanager
def _logged(broker: str) -> Iterator[None]:
    """An error at the end of one broker is logged, and does not hinder the others."""
    try:
        yield
    except Exception:
        log.exception(
            "broker %s: its polling did not end as it should; please report this",
            broker,
        )
