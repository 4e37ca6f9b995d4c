"""Agents that watch the shared brokers for the whole run."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from e2e.agent import Agent, Scrape, entry
from penstock_demo.broker import Broker
from rig.day_and_night import versions
from rig.waiting import PATIENCE

LAST = "test_families_seen"
WANTED = {
    "match": {"queue": "targets.#"},
    "expected_consumers": 1,
    "ring_retention": "60s",
    "drain_target": "30s",
}
"""What an operator wants of the queues that a test names so."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What judges all scrapes of the run comes last."""
    items.sort(key=lambda item: item.name == LAST)


@dataclass(frozen=True, slots=True)
class Observer:
    """A broker and the agent that watches it alone, at 1 s, with the least rights there are."""

    broker: Broker
    agent: Agent

    def fresh(self, *, accept: str = "text/plain") -> Scrape:
        """What was read after this call."""
        return self.agent.fresh(self.broker.name, accept=accept)

    def until(
        self,
        get: Callable[[Scrape], object],
        expected: object,
        *,
        timeout: float = PATIENCE,
    ) -> Scrape:
        """The first scrape of which `get` gives `expected`."""
        return self.agent.until(get, expected, timeout=timeout)


@pytest.fixture(scope="session")
def observe(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[Broker], Observer]]:
    """Makes, once, the observer of a shared broker."""
    observers: dict[str, Observer] = {}
    with ExitStack() as agents:

        def observer(broker: Broker) -> Observer:
            if broker.name not in observers:
                folder = tmp_path_factory.mktemp("agent") / broker.name
                agent = Agent(folder, brokers=[entry(broker)], rules=[WANTED])
                observers[broker.name] = Observer(broker, agents.enter_context(agent))
            return observers[broker.name]

        yield observer


@pytest.fixture(params=versions("artemis", "artemis_2_28", "artemis_newest"))
def observer(
    request: pytest.FixtureRequest, observe: Callable[[Broker], Observer]
) -> Observer:
    """Each version that shows everything: the usual one, the oldest, the newest."""
    return observe(request.getfixturevalue(request.param))


@pytest.fixture(scope="session")
def main_observer(artemis: Broker, observe: Callable[[Broker], Observer]) -> Observer:
    """The usual version alone."""
    return observe(artemis)
