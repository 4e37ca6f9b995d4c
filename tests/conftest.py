"""Fixtures: real brokers shared by all tests of a run, brokers of a test's own, names of a test's own."""

import itertools
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.demo.artemis import ArtemisBroker, ha_pair
from penstock.demo.broker import Broker
from penstock.demo.openmq import OpenMQBroker
from rig.fleet import SHARED, Fleet

_FLEET = pytest.StashKey[Fleet]()
_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    """The brokers of this run; none is started yet."""
    config.stash[_FLEET] = Fleet()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start the shared brokers that the chosen tests need, while the first tests run."""
    if not session.config.option.collectonly:
        wanted = {name for item in session.items for name in _named(item)}
        for name in SHARED:
            if name in wanted:
                session.config.stash[_FLEET].want(name)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End them."""
    config.stash[_FLEET].close()


def _named(item: pytest.Item) -> Iterator[object]:
    """The fixtures that a test names, also as a parameter (`request.getfixturevalue`)."""
    yield from getattr(item, "fixturenames", ())
    if call := getattr(item, "callspec", None):
        yield from (value for value in call.params.values() if isinstance(value, str))


@pytest.fixture(scope="session")
def artemis(request: pytest.FixtureRequest) -> Broker:
    """The newest complete Artemis, shared; accounts admin, billing, orders and the read-only exporter."""
    return request.config.stash[_FLEET].get("artemis")


@pytest.fixture(scope="session")
def artemis_2_28(request: pytest.FixtureRequest) -> Broker:
    """Artemis 2.28.0 (AMQ Broker 7.11), shared; accounts as `artemis`."""
    return request.config.stash[_FLEET].get("artemis_2_28")


@pytest.fixture(scope="session")
def artemis_2_21(request: pytest.FixtureRequest) -> Broker:
    """Artemis 2.21.0 (AMQ Broker 7.10), shared; accounts as `artemis`."""
    return request.config.stash[_FLEET].get("artemis_2_21")


@pytest.fixture(scope="session")
def artemis_newest(request: pytest.FixtureRequest) -> Broker:
    """The newest Artemis that can be embedded, shared; Jolokia as an agent, account admin."""
    return request.config.stash[_FLEET].get("artemis_newest")


@pytest.fixture(scope="session")
def openmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenMQBroker]:
    """An OpenMQ, shared; its Jolokia agent lets the account `penstock` read, JMX is for admin."""
    broker = OpenMQBroker.create(tmp_path_factory.mktemp("openmq") / "shared", heap_mb=512, hostname=False)
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def own_artemis(tmp_path: Path) -> Iterator[Callable[..., ArtemisBroker]]:
    """Makes a started broker of the test's own, to kill, freeze or restart; options of ArtemisBroker.create."""
    brokers: list[ArtemisBroker] = []

    def make(**options: Any) -> ArtemisBroker:
        brokers.append(broker := ArtemisBroker.create(tmp_path / f"broker-{len(brokers)}", **options))
        broker.start()
        return broker

    yield make
    for broker in brokers:
        broker.kill()


@pytest.fixture
def artemis_pair(tmp_path: Path) -> Iterator[tuple[ArtemisBroker, ArtemisBroker]]:
    """A live broker and its backup on a shared store, both started, of the test's own."""
    pair = ha_pair(tmp_path / "pair")
    try:
        for broker in pair:
            broker.start()
        yield pair
    finally:
        for broker in pair:
            broker.kill()


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Makes names of queues, addresses, clients that no other test uses: `unique("ring")` is `ring.7.test_name`."""
    test = re.sub(r"\W+", "_", request.node.name)
    return lambda name: f"{name}.{next(_numbers)}.{test}"


@pytest.fixture(autouse=True)
def log_as_it_was() -> Iterator[None]:
    """The commands set up the log of the process; what other tests read of it must not depend on that."""
    root, own = logging.getLogger(), logging.getLogger("penstock")
    handlers, levels = root.handlers[:], (root.level, own.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    own.setLevel(levels[1])
