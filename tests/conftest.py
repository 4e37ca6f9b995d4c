"""Fixtures: real brokers shared by all tests of a run, brokers of a test's own, names of a test's own."""

import gc
import itertools
import logging
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from penstock.cli.logs import LogLine
from penstock_demo import ports
from penstock_demo.artemis import ArtemisBroker, ha_pair
from penstock_demo.broker import Broker
from penstock_demo.openmq import OpenMQBroker
from rig.fleet import SHARED, Fleet
from rig.groups import GroupScheduling, arrange, group_of, named

_FLEET = pytest.StashKey[Fleet]()
_BEGUN = pytest.StashKey[set[str]]()
_numbers = itertools.count(1)

# The same examples in each run: a change is red for what it changes, never by chance. `make fuzz` looks for new ones.
_SAME_EACH_TIME = settings(derandomize=True, database=None, deadline=None)
settings.register_profile("quick", _SAME_EACH_TIME, max_examples=10)
settings.register_profile("test", _SAME_EACH_TIME, max_examples=25)
settings.register_profile(
    "fuzz", deadline=None, max_examples=int(os.environ.get("PENSTOCK_FUZZ", "2000"))
)
settings.load_profile("test")


def pytest_configure(config: pytest.Config) -> None:
    """The brokers of this worker; none is started yet."""
    gc.set_threshold(
        100_000, 50, 100
    )  # pytest keeps much: a seventh of the time went into looking through it
    config.stash[_FLEET], config.stash[_BEGUN] = Fleet(), set()
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        ports.divide(
            int(worker.removeprefix("gw")), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        )


@pytest.hookimpl(optionalhook=True)  # xdist may be left out
def pytest_xdist_make_scheduler(
    config: pytest.Config, log: object
) -> GroupScheduling | None:
    """With `--dist loadscope`, groups in place of modules."""
    return (
        GroupScheduling(config, log)
        if config.getoption("dist") == "loadscope"
        else None
    )


@pytest.hookimpl(tryfirst=True)  # before -m looks at the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What each test needs, and in which order they run."""
    arrange(items)


def pytest_collection_finish() -> None:
    """What was collected stays: it need not be looked through again."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the first test of a group, start the shared brokers of all of them, side by side."""
    group = group_of(item.nodeid)
    if group and group not in item.config.stash[_BEGUN]:
        item.config.stash[_BEGUN].add(group)
        wanted = {
            name
            for one in item.session.items
            if group_of(one.nodeid) == group
            for name in named(one)
        }
        for name in SHARED.keys() & wanted:
            item.config.stash[_FLEET].want(name)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End them."""
    config.stash[_FLEET].close()


def shared(name: str, description: str) -> Callable[[pytest.FixtureRequest], Broker]:
    """The fixture of a broker of the fleet. description: shown by `pytest --fixtures`."""

    def broker(request: pytest.FixtureRequest) -> Broker:
        return request.config.stash[_FLEET].get(name)

    broker.__doc__ = description
    return pytest.fixture(broker, scope="session", name=name)


artemis = shared(
    "artemis",
    "The newest complete Artemis, shared; accounts admin, billing, orders and the read-only exporter.",
)
artemis_2_28 = shared(
    "artemis_2_28", "Artemis 2.28.0 (AMQ Broker 7.11), shared; accounts as `artemis`."
)
artemis_2_21 = shared(
    "artemis_2_21", "Artemis 2.21.0 (AMQ Broker 7.10), shared; accounts as `artemis`."
)
artemis_newest = shared(
    "artemis_newest",
    "The newest Artemis that can be embedded, shared; Jolokia as an agent, account admin.",
)


@pytest.fixture(scope="session")
def openmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenMQBroker]:
    """An OpenMQ, shared; its Jolokia agent lets the account `penstock` read, JMX is for admin."""
    broker = OpenMQBroker.create(
        tmp_path_factory.mktemp("openmq") / "shared", heap_mb=512, hostname=False
    )
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def own_artemis(tmp_path: Path) -> Iterator[Callable[..., ArtemisBroker]]:
    """Makes a started broker of the test's own, to kill, freeze or restart; options of ArtemisBroker.create."""
    brokers: list[ArtemisBroker] = []

    def make(**options: Any) -> ArtemisBroker:
        brokers.append(
            broker := ArtemisBroker.create(
                tmp_path / f"broker-{len(brokers)}", **options
            )
        )
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
    root = logging.getLogger()
    own = logging.getLogger("penstock")
    # Fixtures of a module run commands, too, before this and after it
    root.handlers[:] = [
        one for one in root.handlers if not isinstance(one.formatter, LogLine)
    ]
    root.setLevel(logging.WARNING)
    own.setLevel(logging.NOTSET)
    handlers = root.handlers[:]
    yield
    root.handlers[:] = handlers
