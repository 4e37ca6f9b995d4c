"""The chains of roots and victims on a real OpenMQ, all at once."""

import threading
import time
from collections.abc import Mapping, Sequence

import pytest

from flowbench.openmq import (
    LIMITED,
    Scenario,
    clients_of,
    compiled,
    consume,
    observed,
    prepare,
    produce,
)
from penstock.agent import Poller
from penstock.incidents.incident import Incident
from penstock.insight.explain import incidents_in_full
from penstock.insight.text import incident_lines
from penstock_demo.openmq import OpenMQBroker

pytestmark = pytest.mark.broker
SECONDS = 120.0
INTERVAL = 3.0
COLD = 30.0
SCENARIOS = (
    Scenario(
        "limit",
        [
            produce(count=2000), produce(queue="limit_fed", rate=5),
            consume(connection="limited", hang=10, **LIMITED),
            consume(connection="limited", queue="limit_fed", **LIMITED),
        ],
    ),
    Scenario(
        "full", [produce(rate=100), consume(hang=10)], settings={"LimitBehavior": "FLOW_CONTROL", "MaxNumMsgs": 500}
    ),
    Scenario("closed", [produce(rate=5), consume()], pauses="CONSUMERS"),
    Scenario("gone", [produce(rate=5), produce(queue="gone_too", rate=5), consume(connection="leaver", leave=50),
                      consume(connection="leaver", queue="gone_too", leave=50)]),
)  # fmt: skip


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[Incident]]:
    """By the name of a scenario the incidents in which it appears, at the end."""
    folder = tmp_path_factory.mktemp("openmq-incidents")
    last = list[Poller]()
    broker = OpenMQBroker.create(folder / "broker", read_only=False, heap_mb=512)
    try:
        broker.start()
        classes = compiled(broker, folder / "classes")
        prepare(broker, SCENARIOS)
        run = threading.Thread(
            target=observed, args=(broker, folder, last.append, INTERVAL, SECONDS, COLD)
        )
        run.start()
        with clients_of(broker, SCENARIOS, classes, folder / "clients.log"):
            run.join()
    finally:
        broker.kill()
    view = last[-1].assessor.view
    assert view is not None
    found = incidents_in_full(view, view.incidents.told)
    print("\n" + "\n".join(incident_lines(found, time.time())))  # noqa: T201 - for whoever reads the run
    return {
        one.name: [i for i in found if one.name in repr((i.object, i.members, i.title))]
        for one in SCENARIOS
    }


def test_a_connection_at_its_limit_is_the_root_of_the_consumer_that_starves(
    told: Mapping[str, Sequence[Incident]],
) -> None:
    (found,) = told["limit"]
    assert (found.kind, found.victims) == (
        "stalled",
        ["limit_fed (one consumer uses up the flow limit of its connection)"],
    )


def test_a_full_destination_belongs_to_the_consumer_that_hangs(
    told: Mapping[str, Sequence[Incident]],
) -> None:
    (found,) = told["full"]
    assert {key[0] for key in found.members} >= {"stalled"}


def test_a_paused_destination(told: Mapping[str, Sequence[Incident]]) -> None:
    (found,) = told["closed"]
    assert (found.kind, found.object) == ("address_paused", "closed")


def test_one_client_that_left_two_queues(
    told: Mapping[str, Sequence[Incident]],
) -> None:
    (found,) = told["gone"]
    assert (found.kind, len(found.members)) == ("no_consumer", 2)
